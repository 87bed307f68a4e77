"""`hayase topics …`: making topics and looking at them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Annotated, BinaryIO

import typer

from hayase.cli.consume import consume
from hayase.cli.options import BootstrapServers, LogDir, opened_log
from hayase.core.errors import ConfigError, UnknownTopicError
from hayase.core.records import TopicPartition
from hayase.core.time import Clock, SystemClock
from hayase.log.protocol import OutputBatch

topics = typer.Typer(
    no_args_is_help=True, help="Topics: list, create, describe, produce, consume.", rich_markup_mode=None
)
topics.command()(consume)

_CHUNK = 64 * 1024

TopicName = Annotated[str, typer.Argument(metavar="TOPIC")]


@topics.command("list")
def list_topics(log_dir: LogDir = None, bootstrap_servers: BootstrapServers = None) -> None:
    """Print the names of all topics.

    For example:

        hayase topics list --log-dir data/log
    """
    with opened_log(log_dir, bootstrap_servers) as log:
        for name in log.topics():
            typer.echo(name)


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
) -> None:
    """Make a topic.

    For example:

        hayase topics create orders --partitions 4

        hayase topics create users -p 4 -c cleanup.policy=compact -b localhost:9092
    """
    settings: dict[str, str] = {}
    for pair in config or ():
        key, equals, value = pair.partition("=")
        if not equals:
            raise ConfigError("INVALID_SETTING", f"--config {pair!r} is not KEY=VALUE, e.g. cleanup.policy=compact")
        settings[key.strip()] = value.strip()
    with opened_log(log_dir, bootstrap_servers) as log:
        info = log.create_topic(topic, partitions, settings)
    typer.echo(f"created {info.name} with {info.partitions} partition{'s' if info.partitions > 1 else ''}")


@topics.command()
def describe(topic: TopicName, log_dir: LogDir = None, bootstrap_servers: BootstrapServers = None) -> None:
    """Print a topic's id, settings, and the offsets of its partitions.

    For example:

        hayase topics describe orders
    """
    with opened_log(log_dir, bootstrap_servers) as log:
        info = log.describe([topic]).get(topic)
        if info is None:
            raise unknown_topic(topic)
        typer.echo(f"{info.name}: id {info.topic_id}, {info.partitions} partitions")
        for key, value in sorted(info.config.items()):
            typer.echo(f"  {key}={value}")
        partitions = [TopicPartition(topic, number) for number in range(info.partitions)]
        starts, ends = log.start_offsets(partitions), log.end_offsets(partitions)
        for partition in partitions:
            start, end = starts[partition], ends[partition]
            typer.echo(f"  partition {partition.partition}: offsets {start} to {end}, {end - start} of them")


@topics.command()
def produce(
    topic: TopicName,
    separator: Annotated[str, typer.Option(help="What ends the key in a line.")] = ":",
    no_keys: Annotated[bool, typer.Option("--no-keys", help="The whole line is the value, the key is null.")] = False,
    null: Annotated[
        str | None, typer.Option(metavar="TEXT", help="A value that is this text is null (a delete).")
    ] = None,
    log_dir: LogDir = None,
    bootstrap_servers: BootstrapServers = None,
) -> None:
    """Write the lines of standard input to a topic, one record each: KEY:VALUE.

    Keys and values are written as text (UTF-8), with the time at which they are read. A line without separator has a null
    key. The key decides on the partition, as with other Kafka clients.

    For example:

        echo 'ada:{"amount": 12}' | hayase topics produce orders

        hayase topics produce lines --no-keys < words.txt

        echo 'ada:NULL' | hayase topics produce users --null NULL
    """
    if not separator:
        raise ConfigError(
            "INVALID_SETTING", "--separator is empty; it must be at least one character (or use --no-keys)"
        )
    count = 0
    with opened_log(log_dir, bootstrap_servers) as log:
        if topic not in log.describe([topic]):
            raise unknown_topic(topic)
        writer = log.writer()
        try:
            for lines in line_chunks(sys.stdin.buffer):
                writer.append([_batch(topic, lines, None if no_keys else separator.encode(), null, SystemClock())])
                count += len(lines)
        finally:
            writer.close()
    typer.echo(f"wrote {count} record{'' if count == 1 else 's'}", err=True)


def unknown_topic(topic: str) -> UnknownTopicError:
    """The error for a topic that is not there."""
    return UnknownTopicError(
        "UNKNOWN_TOPIC",
        f"there is no topic {topic!r}; `hayase topics list` shows what there is, `hayase topics create {topic}` makes it",
    )


def line_chunks(stream: BinaryIO) -> Iterator[list[bytes]]:
    """Lines as they come, without their ends: several at a time if they come fast, at once if they come slowly."""
    rest = b""
    while chunk := stream.read1(_CHUNK):  # type: ignore[attr-defined]  # every binary stream of Python's has it
        *lines, rest = (rest + chunk).split(b"\n")
        if lines:
            yield [line.removesuffix(b"\r") for line in lines]
    if rest:
        yield [rest]


def _batch(topic: str, lines: list[bytes], separator: bytes | None, null: str | None, clock: Clock) -> OutputBatch:
    keys: list[bytes | None] = []
    values: list[bytes | None] = []
    for line in lines:
        key, found, value = line.partition(separator) if separator is not None else (b"", b"", line)
        keys.append(key if found else None)
        text = value if found else line
        values.append(None if null is not None and text == null.encode() else text)
    return OutputBatch(topic, keys, values, [clock.now_ms()] * len(lines))
