"""The built-in aggregates that keep inputs as they are: earliest, latest, collect_list and collect_set.

Their order is that in which the records are processed, in both forms. For collect_set all NaN are the same, and so are both
zeros, of which the first stays.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from hayase.core.errors import TopologyError
from hayase.kernel.built_in import FLOATS, SCALARS, BuiltIn
from hayase.kernel.groups import Accumulate
from hayase.topology.operators import FieldAggregate

_NONE = 2**62
_GROUP = "group"
_VALUE = "value"


class _Kept(BuiltIn):
    """Base: what inputs may be, and how they are kept."""

    def __init__(self, field: FieldAggregate, dtype: pl.DataType | None) -> None:
        super().__init__(field, dtype)
        if dtype is not None and not _storable(dtype):
            raise TopologyError(
                "INVALID_AGGREGATE",
                f"{field.function} of {field.name!r} can not keep {dtype}; cast the input to text or a number",
            )
        self._ignore_nulls = field.ignore_nulls
        self._fractions = isinstance(dtype, FLOATS)

    @property
    def kept_type(self) -> pl.DataType:
        """Type of one input."""
        return self.dtype if self.dtype is not None else pl.Null()

    def kept(self, value: Any) -> Any:
        """An input as it is kept: of a field of fractions every one is a fraction."""
        return float(value) if self._fractions and isinstance(value, int) else value


def _storable(dtype: pl.DataType) -> bool:
    if isinstance(dtype, pl.List):
        return _storable(_instance(dtype.inner))
    if isinstance(dtype, pl.Struct):
        return all(_storable(_instance(field.dtype)) for field in dtype.fields)
    return isinstance(dtype, (*SCALARS, pl.Null))


def _instance(dtype: Any) -> pl.DataType:
    made: pl.DataType = dtype() if isinstance(dtype, type) else dtype
    return made


class ByOffset(_Kept):
    """The first or the last input. The first one of those that may be null needs to know that there was one."""

    def __init__(self, field: FieldAggregate, dtype: pl.DataType | None) -> None:
        super().__init__(field, dtype)
        self._latest = field.function == "latest"
        self._flagged = not self._latest and not self._ignore_nulls

    @property
    def stored_names(self) -> tuple[str, ...]:
        """The value; and whether there is one, if null may be it."""
        return (self.name, f"__seen_{self.name}") if self._flagged else (self.name,)

    @property
    def stored_types(self) -> tuple[pl.DataType, ...]:
        """Of the value, and of the flag."""
        return (self.kept_type, pl.Boolean()) if self._flagged else (self.kept_type,)

    def start(self) -> tuple[Any, ...]:
        """Nothing yet."""
        return (None, False) if self._flagged else (None,)

    def step(self, stored: Sequence[Any], value: Any) -> tuple[Any, ...]:
        """The input, if it comes first, or last."""
        if self._flagged:
            return (stored[0], True) if stored[1] else (self.kept(value), True)
        if value is None and self._ignore_nulls:
            return (stored[0],)
        return (self.kept(value) if self._latest or stored[0] is None else stored[0],)

    def columns(self, stored: Sequence[pl.Series], values: pl.Series, accumulate: Accumulate) -> list[pl.Series]:
        """By number: what is stored comes before the rows, so the smallest or largest number wins."""
        groups = len(stored[0])
        counted = np.ones(len(values), np.bool_) if not self._ignore_nulls else values.is_not_null().to_numpy()
        there = (stored[1].fill_null(value=False) if self._flagged else stored[0].is_not_null()).to_numpy()
        none = -1 if self._latest else _NONE
        start = np.where(there, np.arange(groups), none)
        rows = np.where(counted, np.arange(groups, groups + len(values)), none)
        found = accumulate(np.maximum if self._latest else np.minimum, start, rows)
        at = pl.Series(np.where(found == none, -1, found)).replace(-1, None)
        every = pl.concat([stored[0].cast(self.kept_type), values.cast(self.kept_type)])
        chosen = [every.gather(at)]
        return [*chosen, pl.Series(np.ones(len(found), np.bool_))] if self._flagged else chosen


class Collected(_Kept):
    """Inputs as a list in the order of processing: all, the different ones, the first or the last so many."""

    def __init__(self, field: FieldAggregate, dtype: pl.DataType | None) -> None:
        if field.function == "collect_set":
            self.takes = SCALARS
        super().__init__(field, dtype)
        self._different = field.function == "collect_set"
        self._latest = field.function == "latest"
        self._size = field.size

    @property
    def stored_types(self) -> tuple[pl.DataType, ...]:
        """A list of inputs."""
        return (pl.List(self.kept_type),)

    def start(self) -> tuple[Any, ...]:
        """An empty list."""
        return ([],)

    def step(self, stored: Sequence[Any], value: Any) -> tuple[Any, ...]:
        """A new list with the input, if it has a place in it."""
        items: list[Any] = stored[0]
        if value is None and self._ignore_nulls:
            return (items,)
        if self._different and isinstance(value, dict | list):
            raise TypeError(f"collect_set of {self.name!r} takes text, numbers and truth values, not {value!r}")
        if self._size is not None and len(items) >= self._size:
            if not self._latest:
                return (items,)
            items = items[len(items) - self._size + 1 :]
        value = self.kept(value)
        if self._different and any(_same(value, item) for item in items):
            return (items,)
        return ([*items, value],)

    def columns(self, stored: Sequence[pl.Series], values: pl.Series, accumulate: Accumulate) -> list[pl.Series]:
        """Per group by Polars; per row one by one, since every row has a list of its own."""
        if accumulate.running:
            return [self._running(stored[0], values, accumulate)]
        groups = len(stored[0])
        more = pl.DataFrame({_GROUP: accumulate.groups.of_row, _VALUE: values})
        if self._ignore_nulls:
            more = more.drop_nulls(_VALUE)
        lists = more.group_by(_GROUP, maintain_order=True).agg(_VALUE)
        numbers = pl.DataFrame({_GROUP: np.arange(groups)})
        added = numbers.join(lists, on=_GROUP, how="left", maintain_order="left")[_VALUE]
        empty = pl.Series([[]], dtype=self.stored_types[0])
        both = pl.DataFrame({"a": stored[0].cast(self.stored_types[0]), "b": added.cast(self.stored_types[0])})
        joined = pl.concat_list(pl.col("a").fill_null(pl.lit(empty)), pl.col("b").fill_null(pl.lit(empty)))
        if self._different:
            joined = joined.list.unique(maintain_order=True)
        if self._size is not None:
            joined = joined.list.tail(self._size) if self._latest else joined.list.head(self._size)
        return [both.select(joined.alias(_VALUE))[_VALUE]]

    def _running(self, stored: pl.Series, values: pl.Series, accumulate: Accumulate) -> pl.Series:
        lists = [found if found is not None else [] for found in stored.to_list()]
        after: list[list[Any]] = []
        for group, value in zip(accumulate.groups.of_row.tolist(), values.to_list(), strict=True):
            (lists[group],) = self.step((lists[group],), value)
            after.append(lists[group])
        return pl.Series(after, dtype=self.stored_types[0])


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, bool) is not isinstance(other, bool):
        return False
    if isinstance(one, float) and isinstance(other, float) and math.isnan(one):
        return math.isnan(other)
    return bool(one == other)
