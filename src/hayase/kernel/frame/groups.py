"""Rows of an epoch by group, as small numbers, and accumulating over them: per group, or running row by row."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from hayase.serde.arrow_bytes import is_chunked

I64 = npt.NDArray[np.int64]
_FEW = 64


def _quiet() -> np.errstate:
    """Sums of fractions may be infinite or NaN, as in Python."""
    return np.errstate(over="ignore", invalid="ignore")


def group_numbers(keys: pl.Series) -> tuple[I64, int]:
    """A number for each key, equal for equal keys, and how many there are (numbers are 0 … count-1).

    Args:
        keys: without nulls; text, bytes, whole numbers or truth values (other types have equal keys of unequal bytes).
    """
    last = _last_of_equal(keys.hash().to_numpy())
    if not (keys.gather(last) == keys).all():  # unequal keys with one hash
        return _dictionary_numbers(keys)
    is_last = last == np.arange(len(last))
    numbers = np.cumsum(is_last) - 1
    return numbers[last], int(is_last.sum())


def _last_of_equal(hashes: npt.NDArray[np.uint64]) -> I64:
    """For each hash, the last row that has it; with 100 k keys twice as fast as a hash table of the keys."""
    rows = len(hashes)
    bits = max(rows, 2).bit_length()
    table = np.empty(1 << bits, np.int64)
    last = np.empty(rows, np.int64)
    pending = np.arange(rows)
    shift = 64 - bits
    while len(pending):
        own = hashes[pending]
        buckets = (own >> np.uint64(shift)).astype(np.int64) & ((1 << bits) - 1)
        table[buckets] = pending  # of several rows in one bucket the last stays
        candidates = table[buckets]
        settled = hashes[candidates] == own
        last[pending[settled]] = candidates[settled]
        pending = pending[~settled]  # rows in whose bucket another hash came later; elsewhere they may be alone
        shift = (shift - 7) % (65 - bits)
    return last


def _dictionary_numbers(keys: pl.Series) -> tuple[I64, int]:
    array = keys.to_arrow(compat_level=pl.CompatLevel.oldest())
    if is_chunked(array):
        array = array.combine_chunks()
    encoded = array.dictionary_encode()
    return encoded.indices.to_numpy().astype(np.int64), len(encoded.dictionary)


def combine_numbers(first: I64, first_count: int, second: I64) -> tuple[I64, int]:
    """A number for each pair, equal for equal pairs, and how many there are.

    Args:
        first: numbers from 0 on.
        first_count: how many different ones there may be.
        second: any whole numbers whose spread is small beside 2^63 / first_count.
    """
    if not len(first):
        return first, 0
    low = int(second.min())
    spread = int(second.max()) - low + 1
    pairs = first * spread + (second - low)
    if first_count * spread > 4 * len(pairs) + 1024:
        return group_numbers(pl.Series(pairs))
    present = np.zeros(first_count * spread, np.bool_)
    present[pairs] = True
    numbers = np.cumsum(present) - 1
    return numbers[pairs], int(numbers[-1]) + 1


def places_in_runs(ascending: I64) -> I64:
    """The rank of each number among those that are equal to it, from 0.

    Example:
        >>> places_in_runs(np.array([3, 3, 5, 7, 7, 7])).tolist()
        [0, 1, 0, 0, 1, 2]
    """
    return np.arange(len(ascending)) - np.searchsorted(ascending, ascending)


class Groups:
    """Which group each row is in. Groups are numbered in the order of their last rows.

    Attributes:
        of_row: the group of each row.
        last: the last row of each group, ascending.
    """

    def __init__(self, numbers: I64, count: int) -> None:
        """`numbers`: a number from 0 to count-1 for each row; every one of them occurs."""
        rows = len(numbers)
        last = np.empty(count, np.int64)
        last[numbers] = np.arange(rows)  # of several assignments to one element the last stays
        is_last = np.zeros(rows, np.bool_)
        is_last[last] = True
        self.last: I64 = np.flatnonzero(is_last)
        renumbered = np.empty(count, np.int64)
        renumbered[numbers[self.last]] = np.arange(count)
        self.of_row: I64 = renumbered[numbers]

    def totals(self, function: np.ufunc, start: npt.NDArray[Any], values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Per group `f(f(f(start, v1), v2), …)` over the values of its rows, strictly in this order."""
        result = start.copy()
        with _quiet():
            function.at(result, self.of_row, values)
        return result

    def running(self, function: np.ufunc, start: npt.NDArray[Any], values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """The same, but per row: what has been accumulated with it."""
        order, begins, sizes = self._sorted
        values = values[order]
        result = np.empty(len(values), start.dtype)
        so_far = start[self.of_row[order[begins]]]
        rank, active, shortest_last = 0, len(sizes), -sizes
        while active > _FEW:  # the row of this rank of every group that has one
            positions = begins[:active] + rank
            with _quiet():
                so_far[:active] = function(so_far[:active], values[positions])
            result[positions] = so_far[:active]
            rank += 1
            active = int(np.searchsorted(shortest_last, -rank))
        for group in range(active):  # the few long groups one by one
            part = slice(begins[group] + rank, begins[group] + sizes[group])
            with _quiet():
                result[part] = function.accumulate(np.concatenate((so_far[group : group + 1], values[part])))[1:]
        unsorted = np.empty_like(result)
        unsorted[order] = result
        return unsorted

    def before(self, first: int) -> I64:
        """For each row: `first` + the row before it in its group, or the group itself for the group's first row."""
        order, begins, _ = self._sorted
        result = np.empty(len(order), np.int64)
        result[order[1:]] = order[:-1] + first
        begin = order[begins]
        result[begin] = self.of_row[begin]
        return result

    @cached_property
    def _sorted(self) -> tuple[I64, I64, I64]:
        """Rows sorted by group; where each group begins and how long it is, longest first."""
        order = np.argsort(self.of_row, kind="stable")
        sizes = np.bincount(self.of_row, minlength=len(self.last))
        begins = np.cumsum(sizes) - sizes
        longest_first = np.argsort(-sizes, kind="stable")
        return order, begins[longest_first], sizes[longest_first]


@dataclass(frozen=True, slots=True)
class Accumulate:
    """Accumulates over the rows of groups: what comes out per group at the end, or per row if `running`."""

    groups: Groups
    running: bool

    def __call__(self, function: np.ufunc, start: npt.NDArray[Any], values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """See `Groups.totals` and `Groups.running`.

        Args:
            function: of two values.
            start: one value per group.
            values: one value per row.
        """
        accumulate = self.groups.running if self.running else self.groups.totals
        return accumulate(function, start, values)
