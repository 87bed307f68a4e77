"""The built-in aggregates that keep inputs as they are: earliest, latest, collect_list and collect_set.

Their order is that in which the records are processed, in both forms. For collect_set all NaN are the same, and so are
both zeros, of which the first stays.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from hayase.core.errors import TopologyError
from hayase.kernel.aggregate.built_in_numbers import FLOATS, SCALARS, BuiltIn
from hayase.kernel.frame.expressions import instance
from hayase.kernel.frame.groups import I64, Accumulate
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
                f"{field.function} of {field.name!r} cannot keep {dtype}; cast the input to text or a number",
            )
        self._ignore_nulls = field.ignore_nulls
        self._fractions = isinstance(dtype, FLOATS)

    @property
    def kept_type(self) -> pl.DataType:
        """Type of one input."""
        return self.dtype if self.dtype is not None else pl.Null()

    def kept(self, value: object) -> Any:
        """An input as it is kept: of a field of fractions every one is a fraction."""
        return float(value) if self._fractions and isinstance(value, int) else value


def _storable(dtype: pl.DataType) -> bool:
    if isinstance(dtype, pl.List):
        return _storable(instance(dtype.inner))
    if isinstance(dtype, pl.Struct):
        return all(_storable(instance(field.dtype)) for field in dtype.fields)
    return isinstance(dtype, (*SCALARS, pl.Null))


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

    def step(self, stored: Sequence[object], value: object) -> tuple[Any, ...]:
        """The input, if it comes first, or last."""
        if self._flagged:
            return (stored[0], True) if stored[1] else (self.kept(value), True)
        if value is None and self._ignore_nulls:
            return (stored[0],)
        return (self.kept(value) if self._latest or stored[0] is None else stored[0],)

    def merge(self, left: Sequence[object], right: Sequence[object]) -> tuple[Any, ...]:
        """The earlier, or the later, of the two that is there."""
        if self._flagged:
            return tuple(left if left[1] else right)
        first, second = (right[0], left[0]) if self._latest else (left[0], right[0])
        return (second if first is None else first,)

    def columns(self, stored: Sequence[pl.Series], values: pl.Series, accumulate: Accumulate) -> list[pl.Series]:
        """By number: what is stored comes before the rows, so the smallest or largest number wins."""
        groups = len(stored[0])
        counted = np.ones(len(values), np.bool_) if not self._ignore_nulls else values.is_not_null().to_numpy()
        there = (stored[1].fill_null(value=False) if self._flagged else stored[0].is_not_null()).to_numpy()
        none = -1 if self._latest else _NONE
        start = np.where(there, np.arange(groups), none)
        rows = np.where(counted, np.arange(groups, groups + len(values)), none)
        chosen_rows = accumulate(np.maximum if self._latest else np.minimum, start, rows)
        at = pl.Series(np.where(chosen_rows == none, -1, chosen_rows)).replace(-1, None)
        every = pl.concat([stored[0].cast(self.kept_type), values.cast(self.kept_type)])
        chosen = [every.gather(at)]
        return [*chosen, pl.Series(np.ones(len(chosen_rows), np.bool_))] if self._flagged else chosen


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
        """A new list with the input, if it belongs in it."""
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

    def merge(self, left: Sequence[Any], right: Sequence[Any]) -> tuple[Any, ...]:
        """The items of both, as if those of `right` came in now."""
        merged = tuple(left)
        for item in right[0]:
            merged = self.step(merged, item)
        return merged

    def columns(self, stored: Sequence[pl.Series], values: pl.Series, accumulate: Accumulate) -> list[pl.Series]:
        """Every list is a stretch of the items of its group, what is stored coming before the rows' inputs."""
        groups = accumulate.groups
        lists = stored[0].cast(self.stored_types[0])
        lengths = lists.list.len().fill_null(0).to_numpy().astype(np.int64)
        before = lists.filter(lengths > 0).explode()
        items = pl.DataFrame(
            {
                _GROUP: np.concatenate([np.repeat(np.arange(len(lists)), lengths), groups.of_row]),
                _VALUE: pl.concat([before, values.cast(self.kept_type)]),
            }
        )
        order = np.argsort(items[_GROUP].to_numpy(), kind="stable")
        ranks = np.empty(len(order), np.int64)
        ranks[order] = np.arange(len(order))
        taken = self._taken(items, len(before))[order]
        so_far = np.cumsum(taken)  # items taken up to each of them
        per_group = np.bincount(items[_GROUP].to_numpy()[order], weights=taken, minlength=len(lists)).astype(np.int64)
        rows = np.arange(len(values)) if accumulate.running else groups.last
        ends = so_far[ranks[len(before) :][rows]]
        begins = (np.cumsum(per_group) - per_group)[groups.of_row[rows]]
        if self._size is not None and self._latest:
            begins = np.maximum(begins, ends - self._size)
        elif self._size is not None:
            ends = np.minimum(ends, begins + self._size)
        return [_stretches(items[_VALUE].gather(order[taken]), begins, ends - begins).cast(self.stored_types[0])]

    def _taken(self, items: pl.DataFrame, stored: int) -> npt.NDArray[np.bool_]:
        """Which items belong in a list that is long enough; the first so many are stored."""
        taken = np.ones(items.height, np.bool_)
        if self._ignore_nulls:
            taken[stored:] = items[_VALUE][stored:].is_not_null().to_numpy()
        if self._different:
            taken &= items.select(pl.struct(_GROUP, _VALUE).is_first_distinct()).to_series().to_numpy()
        return taken


def _stretches(items: pl.Series, begins: I64, sizes: I64) -> pl.Series:
    """Lists of so many items each, from the positions where they begin."""
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    chosen = items.gather(np.repeat(begins - offsets[:-1], sizes) + np.arange(offsets[-1]))
    array = chosen.to_arrow(compat_level=pl.CompatLevel.oldest())
    return pl.Series(pa.LargeListArray.from_arrays(offsets, array))


def _same(this: object, other: object) -> bool:
    if isinstance(this, bool) is not isinstance(other, bool):
        return False
    if isinstance(this, float) and isinstance(other, float) and math.isnan(this):
        return math.isnan(other)
    return bool(this == other)
