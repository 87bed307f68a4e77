"""The aggregates of Python functions: a loop over an epoch's inputs in columns, the same calls in rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from hayase.kernel.aggregate.built_in_numbers import BuiltIn, Step
from hayase.kernel.frame.groups import Accumulate, Groups
from hayase.serde.faults import is_fault
from hayase.topology.operators import AggregateLoop, FieldAggregate

BoolArray = npt.NDArray[np.bool_]
_UNREAD: Any = object()
"""Instead of a state that has not been unpacked yet."""


class StepFailedError(Exception):
    """A function failed for an input.

    Attributes:
        row: of the epoch's rows.
        error: what it raised.
    """

    def __init__(self, row: int, error: Exception) -> None:
        super().__init__(f"row {row}: {error}")
        self.row = row
        self.error = error

    def first(self, other: StepFailedError | None) -> StepFailedError:
        """The one of two that failed first."""
        return self if other is None or self.row < other.row else other


class Looped(BuiltIn):
    """A field whose value is the state of a loop: itself in rows, packed in columns."""

    def __init__(self, field: FieldAggregate, dtype: pl.DataType | None) -> None:
        super().__init__(field, dtype)
        assert field.loop is not None
        self._loop: AggregateLoop = field.loop
        self.invertible = field.loop.invertible

    @property
    def stored_types(self) -> tuple[pl.DataType, ...]:
        """Packed states."""
        return (pl.Binary(),)

    def start(self) -> tuple[Any, ...]:
        """The initial state."""
        return (self._loop.initial(),)

    def column_start(self) -> tuple[Any, ...]:
        """The same, packed."""
        return (self._loop.pack(self._loop.initial()),)

    def step(self, stored: Sequence[Any], value: Any) -> tuple[Any, ...]:
        """The state with an input."""
        return (self._loop.add(self._known(stored[0]), value),)

    def undo(self, stored: Sequence[Any], value: Any) -> tuple[Any, ...]:
        """The state without an input."""
        return (self._loop.undo(self._known(stored[0]), value),)

    def merge(self, left: Sequence[Any], right: Sequence[Any]) -> tuple[Any, ...]:
        """The state of both."""
        return (self._loop.merge(self._known(left[0]), self._known(right[0])),)

    def _known(self, state: Any) -> Any:
        """A state that was stored; of a field that the row was stored without it is the initial one."""
        return self._loop.initial() if state is None else state

    @property
    def typed_step(self) -> Step:
        """The packed state with an input of a column."""
        loop = self._loop
        single = len(loop.inputs) == 1
        names = [str(number) for number in range(len(loop.inputs))]

        def step(stored: Sequence[Any], value: Any) -> tuple[Any, ...]:
            given = [value] if single else [None if value is None else value[name] for name in names]
            values = [column[0] for column in loop.values_of([[each] for each in given])]
            return (loop.pack(loop.add(loop.unpack(stored[0]), values)),)

        return step

    def typed_merge(self, left: Sequence[Any], right: Sequence[Any]) -> tuple[Any, ...]:
        """The packed state of both."""
        loop = self._loop
        return (loop.pack(loop.merge(loop.unpack(left[0]), loop.unpack(right[0]))),)

    def columns(self, stored: Sequence[pl.Series], values: pl.Series, accumulate: Accumulate) -> list[pl.Series]:
        """One input after the other; raises StepFailedError."""
        loop, states = self._loop, _States(self._loop, stored[0])
        add = loop.add

        def steps() -> Iterable[tuple[int, Callable[[Any], Any]]]:
            for group, given in zip(accumulate.groups.of_row.tolist(), self._inputs(values), strict=True):
                yield group, lambda state, given=given: add(state, given)  # type: ignore[misc]

        return [states.after(steps(), running=accumulate.running)]

    def updated(
        self,
        stored: Sequence[pl.Series],
        inputs: tuple[pl.Series, pl.Series],
        taken: tuple[BoolArray, BoolArray],
        groups: Groups,
        *,
        running: bool,
    ) -> list[pl.Series]:
        """States after updates of a table: the old input is taken out, then the new one put in.

        Args:
            stored: for each group, null where there is no row.
            inputs: the old and the new one of each update.
            taken: whether the old one is taken out, and whether the new one is put in.
            groups: of the updates.
            running: after each update, not only after the last of each group.
        """
        loop, states = self._loop, _States(self._loop, stored[0])
        updates = zip(
            groups.of_row.tolist(),
            *(self._inputs(series) for series in inputs),
            *(each.tolist() for each in taken),
            strict=True,
        )

        def changed(state: Any, old: Sequence[Any], new: Sequence[Any], out: bool, into: bool) -> Any:
            state = loop.undo(state, old) if out else state
            return loop.add(state, new) if into else state

        steps = ((group, lambda state, args=args: changed(state, *args)) for group, *args in updates)
        return [states.after(steps, running=running)]

    def _inputs(self, values: pl.Series) -> Iterable[Sequence[Any]]:
        columns = [values] if len(self._loop.inputs) == 1 else values.struct.unnest().get_columns()
        return zip(*self._loop.values_of([column.to_list() for column in columns]), strict=True)


class _States:
    """The states of groups.

    Args:
        loop: whose states they are.
        stored: packed ones by group.
    """

    def __init__(self, loop: AggregateLoop, stored: pl.Series) -> None:
        self._loop = loop
        self._packed = stored.to_list()
        self._states: list[Any] = [_UNREAD] * len(self._packed)

    def after(self, steps: Iterable[tuple[int, Callable[[Any], Any]]], *, running: bool) -> pl.Series:
        """Packed states after steps of groups: after each of them if `running`, else of each group at the end.

        Raises:
            StepFailedError: a step failed.
        """
        loop, states = self._loop, self._states
        results: list[bytes] = []
        last_row: dict[int, int] = {}
        row = -1
        try:
            for row, (group, step) in enumerate(steps):
                state = states[group]
                state = step(loop.unpack(self._packed[group]) if state is _UNREAD else state)
                if running:
                    results.append(loop.pack(state))
                last_row[group] = row
                states[group] = state
            if not running:
                for group, row in last_row.items():  # noqa: B007 (the one that fails)
                    self._packed[group] = loop.pack(states[group])
        except Exception as error:  # functions of users may raise anything
            if not is_fault(error):
                raise
            raise StepFailedError(row, error) from error
        return pl.Series(results if running else self._packed, dtype=pl.Binary)
