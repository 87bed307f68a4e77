"""EARLIEST_BY_OFFSET and LATEST_BY_OFFSET.

Sessions are merged in any order, so that a value carries a number that grows with arrival: nanoseconds since the epoch,
or one more than the number before, if the clock has not moved. Nothing else looks at it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Any

from hayase.sql.errors import FunctionError
from hayase.sql.functions.registry import aggregate
from hayase.sql.types.sql_types import BIGINT, ArrayType, SqlType, StructType

Entry = dict[str, Any]


class _Arrivals:
    """Numbers that grow, in this process and over its restarts."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last = 0

    def next(self) -> int:
        """A number greater than all before."""
        with self._lock:
            self._last = max(self._last + 1, time.time_ns())
            return self._last


_ARRIVALS = _Arrivals()


class _ByOffset:
    """The entries that are kept, at most `count`, in order of arrival."""

    earliest = True

    def __init__(self, count: int, ignore_nulls: bool) -> None:
        if count < 1:
            raise FunctionError("BAD_COUNT", f"{self._name} of {count} values; give a number from 1 on")
        self._count = count
        self._ignore_nulls = ignore_nulls

    @property
    def _name(self) -> str:
        return "EARLIEST_BY_OFFSET" if self.earliest else "LATEST_BY_OFFSET"

    def kept(self, entries: list[Entry]) -> list[Entry]:
        """Those of some entries in order that stay."""
        return entries[: self._count] if self.earliest else entries[-self._count :]

    def with_value(self, entries: list[Entry], value: Any) -> list[Entry]:
        """The entries with a value more."""
        if (value is None and self._ignore_nulls) or (self.earliest and len(entries) == self._count):
            return entries
        return self.kept([*entries, {"SEQ": _ARRIVALS.next(), "VAL": value}])

    def merged(self, left: list[Entry], right: list[Entry]) -> list[Entry]:
        """The entries of two sessions."""
        return self.kept(sorted(left + right, key=lambda entry: entry["SEQ"]))


def _entry(type_: SqlType) -> StructType:
    return StructType((("SEQ", BIGINT), ("VAL", type_)))


class _One(_ByOffset):
    """One value: null, or an entry."""

    def __init__(self, ignore_nulls: bool = True, *, types: Sequence[SqlType]) -> None:
        super().__init__(1, ignore_nulls)
        self.state_type = _entry(types[0])

    def initial(self) -> Entry | None:
        """No value."""
        return None

    def add(self, state: Entry | None, value: Any) -> Entry | None:
        """One value more."""
        return _single(self.with_value(_listed(state), value))

    def merge(self, left: Entry | None, right: Entry | None) -> Entry | None:
        """That of two sessions."""
        return _single(self.merged(_listed(left), _listed(right)))

    def result(self, state: Entry | None) -> Any:
        """The value."""
        return None if state is None else state["VAL"]


def _listed(state: Entry | None) -> list[Entry]:
    return [] if state is None else [state]


def _single(entries: list[Entry]) -> Entry | None:
    return entries[0] if entries else None


class _Several(_ByOffset):
    """Several values."""

    def __init__(self, count: int, ignore_nulls: bool = True, *, types: Sequence[SqlType]) -> None:
        super().__init__(count, ignore_nulls)
        self.state_type = ArrayType(_entry(types[0]))

    def initial(self) -> list[Entry]:
        """No values."""
        return []

    def add(self, state: list[Entry], value: Any) -> list[Entry]:
        """One value more."""
        return self.with_value(state, value)

    def merge(self, left: list[Entry], right: list[Entry]) -> list[Entry]:
        """Those of two sessions."""
        return self.merged(left, right)

    def result(self, state: list[Entry]) -> list[Any]:
        """The values in order of arrival."""
        return [entry["VAL"] for entry in state]


_NULLS = " Nulls count only if the last argument is false."


@aggregate("EARLIEST_BY_OFFSET", "(T) -> T", "The value that came first." + _NULLS)
@aggregate("EARLIEST_BY_OFFSET", "(T, BOOLEAN!) -> T", "The value that came first." + _NULLS)
class EarliestByOffset(_One):
    """EARLIEST_BY_OFFSET of one value."""


@aggregate("EARLIEST_BY_OFFSET", "(T, INT!) -> ARRAY<T>", "The first n values." + _NULLS)
@aggregate("EARLIEST_BY_OFFSET", "(T, INT!, BOOLEAN!) -> ARRAY<T>", "The first n values." + _NULLS)
class EarliestSeveralByOffset(_Several):
    """EARLIEST_BY_OFFSET of several values."""


@aggregate("LATEST_BY_OFFSET", "(T) -> T", "The value that came last." + _NULLS)
@aggregate("LATEST_BY_OFFSET", "(T, BOOLEAN!) -> T", "The value that came last." + _NULLS)
class LatestByOffset(_One):
    """LATEST_BY_OFFSET of one value."""

    earliest = False


@aggregate("LATEST_BY_OFFSET", "(T, INT!) -> ARRAY<T>", "The last n values." + _NULLS)
@aggregate("LATEST_BY_OFFSET", "(T, INT!, BOOLEAN!) -> ARRAY<T>", "The last n values." + _NULLS)
class LatestSeveralByOffset(_Several):
    """LATEST_BY_OFFSET of several values."""

    earliest = False
