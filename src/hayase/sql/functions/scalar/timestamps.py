"""Functions of TIMESTAMP."""

from __future__ import annotations

import time

import polars as pl

from hayase.sql.errors import FunctionError
from hayase.sql.functions.java.time_printing import print_timestamp
from hayase.sql.functions.java.time_resolving import parse_timestamp as parse_timestamp_by
from hayase.sql.functions.java.zones import UTC_ZONE, zone_of
from hayase.sql.functions.registry import scalar
from hayase.sql.functions.scalar.dates import UNIT_MS

_LIMIT = 1 << 63


def _same(value: pl.Expr) -> pl.Expr:
    return value


def _checked(timestamp_ms: int) -> int:
    if not -_LIMIT <= timestamp_ms < _LIMIT:
        raise FunctionError("TIMESTAMP_OUT_OF_RANGE", f"{timestamp_ms} milliseconds since 1970 are no TIMESTAMP")
    return timestamp_ms


@scalar("timestampadd", "(UNIT, INT, TIMESTAMP) -> TIMESTAMP", "A timestamp some time later.")
def timestampadd(unit: str, count: int, timestamp_ms: int) -> int:
    """TIMESTAMPADD."""
    return _checked(timestamp_ms + count * UNIT_MS[unit])


@scalar("timestampsub", "(UNIT, INT, TIMESTAMP) -> TIMESTAMP", "A timestamp some time earlier.")
def timestampsub(unit: str, count: int, timestamp_ms: int) -> int:
    """TIMESTAMPSUB."""
    return _checked(timestamp_ms - count * UNIT_MS[unit])


_FORMAT = "A timestamp as text by a pattern of Java's DateTimeFormatter, in UTC or another zone."
_FORMAT_OLD = "Milliseconds since 1970 as text by a pattern. Deprecated: FORMAT_TIMESTAMP."


@scalar("format_timestamp", "(TIMESTAMP, STRING) -> STRING", _FORMAT)
@scalar("timestamptostring", "(BIGINT, STRING) -> STRING", _FORMAT_OLD)
def format_timestamp(timestamp_ms: int, pattern: str) -> str:
    """FORMAT_TIMESTAMP in UTC."""
    return print_timestamp(timestamp_ms, pattern, UTC_ZONE)


@scalar("format_timestamp", "(TIMESTAMP, STRING, STRING) -> STRING", _FORMAT)
@scalar("timestamptostring", "(BIGINT, STRING, STRING) -> STRING", _FORMAT_OLD)
def format_timestamp_in(timestamp_ms: int, pattern: str, zone: str) -> str:
    """FORMAT_TIMESTAMP in a zone."""
    return print_timestamp(timestamp_ms, pattern, zone_of(zone))


_PARSE = "The timestamp that a text means by a pattern, in its own zone, else in UTC or another zone."
_PARSE_OLD = "The timestamp of a text, as milliseconds since 1970. Deprecated: PARSE_TIMESTAMP."


@scalar("parse_timestamp", "(STRING, STRING) -> TIMESTAMP", _PARSE)
@scalar("stringtotimestamp", "(STRING, STRING) -> BIGINT", _PARSE_OLD)
def parse_timestamp(text: str, pattern: str) -> int:
    """PARSE_TIMESTAMP in UTC."""
    return parse_timestamp_by(text, pattern, UTC_ZONE)


@scalar("parse_timestamp", "(STRING, STRING, STRING) -> TIMESTAMP", _PARSE)
@scalar("stringtotimestamp", "(STRING, STRING, STRING) -> BIGINT", _PARSE_OLD)
def parse_timestamp_in(text: str, pattern: str, zone: str) -> int:
    """PARSE_TIMESTAMP in a zone."""
    return parse_timestamp_by(text, pattern, zone_of(zone))


@scalar("convert_tz", "(TIMESTAMP, STRING, STRING) -> TIMESTAMP", "The local time of a zone as that of another zone.")
def convert_tz(timestamp_ms: int, source: str, target: str) -> int:
    """CONVERT_TZ."""
    instant_ms = timestamp_ms - zone_of(source).offset_of_local(timestamp_ms // 1000) * 1000
    return _checked(instant_ms + zone_of(target).offset_at(instant_ms // 1000) * 1000)


@scalar("from_unixtime", "(BIGINT) -> TIMESTAMP", "The timestamp of milliseconds since 1970.", columns=_same)
@scalar("unix_timestamp", "(TIMESTAMP) -> BIGINT", "The milliseconds since 1970.", columns=_same)
def same_milliseconds(timestamp_ms: int) -> int:
    """FROM_UNIXTIME and UNIX_TIMESTAMP: a TIMESTAMP is a number of milliseconds."""
    return timestamp_ms


@scalar("unix_timestamp", "() -> BIGINT", "Now, as milliseconds since 1970.", pure=False)
def now() -> int:
    """UNIX_TIMESTAMP of now."""
    return time.time_ns() // 1_000_000
