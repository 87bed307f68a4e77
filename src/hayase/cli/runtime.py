"""`hayase runtime …`: many topologies in one Spark application."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from hayase.app.membership import Membership
from hayase.app.runtime_requests import RuntimeRequest, TopologyStatus, running_runtime, runtime_status
from hayase.app.runtime_settings import is_of_topologies, own_config
from hayase.app.states import State
from hayase.app.stop_request import StopRequest, is_of_stopping
from hayase.app.streams_runtime import StreamsRuntime
from hayase.cli.lifecycle import run_runtime_to_end
from hayase.cli.load import Loaded, load
from hayase.cli.options import (
    AsJson,
    BootstrapServers,
    Config,
    ConfigFile,
    DeleteRemovedStores,
    LogDir,
    log_settings,
    read_settings,
    settings_of_pairs,
)
from hayase.cli.progress import run_text
from hayase.core.config import StreamsConfig
from hayase.core.errors import ConfigError, HayaseError
from hayase.core.logs import configure_logging
from hayase.storage.open import open_blobs

_HELP = "Run many topologies in one Spark application."
_NOT_RUNNING = 3
_REQUEST_S = 120.0

runtime_commands = typer.Typer(no_args_is_help=True, help=_HELP, rich_markup_mode=None)

Name = Annotated[str, typer.Argument(metavar="NAME", help="The topology's name in the runtime.")]


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
    config: Config = None,
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
    given = read_settings(config, config_file)
    of_all = {key: value for key, value in given.items() if is_of_topologies(key)}
    of_runtime = {key: value for key, value in given.items() if key not in of_all}
    runtime = StreamsRuntime(_settings(of_runtime, log_settings(log_dir, bootstrap_servers)))
    for target in targets or []:
        name, loaded = _load(target)
        runtime.add_topology(name, loaded.topology, of_all, delete_removed_stores=delete_removed_stores)
    typer.echo(f"runtime {runtime.config.application_id}; Ctrl-C stops it")
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
        try:
            runtime.start()
        except HayaseError as error:
            if not (stop.asked and is_of_stopping(error)):
                raise
            typer.echo("stopped")
            return
        shown: dict[str, str] = {}
        while not stop.asked and runtime.state is State.RUNNING:
            shown = _show_states(runtime, shown)
            stop.wait(0.25)
        runtime.close()
    if runtime.error is not None:
        raise runtime.error
    typer.echo("stopped")


@runtime_commands.command(short_help="The topologies of a running runtime, and how they are.")
def status(as_json: AsJson = False, config: Config = None, config_file: ConfigFile = None) -> None:
    """Tell how the topologies of a running runtime are. Exit codes: 0 it runs, 3 it does not run.

    For example:

        hayase runtime status -c application.id=shop
    """
    settings = _own(read_settings(config, config_file))
    said = runtime_status(settings)
    if said is None:
        typer.echo(f"runtime {settings.application_id!r} is not running", err=True)
        raise typer.Exit(_NOT_RUNNING)
    if as_json:
        typer.echo(msgspec.json.encode(said).decode())
        return
    typer.echo(f"runtime {settings.application_id}: {said.state}")
    for name, topology in sorted(said.topologies.items()):
        typer.echo(_line(name, topology))


@runtime_commands.command(short_help="Add a topology to a running runtime.")
def add(
    target: Annotated[str, typer.Argument(metavar="[NAME=]FILE:NAME", help="The topology.")],
    application_id: Annotated[
        str, typer.Option("--adopt", metavar="APPLICATION_ID", help="Go on with the state of a stopped application.")
    ] = "",
    topology_setting: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="A setting of the topology; may be repeated.")
    ] = None,
    config: Config = None,
    config_file: ConfigFile = None,
) -> None:
    """Add a topology to a running runtime; it is started at once, and remembered.

    For example:

        hayase runtime add revenue=shop.py:revenue -c application.id=shop --set commit.interval.ms=1000
    """
    settings = _own(read_settings(config, config_file))
    name, loaded = _load(target)
    requests, alive = running_runtime(settings)
    program = Membership(open_blobs(settings.checkpoint_dir, fsync=settings.checkpoint_fsync)).keep_program(
        loaded.topology, settings_of_pairs(topology_setting, "--set")
    )
    requests.ask(RuntimeRequest("add", name, program, application_id), _REQUEST_S, alive)
    typer.echo(f"{name} was added")


@runtime_commands.command(short_help="Have a changed topology take the place of one.")
def replace(
    target: Annotated[str, typer.Argument(metavar="[NAME=]FILE:NAME", help="The topology, as it is to be.")],
    topology_setting: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="A setting of the topology; default: those that it has."),
    ] = None,
    delete_removed_stores: DeleteRemovedStores = False,
    config: Config = None,
    config_file: ConfigFile = None,
) -> None:
    """Have a changed topology take the place of one in a running runtime, between two epochs.

    It goes on with the state: stores that stay need the name, kind and key that they have. Where it is refused, the
    old one goes on. `hayase describe --against` says beforehand what would happen. What changes is printed: stores
    that are new begin empty, and rows of those that are gone stay unless --delete-removed-stores is given.

    For example:

        hayase runtime replace revenue=shop.py:revenue -c application.id=shop
    """
    settings = _own(read_settings(config, config_file))
    name, loaded = _load(target)
    requests, alive = running_runtime(settings)
    program = Membership(open_blobs(settings.checkpoint_dir, fsync=settings.checkpoint_fsync)).keep_program(
        loaded.topology, settings_of_pairs(topology_setting, "--set")
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
    config: Config = None,
    config_file: ConfigFile = None,
) -> None:
    """Stop a topology of a running runtime between two epochs, and forget it. Its state stays unless asked otherwise.

    For example:

        hayase runtime remove revenue -c application.id=shop
    """
    _ask(RuntimeRequest("remove", name, delete_state=delete_state), config, config_file)
    typer.echo(f"{name} was removed")


@runtime_commands.command(short_help="Have a topology begin no new epochs.")
def pause(name: Name, config: Config = None, config_file: ConfigFile = None) -> None:
    """Have a topology begin no new epochs until it is resumed, also after a restart of the runtime.

    For example:

        hayase runtime pause revenue -c application.id=shop
    """
    said = _ask(RuntimeRequest("pause", name), config, config_file)
    typer.echo("\n".join(said) or f"{name} is paused")


@runtime_commands.command(short_help="Have a paused topology go on.")
def resume(name: Name, config: Config = None, config_file: ConfigFile = None) -> None:
    """Have a paused topology go on.

    For example:

        hayase runtime resume revenue -c application.id=shop
    """
    said = _ask(RuntimeRequest("resume", name), config, config_file)
    typer.echo("\n".join(said) or f"{name} goes on")


@runtime_commands.command(short_help="Stop a topology and start it again, e.g. after an error.")
def restart(name: Name, config: Config = None, config_file: ConfigFile = None) -> None:
    """Stop a topology, if it runs, and start it again. It goes on where it was.

    For example:

        hayase runtime restart revenue -c application.id=shop
    """
    _ask(RuntimeRequest("restart", name), config, config_file)
    typer.echo(f"{name} was restarted")


def _ask(request: RuntimeRequest, config: list[str] | None, config_file: Path | None) -> list[str]:
    requests, alive = running_runtime(_own(read_settings(config, config_file)))
    return requests.ask(request, _REQUEST_S, alive)


def _settings(given: dict[str, Any], topics: dict[str, Any]) -> dict[str, Any]:
    return {"application.id": "runtime", **topics, **given}


def _own(given: dict[str, Any]) -> StreamsConfig:
    of_runtime = {key: value for key, value in given.items() if not is_of_topologies(key)}
    return own_config(_settings(of_runtime, {}))


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


def _show_states(runtime: StreamsRuntime, shown: Mapping[str, str]) -> dict[str, str]:
    """Print the topologies whose line has changed since it was shown; the lines as they are now."""
    lines = {}
    for name, app in sorted(runtime.topologies.items()):
        failed = f": {app.error}" if app.error is not None else ""
        lines[name] = f"{name}\t{app.config.application_id}\t{app.state.value}{failed}"
        if lines[name] != shown.get(name):
            typer.echo(lines[name])
    return lines


def _line(name: str, topology: TopologyStatus) -> str:
    run = topology.run
    state = f"{run.state}{', paused' if topology.paused else ''}"
    lag = "" if run.lag_records is None else f", {run.lag_records:,} behind"
    error = f": {run.error}" if run.error else ""
    return f"{name}\t{topology.application_id}\t{state}\t{run.consumed:,} read, {run.produced:,} written{lag}{error}"
