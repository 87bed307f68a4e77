"""Whether a record is the expected one, by the rules of ksqlDB's own tests."""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from tests.ksqldb.cases import Record

_TOLERANCE = 1e-6


@dataclass(frozen=True)
class Actual:
    """A record that was written, decoded; `window` is `(start, end, type)` of a windowed key."""

    key: Any
    value: Any
    timestamp_ms: int
    window: tuple[int, int, str] | None
    headers: tuple[tuple[str, str | None], ...]


def difference(actual: Actual, expected: Record, *, any_zero_time: bool = False) -> str | None:
    """What is different between a record and the expected one; `None` if nothing is.

    Args:
        actual: the record.
        expected: as the case says it.
        any_zero_time: an expected timestamp of 0 means any, as in cases without inputs.
    """
    if not matches(actual.key, expected.key):
        return f"key {actual.key!r}, expected {expected.key!r}"
    window = None if expected.window is None else tuple(expected.window[part] for part in ("start", "end", "type"))
    if actual.window != (None if window is None else (window[0], window[1], window[2].lower())):
        return f"window {actual.window!r}, expected {window!r}"
    if not matches(_empty_bytes_are_null(actual.value), expected.value):
        return f"value {actual.value!r}, expected {expected.value!r}"
    any_time = expected.timestamp_ms is None or (any_zero_time and expected.timestamp_ms == 0)
    if not any_time and actual.timestamp_ms != expected.timestamp_ms:
        return f"timestamp {actual.timestamp_ms}, expected {expected.timestamp_ms}"
    if actual.headers != expected.headers:
        return f"headers {actual.headers!r}, expected {expected.headers!r}"
    return None


def _empty_bytes_are_null(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    return {name: None if item == b"" else item for name, item in value.items()}


def matches(actual: Any, expected: Any) -> bool:
    """Whether a value is the expected one."""
    if expected is None:
        return actual is None
    if isinstance(expected, bool):
        return isinstance(actual, bool) and actual == expected
    if isinstance(expected, Mapping):
        return isinstance(actual, Mapping) and _same_fields(actual, expected)
    if isinstance(expected, list):
        return isinstance(actual, list) and len(actual) == len(expected) and all(map(matches, actual, expected))
    if isinstance(expected, str):
        return _matches_text(actual, expected)
    return _matches_number(actual, expected)


def _same_fields(actual: Mapping[str, Any], expected: Mapping[str, Any]) -> bool:
    if len(actual) != len(expected):
        return False

    def field(name: str) -> Any:
        return actual[name] if actual.get(name) is not None else actual.get(name.upper())

    return all(matches(field(name), value) for name, value in expected.items())


def _matches_text(actual: Any, expected: str) -> bool:
    if isinstance(actual, Decimal):
        return same_decimal(actual, Decimal(expected))
    if isinstance(actual, float):
        return (math.isnan(actual) and expected == "NaN") or actual == float(expected)
    if isinstance(actual, bytes):
        return base64.b64encode(actual).decode() == expected
    return isinstance(actual, str) and actual == expected


def _matches_number(actual: Any, expected: int | Decimal) -> bool:
    if isinstance(actual, bool):
        return False
    if isinstance(actual, int):
        return actual == int(expected)
    if isinstance(actual, float):
        return actual == float(expected) or abs(actual - float(expected)) < _TOLERANCE
    if isinstance(actual, Decimal):
        if isinstance(expected, int):
            return int(actual.as_tuple().exponent) >= 0 and int(actual) == expected
        return same_decimal(actual, expected)
    return False


def same_decimal(left: Decimal, right: Decimal) -> bool:
    """Whether two decimals are equal and have the same scale: 1.0 is not 1.00."""
    return left == right and left.as_tuple().exponent == right.as_tuple().exponent
