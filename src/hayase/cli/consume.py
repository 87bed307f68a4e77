"""`hayase topics consume`."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated

import typer

from hayase.app.stop_request import StopRequest
from hayase.cli.options import BootstrapServers, CommandConfig, LogDir, opened_log
from hayase.cli.state_output import on_one_line
from hayase.core.errors import ConfigError, UnknownTopicError
from hayase.core.records import Headers, TopicPartition
from hayase.log.protocol import Log, RecordBatch

_POLL_S = 0.2
_LONG = struct.Struct(">q")
_SESSION = struct.Struct(">qq")


class Format(StrEnum):
    """How bytes are shown."""

    TEXT = "text"
    JSON = "json"
    HEX = "hex"
    LONG = "long"
    WINDOWED = "windowed"
    SESSION = "session"


def consume(
    topic: Annotated[str, typer.Argument(metavar="TOPIC")],
    from_beginning: Annotated[
        bool,
        typer.Option("--from-beginning", help="Begin with the oldest record instead of those that come from now on."),
    ] = False,
    max_records: Annotated[int | None, typer.Option("--max", min=1, help="Stop after so many records.")] = None,
    stop_at_end: Annotated[
        bool, typer.Option("--stop-at-end", help="Stop at the end of the topic instead of waiting for more.")
    ] = False,
    partition: Annotated[
        int | None, typer.Option(min=0, help="This partition only; with --offset from there on.")
    ] = None,
    offset: Annotated[int | None, typer.Option(min=0, help="Begin with this offset of --partition.")] = None,
    key_format: Annotated[Format, typer.Option(help="How keys are shown.")] = Format.TEXT,
    value_format: Annotated[Format, typer.Option(help="How values are shown.")] = Format.TEXT,
    timestamps: Annotated[bool, typer.Option("--timestamps", help="Show each record's time.")] = False,
    offsets: Annotated[bool, typer.Option("--offsets", help="Show each record's partition and offset.")] = False,
    headers: Annotated[bool, typer.Option("--headers", help="Show each record's headers.")] = False,
    log_dir: LogDir = None,
    bootstrap_servers: BootstrapServers = None,
    command_config: CommandConfig = None,
) -> None:
    """Print the records of a topic: key, tab, value. Goes on with new ones until Ctrl-C.

    Only committed records are shown (read_committed). The order is that of each partition; what is there already is
    printed partition by partition. Formats: text; json (indented); hex; long (8 bytes, as counts are stored); windowed
    (the key of a table with tumbling, hopping or sliding windows: text and the start of its window); session (the key
    of a table of sessions: text, start and end of the session). What is not of the format is shown as text.

    For example:

        hayase topics consume orders --from-beginning --max 10

        hayase topics consume sales --from-beginning --stop-at-end --key-format windowed --timestamps

        hayase topics consume orders --partition 1 --offset 1200 --max 1 --offsets

        hayase topics consume orders-dead-letters --from-beginning --headers --value-format hex
    """
    if offset is not None and (partition is None or from_beginning):
        raise ConfigError("INVALID_OPTION", "--offset goes with --partition, and not with --from-beginning")
    show = RecordPrinter(key_format, value_format, timestamps=timestamps, offsets=offsets, headers=headers)
    left = max_records
    with opened_log(log_dir, bootstrap_servers, command_config) as log, StopRequest() as stop:
        start = Start(from_beginning, partition, offset)
        for batch in batches(log, topic, stop, start, stop_at_end=stop_at_end):
            lines = show.lines(batch)
            if left is not None:
                lines = lines[:left]
                left -= len(lines)
            typer.echo("\n".join(lines))
            if left == 0:
                return


@dataclass(frozen=True, slots=True)
class Start:
    """Where reading begins.

    Attributes:
        from_beginning: with the oldest record; else with those that come from now on.
        partition: the only one that is read.
        offset: of that partition, instead.
    """

    from_beginning: bool = False
    partition: int | None = None
    offset: int | None = None


def batches(log: Log, topic: str, stop: StopRequest, start: Start, *, stop_at_end: bool) -> Iterator[RecordBatch]:
    """The committed records of a topic, and new ones as they come, until there is a request to stop.

    Raises:
        UnknownTopicError: there is no such topic, or no such partition.
        SourceRangeLostError: the offset is not there.
    """
    info = log.describe([topic]).get(topic)
    if info is None:
        raise UnknownTopicError("UNKNOWN_TOPIC", f"there is no topic {topic!r}; `hayase topics list` lists the topics")
    if start.partition is not None and start.partition >= info.partitions:
        raise UnknownTopicError(
            "UNKNOWN_TOPIC",
            f"topic {topic!r} has {info.partitions} partitions, counted from 0; there is no {start.partition}",
        )
    numbers = range(info.partitions) if start.partition is None else [start.partition]
    partitions = [TopicPartition(topic, number) for number in numbers]
    positions = log.start_offsets(partitions) if start.from_beginning else log.end_offsets(partitions)
    if start.offset is not None:
        positions = dict.fromkeys(partitions, start.offset)
    reader = log.reader()
    try:
        while not stop.asked:
            ends = log.end_offsets(partitions)
            for partition in partitions:
                if positions[partition] > ends[partition]:  # not there yet
                    continue
                for batch in reader.fetch(partition, positions[partition], ends[partition]):
                    if len(batch):
                        yield batch
                    if stop.wait(0):
                        return
            positions = {each: max(positions[each], ends[each]) for each in partitions}
            if stop_at_end:
                return
            stop.wait(_POLL_S)
    finally:
        reader.close()


class RecordPrinter:
    """Records as lines.

    Args:
        key_format: of the keys.
        value_format: of the values.
        timestamps: begin with the record's time.
        offsets: then partition and offset.
        headers: then the headers.
    """

    def __init__(
        self, key_format: Format, value_format: Format, *, timestamps: bool, offsets: bool, headers: bool
    ) -> None:
        self._key = _FORMATS[key_format]
        self._value = _FORMATS[value_format]
        self._timestamps = timestamps
        self._offsets = offsets
        self._headers = headers

    def lines(self, batch: RecordBatch) -> list[str]:
        """One text per record."""
        headers: list[Headers] = batch.headers if batch.headers is not None else [()] * len(batch)
        lines = []
        records = zip(
            batch.offsets.tolist(), batch.timestamps_ms.tolist(), batch.keys, batch.values, headers, strict=True
        )
        for offset, timestamp_ms, key, value, record_headers in records:
            parts = []
            if self._timestamps:
                parts.append(time_text(timestamp_ms))
            if self._offsets:
                parts.append(f"{batch.partition}:{offset}")
            if self._headers:
                parts.append(",".join(f"{name}={_shown(_text, data)}" for name, data in record_headers) or "-")
            lines.append("\t".join([*parts, _shown(self._key, key), _shown(self._value, value)]))
        return lines


def time_text(timestamp_ms: int) -> str:
    """A time as people read it, to the millisecond.

    For example:
        >>> time_text(1_767_571_200_005)
        '2026-01-05T00:00:00.005Z'
    """
    try:
        return (
            datetime.fromtimestamp(timestamp_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        )
    except (ValueError, OverflowError, OSError):  # beyond what a datetime holds
        return f"{timestamp_ms} ms"


def _shown(show: Callable[[bytes], str], data: bytes | None) -> str:
    return "null" if data is None else show(data)


def _text(data: bytes) -> str:
    """UTF-8.

    What is not, and control characters, as escapes, so that a record is a line and leaves the terminal alone.
    """
    return on_one_line(data.decode("utf-8", "backslashreplace"))


def _json(data: bytes) -> str:
    try:
        return json.dumps(json.loads(data), indent=2, ensure_ascii=False)
    except ValueError:
        return _text(data)


def _long(data: bytes) -> str:
    return str(_LONG.unpack(data)[0]) if len(data) == _LONG.size else _text(data)


def _windowed(data: bytes) -> str:
    if len(data) < _LONG.size:
        return _text(data)
    return f"{_text(data[: -_LONG.size])}@{time_text(_LONG.unpack_from(data, len(data) - _LONG.size)[0])}"


def _session(data: bytes) -> str:
    if len(data) < _SESSION.size:
        return _text(data)
    end_ms, start_ms = _SESSION.unpack_from(data, len(data) - _SESSION.size)
    return f"{_text(data[: -_SESSION.size])}@{time_text(start_ms)}/{time_text(end_ms)}"


_FORMATS: dict[Format, Callable[[bytes], str]] = {
    Format.TEXT: _text,
    Format.JSON: _json,
    Format.HEX: lambda data: data.hex(" "),
    Format.LONG: _long,
    Format.WINDOWED: _windowed,
    Format.SESSION: _session,
}
