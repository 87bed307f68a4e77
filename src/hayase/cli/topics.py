"""`hayase topics …`: making topics and looking at them."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Annotated, BinaryIO

import msgspec
import typer

from hayase.cli.consume import consume
from hayase.cli.options import AsJson, BootstrapServers, CommandConfig, LogDir, opened_log
from hayase.cli.state_output import parse_time
from hayase.cli.topic_display import setting_lines, topic_lines
from hayase.core.errors import ConfigError, UnknownTopicError
from hayase.core.records import Headers, TopicPartition
from hayase.core.time import Clock, ManualClock, SystemClock
from hayase.log.embedded.log import EmbeddedLog
from hayase.log.protocol import OutputBatch, TopicInfo

topics = typer.Typer(
    no_args_is_help=True,
    help="Topics: create, list, alter, delete; produce and consume.",
    rich_markup_mode=None,
)
topics.command()(consume)

_CHUNK = 64 * 1024

TopicName = Annotated[str, typer.Argument(metavar="TOPIC")]


@topics.command("list", short_help="The names of all topics.")
def list_topics(
    as_json: AsJson = False,
    log_dir: LogDir = None,
    bootstrap_servers: BootstrapServers = None,
    command_config: CommandConfig = None,
) -> None:
    """Print the names of all topics; as JSON with id, partitions and settings, one object a line.

    For example:

        hayase topics list --log-dir data/log

        hayase topics list --json

        hayase topics list -b broker:9093 --command-config client.properties
    """
    with opened_log(log_dir, bootstrap_servers, command_config) as log:
        names = log.topics()
        if not as_json:
            for name in names:
                typer.echo(name)
            return
        known = log.describe(names)
        for name in names:
            if name in known:
                typer.echo(json.dumps(_fields(known[name])))


@topics.command()
def create(
    topic: TopicName,
    partitions: Annotated[int, typer.Option("--partitions", "-p", min=1, help="Number of partitions.")] = 1,
    config: Annotated[
        list[str] | None,
        typer.Option("--config", "-c", metavar="KEY=VALUE", help="A topic setting, e.g. -c cleanup.policy=compact."),
    ] = None,
    log_dir: LogDir = None,
    bootstrap_servers: BootstrapServers = None,
    command_config: CommandConfig = None,
) -> None:
    """Make a topic.

    For example:

        hayase topics create orders --partitions 4

        hayase topics create users -p 4 -c cleanup.policy=compact -b localhost:9092
    """
    settings = _settings(config)
    with opened_log(log_dir, bootstrap_servers, command_config) as log:
        info = log.create_topic(topic, partitions, settings)
    typer.echo(f"created {info.name} with {info.partitions} partition{'s' if info.partitions > 1 else ''}")


@topics.command(short_help="Change settings of a topic.")
def alter(
    topic: TopicName,
    config: Annotated[
        list[str] | None,
        typer.Option("--config", "-c", metavar="KEY=VALUE", help="A topic setting; may be repeated."),
    ] = None,
    delete_config: Annotated[
        list[str] | None,
        typer.Option("--delete-config", metavar="KEY", help="Take a setting back to its default; may be repeated."),
    ] = None,
    log_dir: LogDir = None,
    bootstrap_servers: BootstrapServers = None,
    command_config: CommandConfig = None,
) -> None:
    """Change settings of a topic, all of those given or none; the others stay.

    For example:

        hayase topics alter users -c cleanup.policy=compact -c min.compaction.lag.ms=60000

        hayase topics alter orders -c remote.storage.enable=true -c remote.storage.url=s3://bucket/topics -c
        local.retention.ms=86400000

        hayase topics alter orders --delete-config retention.ms
    """
    changes: dict[str, str | None] = {**_settings(config), **{key.strip(): None for key in delete_config or ()}}
    if not changes:
        raise ConfigError("INVALID_SETTING", "nothing to change: give --config KEY=VALUE or --delete-config KEY")
    with opened_log(log_dir, bootstrap_servers, command_config) as log:
        if topic not in log.describe([topic]):
            raise unknown_topic(topic)
        info = log.alter_topic_config(topic, changes)
    for line in setting_lines(info.config):
        typer.echo(line)


@topics.command(short_help="A topic's id, settings, partitions and offsets.")
def describe(
    topic: TopicName,
    as_json: AsJson = False,
    every: Annotated[bool, typer.Option("--all", help="Show the settings that have their default as well.")] = False,
    log_dir: LogDir = None,
    bootstrap_servers: BootstrapServers = None,
    command_config: CommandConfig = None,
) -> None:
    """Print a topic's id, settings, and of its partitions the offsets and, in the embedded log, where the records are.

    For example:

        hayase topics describe orders

        hayase topics describe orders --json
    """
    with opened_log(log_dir, bootstrap_servers, command_config) as log:
        info = log.describe([topic]).get(topic)
        if info is None:
            raise unknown_topic(topic)
        if as_json:
            partitions = [TopicPartition(topic, number) for number in range(info.partitions)]
            starts, ends = log.start_offsets(partitions), log.end_offsets(partitions)
            offsets = [{"partition": each.partition, "start": starts[each], "end": ends[each]} for each in partitions]
            typer.echo(json.dumps({**_fields(info), "offsets": offsets}))
            return
        for line in topic_lines(log, info, every=every):
            typer.echo(line)


@topics.command()
def delete(
    topic: TopicName,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    log_dir: LogDir = None,
    bootstrap_servers: BootstrapServers = None,
    command_config: CommandConfig = None,
) -> None:
    """Remove a topic with all its records. An application that reads it will stop.

    For example:

        hayase topics delete orders
    """
    with opened_log(log_dir, bootstrap_servers, command_config) as log:
        if topic not in log.describe([topic]):
            raise unknown_topic(topic)
        if not yes:
            typer.confirm(f"Remove topic {topic!r} with all its records?", abort=True)
        log.delete_topic(topic)
    typer.echo(f"removed {topic}")


@topics.command(short_help="Apply retention, compaction and tiers now.")
def clean(log_dir: LogDir = None) -> None:
    """Apply retention, compaction and tiers to all topics of the embedded log now.

    An application that writes to the log does so in the background, and a Kafka cluster by itself.

    For example:

        hayase topics clean --log-dir data/log
    """
    with opened_log(log_dir, None) as log:
        assert isinstance(log, EmbeddedLog)
        typer.echo(str(log.clean()))


@topics.command(short_help="Write lines of standard input to a topic: KEY:VALUE.")
def produce(
    topic: TopicName,
    separator: Annotated[str, typer.Option(help="What ends the key in a line.")] = ":",
    no_keys: Annotated[bool, typer.Option("--no-keys", help="The whole line is the value, the key is null.")] = False,
    null: Annotated[
        str | None, typer.Option(metavar="TEXT", help="A value that is this text is null (a delete).")
    ] = None,
    timestamp: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help=(
                "The time of all records: ISO 8601 (without a zone it is UTC), or milliseconds since 1970; default: "
                "now."
            ),
        ),
    ] = None,
    header: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="A header of all records, as text (UTF-8); may be repeated."),
    ] = None,
    log_dir: LogDir = None,
    bootstrap_servers: BootstrapServers = None,
    command_config: CommandConfig = None,
) -> None:
    """Write the lines of standard input to a topic, one record each: KEY:VALUE.

    Keys and values are written as text (UTF-8), with the time at which they are read unless --timestamp gives another:
    joins and windows go by it. A line without separator has a null key. The key decides on the partition, as with other
    Kafka clients.

    For example:

        echo 'ada:{"amount": 12}' | hayase topics produce orders

        hayase topics produce lines --no-keys < words.txt

        echo 'ada:NULL' | hayase topics produce users --null NULL

        echo 'ada:{"city": "Turin"}' | hayase topics produce users --timestamp 2026-01-01T00:00:00Z --header source=test
    """
    if not separator:
        raise ConfigError(
            "INVALID_SETTING", "--separator is empty; it must be at least one character (or use --no-keys)"
        )
    headers = tuple(_header(each) for each in header or ())
    clock: Clock = SystemClock() if timestamp is None else ManualClock(_event_time(timestamp))
    count = 0
    with opened_log(log_dir, bootstrap_servers, command_config) as log:
        if topic not in log.describe([topic]):
            raise unknown_topic(topic)
        writer = log.writer()
        try:
            for lines in line_chunks(sys.stdin.buffer):
                writer.append([_batch(topic, lines, None if no_keys else separator.encode(), null, clock, headers)])
                count += len(lines)
        finally:
            writer.close()
    typer.echo(f"wrote {count} record{'' if count == 1 else 's'}", err=True)


def _event_time(text: str) -> int:
    time_ms = parse_time("--timestamp", text)
    if time_ms < 0:
        raise ConfigError("INVALID_TIME", f"--timestamp {text!r} is before 1970; records have times of 1970 and later")
    return time_ms


def _fields(info: TopicInfo) -> dict[str, object]:
    return {"topic": info.name, "id": info.topic_id, "partitions": info.partitions, "config": dict(info.config)}


def _settings(pairs: list[str] | None) -> dict[str, str]:
    settings: dict[str, str] = {}
    for pair in pairs or ():
        key, equals, value = pair.partition("=")
        if not equals:
            raise ConfigError("INVALID_SETTING", f"--config {pair!r} is not KEY=VALUE, e.g. cleanup.policy=compact")
        settings[key.strip()] = value.strip()
    return settings


def unknown_topic(topic: str) -> UnknownTopicError:
    """The error for a topic that is not there."""
    return UnknownTopicError(
        "UNKNOWN_TOPIC",
        f"there is no topic {topic!r}; `hayase topics list` lists the topics, `hayase topics create {topic}` makes it",
    )


def line_chunks(stream: BinaryIO) -> Iterator[list[bytes]]:
    """Lines as they come, without their ends: several at a time if they come fast, at once if they come slowly."""
    rest = b""
    while chunk := stream.read1(_CHUNK):  # type: ignore[attr-defined] # every binary stream in Python has it
        *lines, rest = (rest + chunk).split(b"\n")
        if lines:
            yield [line.removesuffix(b"\r") for line in lines]
    if rest:
        yield [rest]


def _batch(
    topic: str, lines: list[bytes], separator: bytes | None, null: str | None, clock: Clock, headers: Headers
) -> OutputBatch:
    keys: list[bytes | None] = []
    values: list[bytes | None] = []
    for line in lines:
        key, separated, value = line.partition(separator) if separator is not None else (b"", b"", line)
        if separated and key.startswith(b"{") and _is_object(line):
            raise ConfigError(
                "INVALID_RECORD",
                f"the line {line[:80].decode(errors='replace')!r} is a JSON object without a key, and would be cut at "
                f"its first {separated.decode()!r}; write KEY{separated.decode()}VALUE, or use --no-keys",
            )
        keys.append(key if separated else None)
        text = value if separated else line
        values.append(None if null is not None and text == null.encode() else text)
    given = [headers] * len(lines) if headers else None
    return OutputBatch(topic, keys, values, [clock.now_ms()] * len(lines), headers=given)


def _is_object(line: bytes) -> bool:
    try:
        return isinstance(msgspec.json.decode(line), dict)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False


def _header(pair: str) -> tuple[str, bytes]:
    name, equals, value = pair.partition("=")
    if not equals or not name:
        raise ConfigError("INVALID_SETTING", f"--header {pair!r} is not NAME=VALUE, e.g. --header source=test")
    return name, value.encode()
