"""Functions with two forms that mean the same: one for a record, one for a batch of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import polars as pl

from hayase.serde.protocol import Schema

ROW = "__row"
"""Column of the results of a function that gives several for a record: the position of the record, ascending."""


@dataclass(frozen=True, slots=True)
class VectorizedResult:
    """The results of a batch, aligned with it, or, of a function that gives several for a record, with `__row`.

    Attributes:
        frame: the fields of the function's schema; `__null` where a value is null, if any is (without it a bare value
            is null where its field is, and a record of fields never); `__key` as well, if the function makes pairs.
        row_by_row: how many records of the batch the function left to its row form.
    """

    frame: pl.DataFrame
    row_by_row: int = 0


@dataclass(frozen=True, slots=True)
class VectorizedFunction:
    """A function of records that tasks in rows call for each record, and tasks in columns for a whole frame.

    It stands wherever an operator takes a callable: as predicate, mapper of keys, values or pairs, and joiner. Both
    forms are total: they raise for no record, and what cannot be computed has a result that says so, such as null.

    Attributes:
        rows: called as a callable in its place: with `(key, value)`, a joiner with `(key, left, right)`.
        columns: called with the frame of a node's records, see `hayase.kernel.node.column_node`; a joiner also with
            the frame of right values, aligned: their fields, and `__null` where there is none. A mapper of tables is
            shown rows that are there, with their keys.
        schema: of the results, of pairs that of the values; a predicate gives bare booleans, null counts as false.
        key_schema: of the keys of pairs.
        reads: the fields of the value that `columns` looks at; `None`: all of them.
        pure: the same record always gives the same result, in every process.
        definition: of a pure function: text that differs if another function would give something else.
        form: how `columns` computes each of its expressions, for those who ask how a topology is run.
        timed: a mapper whose row form takes the timestamp as well: `(key, value, timestamp_ms)`.
    """

    rows: Callable[..., Any]
    columns: Callable[..., VectorizedResult]
    schema: Schema
    key_schema: Schema | None = None
    reads: frozenset[str] | None = None
    pure: bool = False
    definition: str = ""
    form: tuple[str, ...] = ()
    timed: bool = False

    def __call__(self, *arguments: Any) -> Any:
        """The result for one record."""
        return self.rows(*arguments)
