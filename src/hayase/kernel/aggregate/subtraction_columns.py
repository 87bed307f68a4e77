"""Built-in aggregates of grouped tables in columns.

Of each update the old value is taken out of its group, then the new one put in.

Fractions are taken out and put in one after the other, as in row form, so that sums are equal to the last bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from hayase.kernel.aggregate.built_in import Average, BuiltIn, Count, Sum
from hayase.kernel.aggregate.stored_layout import BoolArray
from hayase.kernel.frame.groups import I64, Accumulate, Groups, combine_numbers

F64 = npt.NDArray[np.float64]

_NEUTRAL = -0.0
"""What changes no fraction when it is added, not even a zero's sign."""


@dataclass(frozen=True)
class GroupUpdates:
    """What is done to the groups by an epoch's updates.

    Attributes:
        groups: which group each update is of.
        out: whether the update takes its old value out.
        into: whether it puts its new value in.
        running: results are wanted after every update, not only after the last of each group.
    """

    groups: Groups
    out: BoolArray
    into: BoolArray
    running: bool

    def columns(self, part: BuiltIn, stored: Sequence[pl.Series], old: pl.Series, new: pl.Series) -> list[pl.Series]:
        """Stored values of a field after the updates: per update if `running`, else per group.

        Args:
            part: the field.
            stored: for each group, null where there is no row.
            old: inputs of old values, one per update.
            new: inputs of new values.
        """
        match part:
            case Count():
                change = self.into.astype(np.int64) - self.out if part.counts_all else self._counted(old, new)
                return [pl.Series(self._added(_numbers(stored[0], pl.Int64()), change))]
            case Sum(whole=True):  # wraps around silently; the caller has made sure that it does not
                minus, plus = np.where(self.out, _numbers(old, pl.Int64()), 0), _numbers(new, pl.Int64())
                change = np.where(self.into, plus, 0) - minus
                return [pl.Series(self._added(_numbers(stored[0], pl.Int64()), change))]
            case Sum():
                values = self._signed(old, new)
                return [pl.Series(self._picked(self._steps, _numbers(stored[0], pl.Float64()), values))]
            case Average():
                return self._average(stored, old, new)
        raise TypeError(f"nothing can be taken out of {part.name!r}")

    def _counted(self, old: pl.Series, new: pl.Series) -> I64:
        counted: I64 = (self.into & new.is_not_null().to_numpy()).astype(np.int64)
        counted -= self.out & old.is_not_null().to_numpy()
        return counted

    def _added(self, start: I64, change: I64) -> I64:
        return Accumulate(self.groups, self.running)(np.add, start, change)

    @cached_property
    def _twice(self) -> I64:
        return np.repeat(self.groups.of_row, 2)

    @cached_property
    def _steps(self) -> Groups:
        """The groups of the single steps: each update takes out, then puts in."""
        return Groups(self._twice, len(self.groups.last))

    def _signed(self, old: pl.Series, new: pl.Series) -> F64:
        """What each step adds to a sum of fractions."""
        values = np.full(2 * len(old), _NEUTRAL)
        for offset, series, sign, wanted in ((0, old, -1.0, self.out), (1, new, 1.0, self.into)):
            there = wanted & series.is_not_null().to_numpy()
            values[offset::2][there] = sign * series.cast(pl.Float64).fill_null(0.0).to_numpy()[there]
        return values

    def _picked(self, groups: Groups, start: F64, values: F64) -> F64:
        """After each update, or each group's last one; `groups` may be more than one stretch of a group's steps."""
        if self.running or len(groups.last) != len(self.groups.last):
            after = groups.running(np.add, start, values)[1::2]
            return after if self.running else after[self.groups.last]
        return groups.totals(np.add, start, values)

    def _average(self, stored: Sequence[pl.Series], old: pl.Series, new: pl.Series) -> list[pl.Series]:
        """Sum and count. The sum begins again with 0 whenever the last input was taken out."""
        taken = self.out & old.is_not_null().to_numpy()
        counts = np.zeros(2 * len(old), np.int64)
        counts[0::2] = -taken.astype(np.int64)
        counts[1::2] = self.into & new.is_not_null().to_numpy()
        so_far = self._steps.running(np.add, _numbers(stored[1], pl.Int64()), counts)
        emptied = (so_far == 0) & (counts < 0)
        values = self._signed(old, new)
        start = _numbers(stored[0], pl.Float64())
        groups = self._steps
        if emptied.any():
            values[emptied] = _NEUTRAL
            stretch = groups.running(np.add, np.zeros(len(start), np.int64), emptied.astype(np.int64))
            groups = Groups(*combine_numbers(self._twice, len(start), stretch))
            first = stretch[groups.last] == 0
            start = np.where(first, start[self._twice[groups.last]], 0.0)
        count = so_far[1::2]
        return [
            pl.Series(self._picked(groups, start, values)),
            pl.Series(count if self.running else count[self.groups.last]),
        ]


def _numbers(values: pl.Series, dtype: pl.DataType) -> npt.NDArray[Any]:
    return values.cast(dtype).fill_null(0).to_numpy()
