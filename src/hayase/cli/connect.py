"""`hayase connect`: a worker of connectors with its REST interface."""

from __future__ import annotations

import json
import signal
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import quote

import typer

from hayase.cli.options import BootstrapServers, Config, ConfigFile, LogDir, log_settings, read_settings
from hayase.core.config import StreamsConfig
from hayase.core.errors import ConfigError, MissingRequirementError
from hayase.core.logs import configure_logging
from hayase.core.signal_event import SignalEvent
from hayase.log.config import log_config

if TYPE_CHECKING:
    from hayase.connect.slots.pool import ConnectorSlotPool
    from hayase.connect.worker_lease import WorkerLease
    from hayase.log.protocol import LogConfig

_LOG_KEYS = ("log.dir", "bootstrap.servers", "log.level", "log.format", "state.dir")
_SPARK = "spark."
_WITHOUT_SPARK = (
    "With --in-process, or without --master and settings spark.…, connectors run in threads of this process, without "
    "Spark and Java."
)


def connect(
    files: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[CONNECTOR.json …]", help="Connectors to make or to change before the worker runs."),
    ] = None,
    config: Config = None,
    config_file: ConfigFile = None,
    listen: Annotated[
        str | None,
        typer.Option(
            "--listen", metavar="URL", help="Where the REST interface answers; default http://127.0.0.1:8083."
        ),
    ] = None,
    plugin_path: Annotated[
        list[Path] | None,
        typer.Option("--plugin-path", metavar="DIR", help="A folder of connectors in Python; may be repeated."),
    ] = None,
    master: Annotated[
        str | None,
        typer.Option(
            "--master",
            metavar="MASTER",
            help="Run tasks in one Spark job, as local[4] or spark://HOST:PORT, instead of threads of this process.",
        ),
    ] = None,
    slots: Annotated[
        int | None,
        typer.Option("--slots", min=1, help="With --master: processes that run tasks; default: Spark's cores."),
    ] = None,
    in_process: Annotated[
        bool,
        typer.Option(
            "--in-process",
            help="Run tasks in threads of this process, whatever spark.… the configuration has; default without them.",
        ),
    ] = False,
    log_dir: LogDir = None,
    bootstrap_servers: BootstrapServers = None,
) -> None:
    """Run connectors until Ctrl-C, SIGTERM or SIGHUP, as Kafka Connect does: same settings, same REST interface.

    Connectors run in threads of this process and need no Java; with --master their tasks run in the slots of one Spark
    job, and those of a slot that is killed start elsewhere. They are kept in the topic connect-configs: a worker
    that starts again goes on with them. A file holds {"name": …, "config": {…}}, or the configuration alone.

    For example:

        hayase connect users.json -c group.id=shop

        hayase connect -b localhost:9092 --config-file worker.properties --plugin-path connectors/

        hayase connect users.json --master 'local[4]'
    """
    from hayase.connect.worker import ConnectWorker

    settings = read_settings(config, config_file, log_settings(log_dir, bootstrap_servers))
    if listen is not None:
        settings["listeners"] = listen
    if plugin_path:
        settings["plugin.path"] = ",".join(str(each) for each in plugin_path)
    spark = _spark_settings(settings, master, slots, in_process=in_process)
    of_log = StreamsConfig({"application.id": "hayase-connect", **_of_log(settings)})
    configure_logging(form=of_log.log_format or "text", level=of_log.log_level or "INFO", secrets=of_log.secrets)
    log = log_config(of_log)
    props = {name: str(value) for name, value in settings.items() if not _is_of_log_or_spark(name)}
    ended = SignalEvent()
    _end_at_signals(ended)
    with ExitStack() as stack:
        lease = _lease(stack, log, props, ended)
        host = _spark_slots(stack, spark, of_log, props, slots)
        worker = stack.enter_context(ConnectWorker(log, props, host=host))
        for file in files or ():
            connector = read_connector(file)
            worker.herder.put_config(connector["name"], connector)
        where = "" if host is None else f" in {host.size} slots of Spark"
        typer.echo(f"connectors run{where}; REST at {', '.join(worker.urls)} (Ctrl-C stops)", err=True)
        ended.wait()
        lost = lease.lost
    if lost is not None:
        raise lost


def _end_at_signals(ended: SignalEvent) -> None:
    """Set the event at Ctrl-C, SIGTERM, or when the terminal is closed.

    What is ignored stays ignored, as with a JVM: a script that ends with `hayase connect &` starts it so, and a Ctrl-C
    that is meant for another program does not end it; nor does the end of a session under `nohup`.
    """
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, lambda *_: ended.set())


def _lease(stack: ExitStack, log: LogConfig, props: Mapping[str, str], ended: SignalEvent) -> WorkerLease:
    """The lease of the group, until the stack is left; sets the event if another worker takes over."""
    from hayase.connect.config.worker_config import WorkerConfig
    from hayase.connect.worker_lease import WorkerLease
    from hayase.log.open import open_log

    opened = open_log(log)
    stack.callback(opened.close)
    return stack.enter_context(WorkerLease(opened, WorkerConfig(props).group, ended.set))


def _spark_settings(
    settings: Mapping[str, object], master: str | None, slots: int | None, *, in_process: bool
) -> dict[str, str]:
    """Settings of Spark; empty if tasks run in threads.

    Raises:
        ConfigError: `OPTIONS_EXCLUDE`: `--slots` without a master, or `--in-process` with one of them.
    """
    if in_process:
        if master is not None or slots is not None:
            raise ConfigError(
                "OPTIONS_EXCLUDE", "--in-process is for tasks without Spark: leave out --master and --slots, or it"
            )
        return {}
    spark = {name: str(value) for name, value in settings.items() if name.startswith(_SPARK)}
    if master is not None:
        spark["spark.master"] = master
    if slots is not None and not spark:
        raise ConfigError("OPTIONS_EXCLUDE", "--slots is for tasks in Spark: give --master as well")
    return spark


def _spark_slots(
    stack: ExitStack, spark: Mapping[str, str], of_log: StreamsConfig, props: Mapping[str, str], slots: int | None
) -> ConnectorSlotPool | None:
    """The slots of a Spark job, until the stack is left; `None` without settings of Spark.

    Raises:
        HayaseError: Spark does not start.
        MissingRequirementError: `PACKAGE_MISSING`, `JAVA_NOT_FOUND`: it cannot, on this machine.
    """
    if not spark:
        return None
    from hayase.connect.config.worker_config import WorkerConfig

    name = f"hayase-connect-{WorkerConfig(props).group}"
    folder = of_log.state_dir / quote(name, safe="")
    try:
        from hayase.runtime.driver.connector_job import ConnectorJob

        job = ConnectorJob(name, folder, spark, slots, log_level=of_log.log_level or "INFO")
        stack.callback(job.close)
        job.start()
    except MissingRequirementError as error:
        raise MissingRequirementError(error.condition, f"{error.message} {_WITHOUT_SPARK}") from error
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in ("pyspark", "py4j"):
            raise
        raise MissingRequirementError(
            "PACKAGE_MISSING",
            f"tasks in Spark need the package {package}, which is not installed: pip install {package}. "
            f"{_WITHOUT_SPARK}",
        ) from error
    return job.pool


def _is_of_log_or_spark(name: str) -> bool:
    return name in _LOG_KEYS or name.startswith(_SPARK)


def _of_log(settings: dict[str, object]) -> dict[str, object]:
    """Settings that say where topics are, and how Kafka's clients connect."""
    names = (*_LOG_KEYS, "security.protocol")
    prefixes = ("sasl.", "ssl.truststore", "ssl.keystore", "ssl.key.password", "consumer.", "producer.", "admin.")
    return {
        name: value
        for name, value in settings.items()
        if name in names or (name.startswith(prefixes) and ".override." not in name)
    }


def read_connector(file: Path) -> dict[str, str]:
    """The configuration in a file, with its name.

    Raises:
        ConfigError: the file cannot be read, or holds no connector.
    """
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError("INVALID_SETTING", f"{file} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise ConfigError("INVALID_SETTING", f"{file} is no JSON: {error}") from error
    props = found.get("config", found) if isinstance(found, dict) else None
    if not isinstance(props, dict):
        raise ConfigError("INVALID_SETTING", f'{file} must hold {{"name": …, "config": {{…}}}}')
    texts = {str(key): value if isinstance(value, str) else json.dumps(value) for key, value in props.items()}
    name = found.get("name") or texts.get("name") or file.stem
    return {**texts, "name": str(name)}
