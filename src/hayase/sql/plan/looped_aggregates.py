"""Aggregate functions that the engine itself does not have: loops of both forms over the columns that they take."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from hayase.dsl.options.aggregates import Aggregate as BuiltIn
from hayase.kernel.node.column_node import NULL
from hayase.sql.formats.columns import Column, column_dtype, is_packed, types_in
from hayase.sql.formats.packing import NIL, PackedForm, packed_form
from hayase.sql.formats.row_columns import packed_series
from hayase.sql.functions.bound import BoundAggregate
from hayase.sql.types.casts import caster
from hayase.sql.types.sql_types import MapType, SqlType


@dataclass(frozen=True)
class LoopInput:
    """An input of an aggregate function.

    Attributes:
        name: of its column.
        type: of the column; `None` of one that is always null.
        target: that the function takes; `None`: any.
        packed: how the column is packed, if it is.
    """

    name: str
    type: SqlType | None
    target: SqlType | None
    packed: PackedForm | None

    @property
    def cast(self) -> Callable[[Any], Any] | None:
        """What makes the value that the function takes; `None`: it is one."""
        if self.target is None or self.type is None or self.type == self.target:
            return None
        return caster(self.type, self.target)


class FunctionLoop:
    """An aggregate function as an `AggregateLoop`.

    A state with maps has their entries in the order in which they are stored, so that it does not depend on the form.

    Args:
        function: as it was bound.
        inputs: its arguments that are values.
        text: of the call.
    """

    def __init__(self, function: BoundAggregate, inputs: Sequence[LoopInput], text: str) -> None:
        self.inputs = tuple(each.name for each in inputs)
        self.invertible = function.can_undo
        self.text = text
        self._bound = function
        self._given = list(inputs)
        self._prepare()

    def __reduce__(self) -> tuple[Any, ...]:
        return FunctionLoop, (self._bound, self._given, self.text)

    def _prepare(self) -> None:
        self._made: Any = None
        form = packed_form(self._bound.state_type)
        self._pack, self._unpack = form.pack, form.unpack
        has_map = any(isinstance(each, MapType) for each in types_in(self._bound.state_type))
        self._stored = form.stored if has_map else None
        self._casts = [each.cast for each in self._given]
        self._packed = [each.packed for each in self._given]

    @property
    def function(self) -> Any:
        """The function's object, made where it is used."""
        if self._made is None:
            self._made = self._bound.create()
        return self._made

    def initial(self) -> Any:
        """See AggregateLoop."""
        return self.function.initial()

    def add(self, state: Any, values: Sequence[Any]) -> Any:
        """See AggregateLoop; values are those of the columns."""
        return self._ordered(self.function.add(state, *self._cast(values)))

    def undo(self, state: Any, values: Sequence[Any]) -> Any:
        """See AggregateLoop."""
        return self._ordered(self.function.undo(state, *self._cast(values)))

    def merge(self, left: Any, right: Any) -> Any:
        """See AggregateLoop."""
        return self._ordered(self.function.merge(left, right))

    def result(self, state: Any) -> Any:
        """What the function gives for a state; a row that was stored before the function was added has none."""
        return self.function.result(self.function.initial() if state is None else state)

    def pack(self, state: Any) -> bytes:
        """See AggregateLoop."""
        return NIL if state is None else self._pack(state)

    def unpack(self, data: bytes | None) -> Any:
        """See AggregateLoop; a state that is null is that of no input."""
        return self.function.initial() if data is None or data == NIL else self._unpack(data)

    def values_of(self, columns: Sequence[Sequence[Any]]) -> list[list[Any]]:
        """See AggregateLoop."""
        return [
            list(column) if packed is None else packed.unpack_all(column)
            for column, packed in zip(columns, self._packed, strict=True)
        ]

    def _cast(self, values: Sequence[Any]) -> Sequence[Any]:
        return [value if cast is None else cast(value) for cast, value in zip(self._casts, values, strict=True)]

    def _ordered(self, state: Any) -> Any:
        if self._stored is None or state is None:
            return state
        return self._unpack(self._stored(self._pack(state)))


class LoopedCall:
    """A call of an aggregate function as a field of the engine's aggregate.

    Args:
        name: of the column of its results.
        loop: the function.
        result_type: of the results.

    Attributes:
        name: see above.
        fields: the engine's aggregate by its name in the store.
        columns: of the store.
    """

    def __init__(self, name: str, loop: FunctionLoop, state_type: SqlType, result_type: SqlType) -> None:
        self.name = name
        self._loop = loop
        value = pl.col(loop.inputs[0])
        if len(loop.inputs) != 1:
            value = pl.struct(pl.col(each).alias(str(number)) for number, each in enumerate(loop.inputs))
        self.fields = {name: BuiltIn("loop", value, loop=loop)}
        self.columns: Sequence[Column] = [Column(name, state_type)]
        self.packed = frozenset({name})
        self.nested: Mapping[str, str] = {}
        self._result_type = result_type

    def result(self, state: Mapping[str, Any]) -> Any:
        """The result of the stored fields."""
        return self._loop.result(state[self.name])

    def values(self, frame: pl.DataFrame) -> pl.Series:
        """The results of a frame of stored fields."""
        states, null = frame[self.name].to_list(), frame[NULL].to_list()
        loop = self._loop
        results = [None if gone else loop.result(loop.unpack(state)) for state, gone in zip(states, null, strict=True)]
        packed = packed_form(self._result_type) if is_packed(self._result_type) else None
        return packed_series(self.name, results, column_dtype(self._result_type), packed)

    @property
    def definition(self) -> str:
        """What it computes, as text."""
        return f"{self._loop.text} gives {self._result_type}"
