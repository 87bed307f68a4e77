"""`hayase runtime …`: many topologies in one Spark application."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from hayase.app.membership import Membership
from hayase.app.runtime_requests import RuntimeRequest, running_runtime, runtime_status
from hayase.app.runtime_settings import is_of_topologies, own_config
from hayase.app.states import State
from hayase.app.stop_request import Starter, StopRequest, is_of_stopping
from hayase.app.streams_runtime import StreamsRuntime
from hayase.cli.lifecycle import run_runtime_to_end, say_stop_of_start
from hayase.cli.load import Loaded, load
from hayase.cli.options import (
    AsJson,
    BootstrapServers,
    ConfigFile,
    DeleteRemovedStores,
    LogDir,
    log_settings,
    read_settings,
    settings_of_pairs,
)
from hayase.cli.progress import run_text
from hayase.cli.runtime_display import ShownStates, remembered, remembered_line, status_line
from hayase.core.config import StreamsConfig
from hayase.core.errors import ConfigError
from hayase.core.logs import configure_logging
from hayase.storage.open import open_blobs

_HELP = "Run many topologies in one Spark application."
_NOT_RUNNING = 3
_REQUEST_S = 120.0

runtime_commands = typer.Typer(no_args_is_help=True, help=_HELP, rich_markup_mode=None)

Name = Annotated[str, typer.Argument(metavar="NAME", help="The topology's name in the runtime.")]
RuntimeConfig = Annotated[
    list[str] | None,
    typer.Option(
        "--config",
        "-c",
        metavar="KEY=VALUE",
        help="A setting of the runtime, by which it is found, e.g. -c application.id=shop; may be repeated.",
    ),
]
AnyConfig = Annotated[
    list[str] | None,
    typer.Option(
        "--config",
        "-c",
        metavar="KEY=VALUE",
        help="A setting of the runtime or of topologies, e.g. -c application.id=shop; may be repeated.",
    ),
]


@runtime_commands.callback(help=_HELP)
def _group() -> None:
    """See `_HELP`."""


@runtime_commands.command(short_help="Run topologies until Ctrl-C or SIGTERM.")
def run(
    targets: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME=]FILE:NAME …",
            help="Topologies to add; a name is the file's unless it is given. Those of earlier runs run, too.",
        ),
    ] = None,
    config: AnyConfig = None,
    config_file: ConfigFile = None,
    to_end: Annotated[bool, typer.Option("--to-end", help="Process what is in the topics now, then stop.")] = False,
    delete_removed_stores: DeleteRemovedStores = False,
    log_dir: LogDir = None,
    bootstrap_servers: BootstrapServers = None,
) -> None:
    """Run many topologies in one Spark application.

    The runtime remembers its topologies: those that were added before run again, paused ones paused. A topology that
    fails does not stop the others. `application.id` is that of the runtime; default: runtime. Settings of topologies
    are those of all that are named here.

    For example:

        hayase runtime run examples/quickstart.py --to-end

        hayase runtime run revenue=shop.py:revenue shop.py:returns -c application.id=shop -b localhost:9092
    """
    of_runtime, of_all = _divided(read_settings(config, config_file))
    runtime = StreamsRuntime(_settings(of_runtime, log_settings(log_dir, bootstrap_servers)))
    loaded = _load_all(targets or [])
    for name, each in loaded.items():
        runtime.add_topology(name, each.topology, of_all, delete_removed_stores=delete_removed_stores)
    typer.echo(f"runtime {runtime.config.application_id}; Ctrl-C stops it")
    if not loaded and not remembered(_own(of_runtime)):
        typer.echo(
            "it has no topologies, and remembers none; add one from another terminal: "
            f"hayase runtime add FILE:NAME -c application.id={runtime.config.application_id}"
        )
    if runtime.config.log_format is None:
        level = runtime.config.log_level or "WARNING"
        configure_logging(form="text", level=level, secrets=runtime.config.secrets)
    with StopRequest() as stop:
        if to_end:
            reports = run_runtime_to_end(runtime.run_to_end, runtime, stop)
            for name, report in reports.items():
                typer.echo(f"{name}: {run_text(report)}")
            if stop.asked:
                typer.echo("stopped before the end; the next run goes on from there")
            return
        _run_until_asked(runtime, stop)
        if runtime.error is not None and not (stop.asked and is_of_stopping(runtime.error)):
            raise runtime.error
    typer.echo("stopped")


def _run_until_asked(runtime: StreamsRuntime, stop: StopRequest) -> None:
    """Run until a stop is asked for, also while it starts, or until it fails."""
    starter = Starter(runtime.start)  # beside this thread, which signals come to
    starter.start()
    shown = ShownStates(runtime)
    while not stop.asked and (starter.is_alive() or runtime.state is State.RUNNING):
        shown.update()
        stop.wait(0.25)
    if starter.is_alive():
        say_stop_of_start()
        runtime.close()  # it is starting, so this only asks
    starter.join()
    runtime.close()
    if starter.error is not None and not (stop.asked and is_of_stopping(starter.error)):
        raise starter.error


@runtime_commands.command(short_help="The topologies of a running runtime, and how they are.")
def status(as_json: AsJson = False, config: RuntimeConfig = None, config_file: ConfigFile = None) -> None:
    """Tell how the topologies of a running runtime are. Exit codes: 0 it runs, 3 it does not run.

    Of one that starts or does not run it tells the topologies that it remembers.

    For example:

        hayase runtime status -c application.id=shop
    """
    settings = _found(config, config_file)
    said = runtime_status(settings)
    if said is None:
        typer.echo(f"runtime {settings.application_id!r} is not running", err=True)
        if not as_json:
            _echo_remembered(settings)
        raise typer.Exit(_NOT_RUNNING)
    if as_json:
        typer.echo(msgspec.json.encode(said).decode())
        return
    typer.echo(f"runtime {settings.application_id}: {said.state}")
    for name, topology in sorted(said.topologies.items()):
        typer.echo(status_line(name, topology))
    if not said.topologies and said.state == State.REBALANCING.value:
        typer.echo("it is starting; how its topologies are is known once Spark is up")
        _echo_remembered(settings)


def _echo_remembered(settings: StreamsConfig) -> None:
    members = remembered(settings)
    for name, member in sorted(members.items()):
        typer.echo(remembered_line(name, member))
    if not members:
        typer.echo("it remembers no topologies")


@runtime_commands.command(short_help="Add a topology to a running runtime.")
def add(
    target: Annotated[str, typer.Argument(metavar="[NAME=]FILE:NAME", help="The topology.")],
    application_id: Annotated[
        str, typer.Option("--adopt", metavar="APPLICATION_ID", help="Go on with the state of a stopped application.")
    ] = "",
    topology_setting: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="A setting of the topology; wins over -c; may be repeated."),
    ] = None,
    config: AnyConfig = None,
    config_file: ConfigFile = None,
) -> None:
    """Add a topology to a running runtime; it is started at once, and remembered.

    Settings of topologies among those of --config, --config-file and hayase.toml are settings of this one, as those of
    --set are.

    For example:

        hayase runtime add revenue=shop.py:revenue -c application.id=shop --set commit.interval.ms=1000
    """
    of_runtime, of_topology = _divided(read_settings(config, config_file))
    settings = _own(of_runtime)
    name, loaded = _load(target)
    requests, alive = running_runtime(settings)
    program = Membership(open_blobs(settings.checkpoint_dir, fsync=settings.checkpoint_fsync)).keep_program(
        loaded.topology, {**of_topology, **settings_of_pairs(topology_setting, "--set")}
    )
    requests.ask(RuntimeRequest("add", name, program, application_id), _REQUEST_S, alive)
    typer.echo(f"{name} was added")


@runtime_commands.command(short_help="Have a changed topology take the place of one.")
def replace(
    target: Annotated[str, typer.Argument(metavar="[NAME=]FILE:NAME", help="The topology, as it is to be.")],
    topology_setting: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=VALUE", help="A setting of the topology; default: those that it has. Wins over -c."
        ),
    ] = None,
    delete_removed_stores: DeleteRemovedStores = False,
    config: AnyConfig = None,
    config_file: ConfigFile = None,
) -> None:
    """Have a changed topology take the place of one in a running runtime, between two epochs.

    It goes on with the state: stores that stay need the name, kind and key that they have. Where it is refused, the
    old one goes on. `hayase describe --against` says beforehand what would happen. What changes is printed: stores
    that are new begin empty, and rows of those that are gone stay unless --delete-removed-stores is given.
    Its settings stay, unless --set, --config or --config-file has one of a topology: then it has these, and those of
    topologies in hayase.toml, alone.

    For example:

        hayase runtime replace revenue=shop.py:revenue -c application.id=shop
    """
    of_runtime, of_topology = _divided(read_settings(config, config_file))
    settings = _own(of_runtime)
    own = settings_of_pairs(topology_setting, "--set")
    given = own or config_file is not None or any(map(is_of_topologies, settings_of_pairs(config, "--config")))
    if not given:
        of_topology = {}  # it keeps those that it has
    name, loaded = _load(target)
    requests, alive = running_runtime(settings)
    program = Membership(open_blobs(settings.checkpoint_dir, fsync=settings.checkpoint_fsync)).keep_program(
        loaded.topology, {**of_topology, **own}
    )
    request = RuntimeRequest("replace", name, program, delete_removed_stores=delete_removed_stores)
    lines = requests.ask(request, _REQUEST_S, alive)
    typer.echo(f"{name} was replaced")
    for line in lines:
        typer.echo(f"  {line}")


@runtime_commands.command(short_help="Stop a topology, and forget it.")
def remove(
    name: Name,
    delete_state: Annotated[
        bool, typer.Option("--delete-state", help="Also remove its state, internal topics and markers.")
    ] = False,
    config: RuntimeConfig = None,
    config_file: ConfigFile = None,
) -> None:
    """Stop a topology of a running runtime between two epochs, and forget it. Its state stays unless asked otherwise.

    For example:

        hayase runtime remove revenue -c application.id=shop
    """
    _ask(RuntimeRequest("remove", name, delete_state=delete_state), config, config_file)
    typer.echo(f"{name} was removed")


@runtime_commands.command(short_help="Have a topology begin no new epochs.")
def pause(name: Name, config: RuntimeConfig = None, config_file: ConfigFile = None) -> None:
    """Have a topology begin no new epochs until it is resumed, also after a restart of the runtime.

    For example:

        hayase runtime pause revenue -c application.id=shop
    """
    said = _ask(RuntimeRequest("pause", name), config, config_file)
    typer.echo("\n".join(said) or f"{name} is paused")


@runtime_commands.command(short_help="Have a paused topology go on.")
def resume(name: Name, config: RuntimeConfig = None, config_file: ConfigFile = None) -> None:
    """Have a paused topology go on.

    For example:

        hayase runtime resume revenue -c application.id=shop
    """
    said = _ask(RuntimeRequest("resume", name), config, config_file)
    typer.echo("\n".join(said) or f"{name} goes on")


@runtime_commands.command(short_help="Stop a topology and start it again, e.g. after an error.")
def restart(name: Name, config: RuntimeConfig = None, config_file: ConfigFile = None) -> None:
    """Stop a topology, if it runs, and start it again. It goes on where it was.

    For example:

        hayase runtime restart revenue -c application.id=shop
    """
    _ask(RuntimeRequest("restart", name), config, config_file)
    typer.echo(f"{name} was restarted")


def _ask(request: RuntimeRequest, config: list[str] | None, config_file: Path | None) -> list[str]:
    requests, alive = running_runtime(_found(config, config_file))
    return requests.ask(request, _REQUEST_S, alive)


def _settings(given: dict[str, Any], topics: dict[str, Any]) -> dict[str, Any]:
    return {"application.id": "runtime", **topics, **given}


def _divided(given: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The settings of the runtime, and those of topologies."""
    of_topologies = {key: value for key, value in given.items() if is_of_topologies(key)}
    return {key: value for key, value in given.items() if key not in of_topologies}, of_topologies


def _own(of_runtime: dict[str, Any]) -> StreamsConfig:
    return own_config(_settings(of_runtime, {}))


def _found(config: list[str] | None, config_file: Path | None) -> StreamsConfig:
    """The settings that say which runtime is meant; a file may have those of topologies beside them.

    Raises:
        ConfigError: `SETTING_OF_TOPOLOGY`: `--config` has one, which this command could only ignore.
    """
    for key in settings_of_pairs(config, "--config"):
        if is_of_topologies(key):
            raise ConfigError(
                "SETTING_OF_TOPOLOGY",
                f"--config {key} is a setting of a topology, which this command does not change: give it to `hayase "
                "runtime run`, `add` or `replace`; here --config says which runtime is meant, e.g. "
                "-c application.id=shop",
                setting=key,
            )
    return _own(_divided(read_settings(config, config_file))[0])


def _load_all(targets: list[str]) -> dict[str, Loaded]:
    """The programs by their names."""
    loaded: dict[str, Loaded] = {}
    place_of: dict[str, str] = {}
    for target in targets:
        name, program = _load(target)
        if name in loaded:
            raise ConfigError(
                "INVALID_NAME",
                f"{place_of[name]} and {target} are both named {name!r}: give one of them another name, as in "
                f"{name}_2={target.rpartition('=')[2]}",
            )
        loaded[name], place_of[name] = program, target
    return loaded


def _load(target: str) -> tuple[str, Loaded]:
    """The name and the program of `[NAME=]FILE:NAME`; its functions are sent to workers by value."""
    from hayase.runtime.wire.pickling import by_value

    name, given, place = target.partition("=")
    loaded = load(place if given else target)
    if not given:
        name = "".join(c if c.isascii() and (c.isalnum() or c in "_.") else "_" for c in loaded.name)
    if loaded.topology.spark_sources or loaded.topology.spark_sinks:
        raise ConfigError("NOT_IN_SHARED_RUNTIME", f"{target} uses from_spark or to_spark: use `hayase run`")
    if loaded.module is not None:
        by_value(loaded.module)
    return name, loaded
