"""Aggregating one epoch's updates of a grouped table in columns, by built-in aggregates.

Of each update the old value is taken out of its group, then the new one put in. Fractions are taken out and put in one
after the other, as in row form, so that sums are equal to the last bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from hayase.kernel.aggregate.aggregator_columns import (
    Aggregated,
    AggregateKeys,
    ColumnAggregator,
    without_failed,
)
from hayase.kernel.aggregate.built_in_loop import Looped, StepFailedError
from hayase.kernel.aggregate.built_in_numbers import INT64_MAX, INT64_MIN, Average, BuiltIn, Count, Sum, overflow
from hayase.kernel.aggregate.state_layout_columns import BoolArray, Stored
from hayase.kernel.frame.expressions import carried
from hayase.kernel.frame.groups import I64, Accumulate, Groups, combine_numbers
from hayase.kernel.node.column_node import (
    KEY,
    NULL,
    OLD,
    OLD_NULL,
    TS,
    ColumnContext,
    Failed,
    Order,
    evaluate,
    order_columns,
    order_of,
)
from hayase.serde.timestamped import NO_TIME

_ROW = "__row"
_NEW = "__input"
_PREVIOUS = "__undo"

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
            case Looped():
                return part.updated(stored, (old, new), (self.out, self.into), self.groups, running=self.running)
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


@dataclass(frozen=True, slots=True)
class _Inputs:
    """The updates with their inputs, and on which of them evaluating the old or the new inputs failed."""

    rows: pl.DataFrame
    old_failed: dict[Order, Exception]
    new_failed: dict[Order, Exception]


@dataclass(frozen=True)
class ColumnTableAggregator(ColumnAggregator):
    """A built-in aggregate of a grouped table; all of its fields can take values out again.

    Nothing is taken out where there is no row: a group begins with its first new value.
    """

    def updated(self, frame: pl.DataFrame, store_keys: AggregateKeys, ctx: ColumnContext) -> Aggregated:
        """Read, aggregate and write.

        Args:
            frame: updates with old values, in order; no key is null.
            store_keys: where the table's rows are.
            ctx: of the node.
        """
        given = self._with_inputs(frame)
        rows = given.rows
        while True:
            groups = Groups(*store_keys.numbers(rows))
            start = self.layout.read(store_keys.read(rows[groups.last]))
            failing = self._refused(_Inputs(rows, given.old_failed, given.new_failed), groups, start, ctx)
            if failing is not None:
                rows, given = rows.filter(~failing), _Inputs(rows, {}, {})
                continue
            steps, there = self._steps(rows, groups, start)
            try:
                last = self._after(rows, steps, there, start)
            except StepFailedError as failed:
                rows, given = without_failed(rows, failed, ctx), _Inputs(rows, {}, {})
            else:
                break
        running = last if steps.running else None
        if running is not None:
            last = running.gather(groups.last)
        store_keys.write(self.encoded(last))
        return Aggregated(rows, groups, start, last, running, store_keys)

    def _with_inputs(self, frame: pl.DataFrame) -> _Inputs:
        kept = [*carried(frame, windows=False), NULL, OLD_NULL]
        names = {name for item in self.inputs if item is not None for name in item.meta.root_names()}
        fields = [name for name in frame.columns if name in names and not name.startswith("__")]
        old = frame.select(KEY, TS, *order_columns(frame), *(pl.col(OLD + name).alias(name) for name in fields))
        new = frame.select(KEY, TS, *order_columns(frame), *fields)
        before, old_failed = self._evaluated(old, frame[OLD_NULL], _PREVIOUS)
        after, new_failed = self._evaluated(new, frame[NULL], _NEW)
        return _Inputs(frame.select(kept).with_columns(*before, *after), old_failed, new_failed)

    def _evaluated(
        self, frame: pl.DataFrame, null: pl.Series, prefix: str
    ) -> tuple[list[pl.Series], dict[Order, Exception]]:
        """The inputs of values that are there, null elsewhere; and what failed."""
        inputs = [item.alias(f"{prefix}{at}") for at, item in enumerate(self.inputs) if item is not None]
        if not inputs:
            return [], {}
        failed = Failed()
        rows = frame.with_columns(pl.int_range(pl.len(), dtype=pl.Int64).alias(_ROW))
        if null.any():
            rows = rows.filter(~null)
        done = evaluate(rows, lambda part: part.select(_ROW, *inputs), failed)
        if done.height < frame.height:
            at = np.full(frame.height, -1)
            at[done[_ROW].to_numpy()] = np.arange(done.height)
            done = done.select(pl.all().gather(pl.Series(at).replace(-1, None)))
        return done.drop(_ROW).get_columns(), dict(failed.errors)

    def _input(self, rows: pl.DataFrame, number: int, prefix: str = _NEW) -> pl.Series:
        return rows[f"{prefix}{number}"] if self.inputs[number] is not None else rows[TS]

    def _steps(self, rows: pl.DataFrame, groups: Groups, start: Stored) -> tuple[GroupUpdates, BoolArray]:
        """What the updates do, and whether the group has a row after each."""
        old, new = ~rows[OLD_NULL].to_numpy(), ~rows[NULL].to_numpy()
        running = self.read or not self.caching
        absent = start.absent
        if not absent.any():
            return GroupUpdates(groups, old, new, running), np.ones(rows.height, np.bool_)
        began = (~absent).astype(np.int64)
        after = groups.running(np.maximum, began, new.astype(np.int64))
        before = np.concatenate([began, after])[groups.before(len(began))]
        return GroupUpdates(groups, old & (before == 1), new, running), after == 1

    def _after(self, rows: pl.DataFrame, steps: GroupUpdates, there: BoolArray, start: Stored) -> Stored:
        times = np.where(there, rows[TS].to_numpy(), NO_TIME)
        values: list[pl.Series] = []
        offset = 0
        failed: StepFailedError | None = None
        for number, part in enumerate(self.parts):
            stored = start.values[offset : offset + len(part.stored_names)]
            offset += len(part.stored_names)
            old, new = self._input(rows, number, _PREVIOUS), self._input(rows, number)
            try:
                values.extend(steps.columns(part, stored, old, new))
            except StepFailedError as error:
                failed = error.first(failed)
        if failed is not None:
            raise failed
        return Stored(Accumulate(steps.groups, steps.running)(np.maximum, start.times, times), values)

    def _refused(self, given: _Inputs, groups: Groups, start: Stored, ctx: ColumnContext) -> pl.Series | None:
        """Which updates must be left out, since an input failed or a sum would leave 64 bits; `None` if all is well."""
        rows = given.rows
        largest = int(np.bincount(groups.of_row).max()) if rows.height else 0
        sums: list[_WholeSum] = []
        certain = not (given.old_failed or given.new_failed)
        offset = 0
        for number, part in enumerate(self.parts):
            if isinstance(part, Sum) and part.can_overflow:
                so_far = start.values[offset]
                old, new = self._input(rows, number, _PREVIOUS), self._input(rows, number)
                both = pl.concat([old, new])
                certain = certain and not part.may_overflow(so_far, both, 2 * largest)
                sums.append(_WholeSum(part.name, so_far, old, new))
            offset += len(part.stored_names)
        return None if certain else _failing(given, groups, start.absent, sums, ctx)


@dataclass(frozen=True, slots=True)
class _WholeSum:
    """A sum of whole numbers: so far by group, what is taken out and put in by update."""

    name: str
    so_far: pl.Series
    old: pl.Series
    new: pl.Series


def _failing(
    given: _Inputs, groups: Groups, absent: BoolArray, sums: Sequence[_WholeSum], ctx: ColumnContext
) -> pl.Series | None:
    """Goes through the updates one by one, as the row form does, and hands what fails to the context."""
    rows = given.rows
    there = (~absent).tolist()
    totals = [field_sums.so_far.fill_null(0).to_list() for field_sums in sums]
    olds = [field_sums.old.fill_null(0).to_list() for field_sums in sums]
    news = [field_sums.new.fill_null(0).to_list() for field_sums in sums]
    has_old, has_new = (~rows[OLD_NULL]).to_list(), (~rows[NULL]).to_list()
    orders = rows.select(order_columns(rows)).rows()
    failing = np.zeros(rows.height, np.bool_)
    for row, group in enumerate(groups.of_row.tolist()):
        error: Exception | None = None
        so_far = [total[group] for total in totals]
        if has_old[row] and there[group]:
            error = given.old_failed.get(orders[row])
            so_far = [total - old[row] for total, old in zip(so_far, olds, strict=True)]
            error = error or _overflow(sums, so_far)
        if error is None and has_new[row]:
            error = given.new_failed.get(orders[row])
            so_far = [total + new[row] for total, new in zip(so_far, news, strict=True)]
            error = error or _overflow(sums, so_far)
        if error is not None:
            failing[row] = True
            ctx.processing_failed(order_of(rows, row), error)
            continue
        there[group] = there[group] or has_new[row]
        for total, value in zip(totals, so_far, strict=True):
            total[group] = value
    return pl.Series(failing) if failing.any() else None


def _overflow(sums: Sequence[_WholeSum], totals: Sequence[int]) -> OverflowError | None:
    wrong = [
        field_sums.name for field_sums, total in zip(sums, totals, strict=True) if not INT64_MIN <= total <= INT64_MAX
    ]
    return overflow(wrong[0]) if wrong else None
