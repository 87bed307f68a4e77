"""`hayase events …`: what happened to the aggregates of an application."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from hayase.app.app import StreamsApp
from hayase.cli.load import load, module_of
from hayase.cli.options import BootstrapServers, Config, ConfigFile, LogDir
from hayase.cli.run import Target, program_settings
from hayase.cli.state_output import Output, lines_of, parse_time
from hayase.core.errors import ProcessingError
from hayase.core.time import to_iso
from hayase.patterns.app import PatternsApp, aggregate_named
from hayase.patterns.event_log import EventLog
from hayase.patterns.history import EventHistory
from hayase.patterns.read_models.read_model import read_models_of
from hayase.patterns.recorded_events import RecordedEvent, UnknownEvent, evolved
from hayase.patterns.relations import aggregates_of
from hayase.patterns.replay import DATABASE
from hayase.patterns.replay import replay as run_replay
from hayase.patterns.state_rows import AggregateState
from hayase.patterns.verification import rebuild as rebuild_states
from hayase.patterns.verification import verify as verify_states

events = typer.Typer(
    no_args_is_help=True, help="Aggregates: list, show, replay, verify, rebuild, erase.", rich_markup_mode=None
)

_EPOCH = "epoch:"
_VERSIONS_MAX = 100_000_000_000
"""A number below it is a version; as milliseconds since 1970 it would be before March 1973."""

AggregateName = Annotated[str, typer.Argument(metavar="AGGREGATE")]
Format = Annotated[Output, typer.Option("--format", help="A table, or one JSON object a line.")]


@events.callback()
def _group() -> None:
    """Aggregates of an application, while it runs or not: list, show, replay, verify; and rebuild their states.

    Use the settings the application runs with (application.id, state.dir, where the topics are).
    """


@events.command("list", short_help="Every aggregate: its topic, its commands and events.")
def list_aggregates(
    target: Target,
    output: Format = Output.TABLE,
    config: Config = None,
    config_file: ConfigFile = None,
    log_dir: LogDir = None,
    bootstrap_servers: BootstrapServers = None,
) -> None:
    """Print every aggregate of a topology, the types of its commands and events, and how far its topic is.

    For example:

        hayase events list shop.py:topology
    """
    loaded = load(target)
    settings = program_settings(loaded, config, config_file, log_dir, bootstrap_servers)
    rows = []
    for name, aggregate in sorted(aggregates_of(loaded.topology).items()):
        with EventLog.opened(aggregate, settings) as log:
            recorded = log.count()
        rows.append({
            "aggregate": name,
            "topic": aggregate.events_topic,
            "offsets": recorded,
            "commands": ", ".join(aggregate.command_types.types),
            "events": ", ".join(aggregate.event_types.types),
        })  # fmt: skip
    _print(rows, output)


@events.command(short_help="The story of one aggregate, and its state.")
def show(
    target: Target,
    aggregate: AggregateName,
    aggregate_id: Annotated[str, typer.Argument(metavar="ID")],
    until: Annotated[
        str | None,
        typer.Option(
            "--until",
            metavar="VERSION|TIME|epoch:N",
            help="Only up to a version, a time (ISO 8601, UTC), or the end of an epoch.",
        ),
    ] = None,
    output: Format = Output.TABLE,
    config: Config = None,
    config_file: ConfigFile = None,
    log_dir: LogDir = None,
    bootstrap_servers: BootstrapServers = None,
) -> None:
    """Print the events of an aggregate, each with the state after it, its cause, its sender and the application.

    Ends with code 1 if there are none, or if one of them cannot be folded: states are shown up to that one.

    For example:

        hayase events show shop.py:topology order 17

        hayase events show shop.py:topology order 17 --until 2026-11-21T18:00

        hayase events show shop.py:topology order 17 --until epoch:40
    """
    loaded = load(target)
    chosen = aggregate_named(aggregates_of(loaded.topology), aggregate)
    app = StreamsApp(loaded.topology, program_settings(loaded, config, config_file, log_dir, bootstrap_servers))
    history = EventHistory(chosen, app)
    recorded = _up_to(history, aggregate_id, until)
    if not recorded:
        typer.echo(f"{chosen.name} {aggregate_id!r} has no events" + (f" until {until}" if until else ""), err=True)
        raise typer.Exit(1)
    rows, state, failure = [], AggregateState(aggregate_id, 0, chosen.initial_state()), None
    for each in recorded:
        known = not isinstance(each.event, UnknownEvent)
        try:
            state = state if failure else evolved(chosen, state, each)
        except ProcessingError as error:
            failure = error
        rows.append({
            "version": each.version,
            "time": to_iso(each.time_ms),
            "event": each.type,
            "data": _json(chosen.event_types, each.event) if known else each.event.data.decode(errors="replace"),
            "state": "?" if failure else _json(chosen.state_types, state.state),
            "cause": each.causation_id,
            "from": each.source,
            "decided by": each.application,
            "correlation": each.correlation_id,
        })  # fmt: skip
    _print(rows, output)
    if failure:
        typer.echo(f"what the state is from there on is not known: {failure}", err=True)
        raise typer.Exit(1)


@events.command(short_help="Compare the states with the events.")
def verify(
    target: Target,
    aggregate: Annotated[str | None, typer.Argument(metavar="AGGREGATE")] = None,
    output: Format = Output.TABLE,
    config: Config = None,
    config_file: ConfigFile = None,
    log_dir: LogDir = None,
    bootstrap_servers: BootstrapServers = None,
) -> None:
    """Fold all events and compare every state with the store, at the version that it has there.

    Ends with code 1 if a state differs. The application may run.

    For example:

        hayase events verify shop.py:topology order
    """
    loaded = load(target)
    app = StreamsApp(loaded.topology, program_settings(loaded, config, config_file, log_dir, bootstrap_servers))
    aggregates = aggregates_of(loaded.topology)
    chosen = [aggregate_named(aggregates, aggregate)] if aggregate is not None else list(aggregates.values())
    rows, different = [], 0
    for each in chosen:
        result = verify_states(each, app)
        different += result.different
        rows.append({
            "aggregate": each.name, "events": result.events, "states": result.aggregates, "different": result.different
        })  # fmt: skip
        for difference in result.differences:
            typer.echo(
                f"{each.name} {difference.aggregate_id!r} at version {difference.version}: the store has "
                f"{difference.stored!r:.200}, the events give {difference.folded!r:.200}",
                err=True,
            )
    _print(rows, output)
    if different:
        typer.echo("raise state_version, and run `hayase events rebuild`", err=True)
        raise typer.Exit(1)


@events.command(short_help="Replace the states of an earlier state_version by a fold of the events.")
def rebuild(
    target: Target,
    aggregate: AggregateName,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only fold and count; write nothing.")] = False,
    config: Config = None,
    config_file: ConfigFile = None,
    log_dir: LogDir = None,
    bootstrap_servers: BootstrapServers = None,
) -> None:
    """Rebuild the states of an aggregate whose `state_version` was raised, as one epoch: all or none.

    The application must not run.

    For example:

        hayase events rebuild shop.py:topology order
    """
    loaded = load(target)
    settings = program_settings(loaded, config, config_file, log_dir, bootstrap_servers)
    chosen = aggregate_named(aggregates_of(loaded.topology), aggregate)
    migration = rebuild_states(chosen, loaded.topology, settings, dry_run=dry_run)
    if not migration.stores:
        typer.echo(
            f"the states of {chosen.name!r} are of state_version {chosen.state_version}; nothing is to be rebuilt. "
            "Raise state_version if they do not count any more",
            err=True,
        )
        return
    for store in migration.stores:
        typer.echo(f"{store.values} states, {store.changed} changed, {store.failed} failed")
        for key, reason in store.failures:
            typer.echo(f"{chosen.name} {key!r}: {reason}", err=True)
    if migration.failed:
        typer.echo("nothing was written", err=True)
        raise typer.Exit(1)
    typer.echo("nothing was written: --dry-run" if dry_run else f"written as epoch {migration.epoch}", err=True)


@events.command(short_help="Run states and read models over the events up to a time or an epoch, into a folder.")
def replay(
    target: Target,
    into: Annotated[Path, typer.Option("--into", help="A folder that is empty or not there.")],
    until: Annotated[
        str | None,
        typer.Option(
            "--until",
            metavar="TIME|epoch:NUMBER",
            help="The last time (ISO 8601, UTC), or the last epoch of the application; default: all events.",
        ),
    ] = None,
    config: Config = None,
    config_file: ConfigFile = None,
    log_dir: LogDir = None,
    bootstrap_servers: BootstrapServers = None,
) -> None:
    """Run the states of aggregates and the read models of a program over the events up to a time or an epoch.

    The result is `replay.sqlite` in the folder: a table of each read model, and one of the states of each aggregate.
    Nothing else is written or sent, and another program may be named ("what if"). Two replays are equal byte by byte.

    For example:

        hayase events replay shop.py:topology --until 2026-11-24T12:00 --into noon

        hayase events replay shop.py:topology --until epoch:40 --into forty
    """
    loaded = load(target)
    settings = program_settings(loaded, config, config_file, log_dir, bootstrap_servers)
    module = module_of(loaded)
    models, epoch = read_models_of(vars(module)).values(), _epoch_of(until)
    until_ms = None if until is None or epoch is not None else parse_time("--until", until)
    result = run_replay(loaded.topology, models, settings, into, until_ms=until_ms, until_epoch=epoch)
    rows = [{"read model": name, "rows": count} for name, count in result.rows.items()]
    for line in lines_of(rows, Output.TABLE) if rows else ():
        typer.echo(line)
    typer.echo(f"{result.events} records, {result.states} states, in {into / DATABASE}", err=True)


@events.command(short_help="Delete the keys of a subject's personal data; or say how far that is.")
def erase(
    target: Target,
    subject: Annotated[str, typer.Argument(metavar="SUBJECT")],
    only_status: Annotated[bool, typer.Option("--status", help="Erase nothing; say how far an erasure is.")] = False,
    config: Config = None,
    config_file: ConfigFile = None,
    log_dir: LogDir = None,
    bootstrap_servers: BootstrapServers = None,
) -> None:
    """Delete the keys of a subject: its personal fields read as erased from now on, everywhere.

    It is done when the topic of keys is compacted: ask again with --status, which ends with code 1 until then.

    For example:

        hayase events erase shop.py:topology customer-17

        hayase events erase shop.py:topology customer-17 --status
    """
    loaded = load(target)
    app = PatternsApp(loaded.topology, program_settings(loaded, config, config_file, log_dir, bootstrap_servers))
    result = app.erasure_status(subject) if only_status else app.erase(subject)
    if result.erased_ms is None:
        typer.echo(f"{subject} is not erased")
    else:
        typer.echo(f"{subject} is erased since {to_iso(result.erased_ms)}")
        if result.keys_left:
            typer.echo(f"deleted keys in the topic until it is compacted: {', '.join(result.keys_left)}")
        typer.echo(f"done: {'yes' if result.done else 'no'}")
        for what, held in (("tier", result.tiers), ("not looked into", result.backups)):
            for each in held:
                typer.echo(f"{what}: {each}")
    if only_status and not result.done:
        raise typer.Exit(1)


def _up_to(history: EventHistory[Any], aggregate_id: str, until: str | None) -> list[RecordedEvent[Any]]:
    if (epoch := _epoch_of(until)) is not None:
        until = str(history.state(aggregate_id, epoch=epoch).version)
    recorded = history.history(aggregate_id)
    if until is None:
        return recorded
    if until.isdigit() and int(until) < _VERSIONS_MAX:
        return [each for each in recorded if each.version <= int(until)]
    until_ms = parse_time("--until", until)
    return [each for each in recorded if each.time_ms <= until_ms]


def _epoch_of(until: str | None) -> int | None:
    """The number in `epoch:40`; `None` for other texts."""
    if until is None or not until.startswith(_EPOCH):
        return None
    number = until.removeprefix(_EPOCH)
    if not (number.isascii() and number.isdigit()):
        raise typer.BadParameter(f"{until!r} names no epoch; give its number: epoch:40", param_hint="--until")
    return int(number)


def _json(types: Any, value: object) -> object:
    data = types.encode(types.name_of(value), value)
    return msgspec.json.decode(data)


def _print(rows: list[dict[str, object]], output: Output) -> None:
    for line in lines_of(rows, output):
        typer.echo(line)
