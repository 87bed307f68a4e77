"""`hayase trace`: everything that a correlation id caused."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated

import msgspec
import typer

from hayase.cli.options import AsJson, BootstrapServers, CommandConfig, LogDir, opened_log
from hayase.cli.state_output import on_one_line, parse_time
from hayase.core.time import to_iso
from hayase.patterns.tracing import Traced, find, topics_of_patterns, tree, walk

_DATA_CHARACTERS = 300


def trace(
    correlation_id: Annotated[str, typer.Argument(metavar="ID", help="A correlation id: that of the first command.")],
    topic: Annotated[
        list[str] | None,
        typer.Option("--topic", help="Only this topic; may be repeated. Default: those of aggregates and sagas."),
    ] = None,
    since: Annotated[
        str | None, typer.Option("--since", metavar="TIME", help="Only from this time on (ISO 8601, UTC).")
    ] = None,
    values: Annotated[bool, typer.Option("--values", help="Show what is in them, as it was written.")] = False,
    as_json: AsJson = False,
    log_dir: LogDir = None,
    bootstrap_servers: BootstrapServers = None,
    command_config: CommandConfig = None,
) -> None:
    """Print the commands, events and replies of all services that belong to a correlation id, as a tree with times.

    It reads the topics with names like order-commands, order-events, order-replies and order-dead-letters from their
    beginning, and needs no program. With --log-dir and --bootstrap-servers it reads both logs. As JSON each record says
    the number of the one that caused it. Ends with code 1 if there is nothing.

    For example:

        hayase trace 4f1e2c --log-dir data/log

        hayase trace 4f1e2c -b localhost:9092 --since 2026-11-25T10:00 --values
    """
    since_ms = None if since is None else parse_time("--since", since)
    both = log_dir is not None and (bootstrap_servers is not None or command_config is not None)
    places = [(log_dir, None, None), (None, bootstrap_servers, command_config)] if both else []
    found: list[Traced] = []
    for place in places or [(log_dir, bootstrap_servers, command_config)]:
        with opened_log(*place) as log:
            names = topics_of_patterns(log) if topic is None else topic
            found += find(log, correlation_id, names if not both else [*{*names} & {*log.topics()}], since_ms)
    if not found:
        typer.echo(f"nothing has the correlation id {correlation_id!r}", err=True)
        raise typer.Exit(1)
    roots = tree(found)
    for line in json_lines(roots, values=values) if as_json else text_lines(roots, values=values):
        typer.echo(line)


def text_lines(roots: Iterable[Traced], *, values: bool = False) -> Iterator[str]:
    """One line for each record, indented by causes, with the time since the first."""
    first_ms = None
    for traced, depth in walk(roots):
        first_ms = traced.time_ms if first_ms is None else first_ms
        passed = f"{(traced.time_ms - first_ms) / 1000:+.3f}s"
        time = to_iso(traced.time_ms)
        time = time if depth == 0 else passed.rjust(len(time))
        data = f" {_data(traced)[:_DATA_CHARACTERS]}" if values else ""
        yield on_one_line(f"{time}  {'  ' * depth}{_said(traced)}{data}")


def json_lines(roots: Iterable[Traced], *, values: bool = False) -> Iterator[str]:
    """One object for each record, numbered, with the number of its cause."""
    numbers: dict[Traced, int] = {}
    for traced, depth in walk(roots):
        numbers[traced] = len(numbers) + 1
        record = traced.record
        fields: dict[str, object] = {
            "number": numbers[traced],
            "cause": numbers[traced.parent] if traced.parent is not None else None,
            "depth": depth,
            "time": to_iso(traced.time_ms),
            "kind": traced.kind,
            "type": traced.type,
            "of": traced.name,
            "subject": traced.subject,
            "id": traced.id,
            "causation": traced.causation_id,
            "from": traced.source,
            "status": traced.status,
            "reason": traced.reason,
            "topic": record.topic,
            "partition": record.partition,
            "offset": record.offset,
        }
        if values:
            fields["value"] = _data(traced)
        yield msgspec.json.encode(fields).decode()


def _said(traced: Traced) -> str:
    if traced.kind == "reply":
        return f"reply {traced.status} of {traced.name}" + (f": {traced.reason}" if traced.reason else "")
    if traced.kind == "dead letter":
        return f"dead letter of {traced.name}: {traced.reason}"
    arrow = "to" if traced.kind == "command" else "of"
    sender = f" from {traced.source}" if traced.kind == "command" and traced.parent is None else ""
    lost = f", caused by {traced.causation_id}" if traced.parent is None and traced.causation_id else ""
    return f"{traced.kind} {traced.type} {arrow} {traced.name} {traced.subject} ({traced.id}){sender}{lost}"


def _data(traced: Traced) -> str:
    return (traced.record.value or b"").decode(errors="replace")
