"""Built-in aggregates of windows that a loop takes records into, in column form.

States as plain values, and their columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import polars as pl

from hayase.kernel.aggregate.built_in_numbers import BuiltIn
from hayase.kernel.aggregate.state_layout_columns import Stored
from hayase.kernel.frame.groups import I64
from hayase.serde.timestamped import NO_TIME

State = list[Any]
"""The stored values of each built-in aggregate."""


class States:
    """The row form of built-in aggregates on states that hold each aggregate's values together, and their columns."""

    def __init__(self, parts: Sequence[BuiltIn]) -> None:
        self._parts = parts
        self._steps = [part.typed_step for part in parts]
        self._types = [part.stored_types for part in parts]

    def stepped(self, state: State | None, inputs: Iterable[object]) -> State:
        """A new state with one more record, `None` being that of no record; raises what a `BuiltIn` raises."""
        if state is None:
            state = [part.column_start() for part in self._parts]
        return [step(stored, value) for step, stored, value in zip(self._steps, state, inputs)]  # noqa: B905 (hot)

    def merged(self, states: Sequence[State]) -> State:
        """The state of several together, the earliest first."""
        state = states[0]
        for other in states[1:]:
            pairs = zip(self._parts, state, other, strict=True)
            state = [part.typed_merge(left, right) for part, left, right in pairs]
        return state

    def of(self, stored: Stored) -> list[State]:
        """The states of rows that are all there."""
        columns = iter([series.to_list() for series in stored.values])
        parts = [list(zip(*(next(columns) for _ in types), strict=True)) for types in self._types]
        return [list(state) for state in zip(*parts, strict=True)]

    def stored(self, states: Sequence[State | None], times: I64 | None = None) -> Stored:
        """The columns of states, `None` where there is none.

        Args:
            states: of rows.
            times: of these rows; without them each that is there has the time 0.
        """
        if times is None:
            times = np.zeros(len(states), np.int64)
        there = [state for state in states if state is not None]
        values = [
            pl.Series([state[number][position] for state in there], dtype=dtype)
            for number, types in enumerate(self._types)
            for position, dtype in enumerate(types)
        ]
        if len(there) == len(states):
            return Stored(times, values)
        present = np.array([state is not None for state in states])
        at = pl.select(pl.when(pl.Series(present)).then(pl.Series(np.cumsum(present) - 1))).to_series()
        return Stored(np.where(present, times, NO_TIME), [series.gather(at) for series in values])
