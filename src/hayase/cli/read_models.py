"""`hayase read-models …`: rows of databases that follow events."""

from __future__ import annotations

import signal
import sys
from datetime import timedelta
from typing import Annotated

import typer

from hayase.cli.load import Loaded, load, module_of
from hayase.cli.options import BootstrapServers, Config, ConfigFile, LogDir
from hayase.cli.run import Target, program_settings
from hayase.cli.state_output import Output, lines_of
from hayase.core.config import StreamsConfig
from hayase.core.errors import ConfigError, HayaseError
from hayase.core.records import TopicPartition
from hayase.core.signal_event import SignalEvent
from hayase.log.config import log_config
from hayase.log.open import open_log
from hayase.patterns.read_models.read_model import ReadModel, read_models_of
from hayase.patterns.read_models.runner import ReadModelRunner, ReadModelState, make_topic
from hayase.patterns.read_models.verification import verify as verify_rows

read_models = typer.Typer(
    no_args_is_help=True, help="Read models: run, status, switch, verify, drop.", rich_markup_mode=None
)

_PROGRESS_S = 1.0
ModelName = Annotated[str, typer.Argument(metavar="NAME")]
Format = Annotated[Output, typer.Option("--format", help="A table, or one JSON object a line.")]


@read_models.callback()
def _group() -> None:
    """Look after the read models that a program has: `ReadModel`s among the names of its module, or in a list there.

    Use the settings the application runs with (application.id, where the topics are).
    """


@read_models.command(short_help="Fill read models, until it is interrupted.")
def run(
    target: Target,
    name: Annotated[list[str] | None, typer.Argument(metavar="[NAME]...")] = None,
    until_filled: Annotated[bool, typer.Option("--until-filled", help="End when they have no lag.")] = False,
    config: Config = None,
    config_file: ConfigFile = None,
    log_dir: LogDir = None,
    bootstrap_servers: BootstrapServers = None,
) -> None:
    """Fill the read models of a program, all or those that are named, and print how far they are.

    A new version fills a table of its own beside the one that is shown. Ends with code 1 if one fails.

    For example:

        hayase read-models run shop.py:topology

        hayase read-models run shop.py:topology orders --until-filled
    """
    loaded, settings = _loaded(target, config, config_file, log_dir, bootstrap_servers)
    models = _models(loaded)
    runners = [ReadModelRunner(_named(models, each), settings) for each in name or sorted(models)]
    stop = SignalEvent()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    _make_topics(runners, settings)
    for runner in runners:
        runner.start()
    try:
        _wait(runners, stop, until_filled=until_filled)
    finally:
        for runner in runners:
            runner.close()
    if any(runner.status.state is ReadModelState.FAILED for runner in runners):
        raise typer.Exit(1)


def _make_topics(runners: list[ReadModelRunner], settings: StreamsConfig) -> None:
    log = open_log(log_config(settings))
    try:
        for runner in runners:
            make_topic(log, runner.model, 4)
    finally:
        log.close()


def _wait(runners: list[ReadModelRunner], stop: SignalEvent, *, until_filled: bool) -> None:
    printed: dict[str, str] = {}
    ended = (ReadModelState.FAILED, ReadModelState.STOPPED)
    while not stop.is_set():
        for runner in runners:
            status = runner.status
            share = (
                f"{status.position / (status.position + status.lag):.0%}" if status.position + status.lag > 0 else "-"
            )
            line = f"{status.name} v{status.version}: {status.state}"
            if status.lag >= 0:
                line += f", {status.position} offsets, lag {status.lag}, {share}"
            if status.reason:
                line += f": {status.reason}"
            if printed.get(status.name) != line:
                printed[status.name] = line
                typer.echo(line, err=status.state is ReadModelState.FAILED)
        sys.stdout.flush()
        if all(
            runner.status.state in ended or (until_filled and runner.status.state is ReadModelState.RUNNING)
            for runner in runners
        ):
            return
        stop.wait(_PROGRESS_S if not until_filled else 0.1)


@read_models.command(short_help="Versions, which one is shown, and their lag.")
def status(
    target: Target,
    output: Format = Output.TABLE,
    config: Config = None,
    config_file: ConfigFile = None,
    log_dir: LogDir = None,
    bootstrap_servers: BootstrapServers = None,
) -> None:
    """Print the versions of each read model that its database has; a database that is away is said.

    For example:

        hayase read-models status shop.py:topology
    """
    loaded, settings = _loaded(target, config, config_file, log_dir, bootstrap_servers)
    rows: list[dict[str, object]] = []
    for model in _models(loaded).values():
        common = {"read model": model.name, "where": model.target.place}
        try:
            versions = model.versions()
            ends = _ends(model, settings)
        except HayaseError as error:
            rows.append(
                {**common, "version": model.version, "shown": "", "offsets": "", "lag": "", "state": error.message}
            )
            continue
        for each in versions:
            lag = sum(max(0, end - each.offsets.get(place, 0)) for place, end in ends.items())
            rows.append({
                **common, "version": each.version, "shown": "yes" if each.served else "no", "offsets": each.position,
                "lag": lag, "state": "of this program" if each.version == model.version else "",
            })  # fmt: skip
        if model.version not in [each.version for each in versions]:
            rows.append(
                {
                    **common,
                    "version": model.version,
                    "shown": "no",
                    "offsets": 0,
                    "lag": sum(ends.values()),
                    "state": "not begun",
                }
            )
    for line in lines_of(rows, output):
        typer.echo(line)


@read_models.command(short_help="Have the view show another version.")
def switch(
    target: Target,
    name: ModelName,
    version: Annotated[int | None, typer.Option("--version", help="Default: that of the program.")] = None,
    timeout: Annotated[float, typer.Option("--timeout", help="Seconds to wait for one that is behind.")] = 10.0,
    config: Config = None,
    config_file: ConfigFile = None,
    log_dir: LogDir = None,
    bootstrap_servers: BootstrapServers = None,
) -> None:
    """Switch the view of a read model, in one transaction; an earlier version backs out of a switch.

    For example:

        hayase read-models switch shop.py:topology orders --version 1
    """
    loaded, _ = _loaded(target, config, config_file, log_dir, bootstrap_servers)
    model = _named(_models(loaded), name)
    wanted = model.version if version is None else version
    before = model.switch(wanted, timeout=timedelta(seconds=timeout))
    typer.echo(f"{name} shows version {wanted}; before: {before}")


@read_models.command(short_help="Remove the table of a version that is not shown.")
def drop(
    target: Target,
    name: ModelName,
    version: Annotated[int, typer.Option("--version", help="Which.")],
    config: Config = None,
    config_file: ConfigFile = None,
    log_dir: LogDir = None,
    bootstrap_servers: BootstrapServers = None,
) -> None:
    """Remove the table of a version that the view does not show.

    For example:

        hayase read-models drop shop.py:topology orders --version 1
    """
    loaded, _ = _loaded(target, config, config_file, log_dir, bootstrap_servers)
    _named(_models(loaded), name).drop(version)
    typer.echo(f"version {version} of {name} is gone")


@read_models.command(short_help="Compare rows with a fold of the topic.")
def verify(
    target: Target,
    name: Annotated[str | None, typer.Argument(metavar="NAME")] = None,
    output: Format = Output.TABLE,
    config: Config = None,
    config_file: ConfigFile = None,
    log_dir: LogDir = None,
    bootstrap_servers: BootstrapServers = None,
) -> None:
    """Project the topic again, up to where the table is, and compare every row. Ends with code 1 if one differs.

    For example:

        hayase read-models verify shop.py:topology orders
    """
    loaded, settings = _loaded(target, config, config_file, log_dir, bootstrap_servers)
    models = _models(loaded)
    chosen = list(models.values()) if name is None else [_named(models, name)]
    rows: list[dict[str, object]] = []
    different = 0
    for model in chosen:
        result = verify_rows(model, settings)
        different += result.different
        rows.append(
            {"read model": model.name, "rows": result.rows, "records": result.records, "different": result.different}
        )
        for difference in result.differences:
            typer.echo(f"{model.name} {difference}", err=True)
    for line in lines_of(rows, output):
        typer.echo(line)
    if different:
        typer.echo("fill a new table from the beginning: raise `version`, run, switch", err=True)
        raise typer.Exit(1)


def _loaded(
    target: str, config: Config, config_file: ConfigFile, log_dir: LogDir, bootstrap_servers: BootstrapServers
) -> tuple[Loaded, StreamsConfig]:
    loaded = load(target)
    return loaded, program_settings(loaded, config, config_file, log_dir, bootstrap_servers)


def _models(loaded: Loaded) -> dict[str, ReadModel]:
    models = read_models_of(vars(module_of(loaded)))
    if not models:
        raise ConfigError(
            "UNKNOWN_READ_MODEL", f"{loaded.name} has no read model among its names; make one: orders = ReadModel(…)"
        )
    return models


def _named(models: dict[str, ReadModel], name: str) -> ReadModel:
    if name not in models:
        raise ConfigError(
            "UNKNOWN_READ_MODEL", f"the program has no read model {name!r}; it has: {', '.join(sorted(models))}"
        )
    return models[name]


def _ends(model: ReadModel, settings: StreamsConfig) -> dict[tuple[str, int], int]:
    log = open_log(log_config(settings))
    try:
        info = log.describe([model.source.topic]).get(model.source.topic)
        if info is None:
            return {}
        places = [TopicPartition(model.source.topic, number) for number in range(info.partitions)]
        return {(info.topic_id, each.partition): end for each, end in log.end_offsets(places).items()}
    finally:
        log.close()
