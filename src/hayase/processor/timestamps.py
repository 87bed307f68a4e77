"""Where a record's event time comes from (Kafka Streams' `TimestampExtractor`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

OnInvalid = Literal["fail", "skip", "partition_time"]


class ConsumedRecord(NamedTuple):
    """The record that a callable timestamp extractor gets."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: Any
    value: Any
    headers: tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True, slots=True)
class TimestampExtractor:
    """How a source finds event time, and what it does when there is none.

    Make one with the functions below; the default of every source is `record_timestamp()`.

    Attributes:
        kind: `record` (the log's timestamp), `field` (a time in the value, see `field_timestamp`), `callable`, or
            `wall_clock` (the epoch's wall clock).
        on_invalid: what to do with a negative time, or a field that is missing or no time:
            `fail` stops the application, `skip` drops the record and counts it, `partition_time` takes the
            largest time seen in the partition so far (and fails if there is none).
        field: dotted path into the value, for `field`.
        function: for `callable`: `(record: ConsumedRecord, partition_time_ms: int) -> int`; `-1` is "no time yet".
    """

    kind: Literal["record", "field", "callable", "wall_clock"]
    on_invalid: OnInvalid = "fail"
    field: str | None = None
    function: Callable[[ConsumedRecord, int], int] | None = None


def record_timestamp(on_invalid: OnInvalid = "fail") -> TimestampExtractor:
    """The timestamp that the log holds for the record. A negative one is handled as `on_invalid` says."""
    return TimestampExtractor("record", on_invalid)


def field_timestamp(path: str, on_invalid: OnInvalid = "fail") -> TimestampExtractor:
    """A field of the value.

    Whole milliseconds since 1970, a date or datetime, or a text in ISO 8601 (`2026-11-23T09:30:00Z`).

    Without a time zone a time is UTC. Fractions of a millisecond are dropped.
    """
    return TimestampExtractor("field", on_invalid, field=path)


def callable_timestamp(
    function: Callable[[ConsumedRecord, int], int], on_invalid: OnInvalid = "fail"
) -> TimestampExtractor:
    """A function of the record and the partition's largest time so far. Called once per record, in offset order."""
    return TimestampExtractor("callable", on_invalid, function=function)


def wall_clock_timestamp() -> TimestampExtractor:
    """The wall clock of the epoch that reads the record; the same again when the epoch is replayed."""
    return TimestampExtractor("wall_clock")
