"""What filters and mappers of tables do to rows, whether these are updates or rows that a join looks up."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl

from hayase.kernel.frame.callables import call_each, with_values
from hayase.kernel.frame.expressions import CompiledValue
from hayase.kernel.frame.python_values import record_keys, record_values
from hayase.kernel.frame.vectorized import holds, results_of, with_new_values
from hayase.kernel.node.column_node import NULL, OLD, OLD_NULL, ColumnContext, evaluate
from hayase.kernel.node.edge import EdgeSchema
from hayase.serde.protocol import Schema
from hayase.topology.operators import VectorizedFunction

_ROW = "__row"


class TableStep(ABC):
    """Changes the values of rows that are there, one by one; those with `__null` stay as they are (see `Step`).

    Args:
        node: name of the node.
        edge: of the rows given.
        schema: of the values made.
    """

    def __init__(self, node: str, edge: EdgeSchema, schema: Schema) -> None:
        self.node = node
        self.edge = edge
        self.schema = schema
        self._given = set(edge.value.names)

    @abstractmethod
    def work(self, frame: pl.DataFrame, ctx: ColumnContext) -> pl.DataFrame:
        """New fields and `__null` of rows that are there, and the other columns; without the rows that fail."""

    def __call__(self, frame: pl.DataFrame, ctx: ColumnContext) -> pl.DataFrame:
        """The rows with new values."""
        null = frame[NULL]
        if not null.any():
            return self.work(frame, ctx)
        rows = frame.with_columns(pl.int_range(pl.len(), dtype=pl.Int64).alias(_ROW))
        done = self.work(rows.filter(~null), ctx)
        at = np.full(frame.height, -1)
        at[done[_ROW].to_numpy()] = np.arange(done.height)
        positions = pl.Series(at).replace(-1, None)
        fields = done.select(pl.col(*self.schema.names, NULL).gather(positions)).with_columns(
            pl.col(NULL).fill_null(value=True)
        )
        kept = [name for name in frame.columns if name not in self._given and name != NULL]
        out = frame.select(kept).with_columns(fields.get_columns())
        failed = ~null & positions.is_null()
        return out.filter(~failed) if failed.any() else out

    def on_old(self, frame: pl.DataFrame, changed: pl.DataFrame, ctx: ColumnContext) -> pl.DataFrame:
        """Do the same to old values.

        Args:
            frame: updates with the old values given, and a column `__row`.
            changed: the same rows with new values done; rows that failed are missing.
            ctx: of the table's node.

        Returns:
            `changed` with the old values done, without the rows on which that fails.
        """
        rows = frame if frame.height == changed.height else frame.join(changed.select(_ROW), on=_ROW, how="semi")
        carried = [name for name in rows.columns if name not in self._given and not name.startswith("__old")]
        old = rows.select(
            *(name for name in carried if name != NULL),
            *(pl.col(OLD + name).alias(name) for name in sorted(self._given)),
            pl.col(OLD_NULL).alias(NULL),
        )
        done = self(old, ctx)
        kept = changed if done.height == changed.height else changed.join(done.select(_ROW), on=_ROW, how="semi")
        return kept.with_columns(
            *(done[name].alias(OLD + name) for name in self.schema.names), done[NULL].alias(OLD_NULL)
        )


class FilterStep(TableStep):
    """Rows that do not pass are deletes.

    Args:
        node: name of the node.
        edge: of the rows.
        predicate: an expression that is never null, or a callable.
        negate: those pass for which the predicate does not hold.
    """

    def __init__(
        self, node: str, edge: EdgeSchema, predicate: Callable[[Any, Any], bool] | pl.Expr, *, negate: bool
    ) -> None:
        super().__init__(node, edge, edge.value)
        self._predicate = predicate
        self._negate = negate

    def work(self, frame: pl.DataFrame, ctx: ColumnContext) -> pl.DataFrame:
        """See TableStep."""
        predicate = self._predicate
        if isinstance(predicate, pl.Expr):
            fails = predicate if self._negate else ~predicate
            marked = evaluate(frame, lambda part: part.with_columns(fails.alias(NULL)), ctx)
        elif isinstance(predicate, VectorizedFunction):
            passes = holds(predicate, self.node, ctx, frame)
            marked = frame.with_columns((passes if self._negate else ~passes).alias(NULL))
        else:
            arguments = record_keys(frame, self.edge), record_values(frame, self.edge)
            frame, results = call_each(frame, arguments, predicate, ctx)
            failing = pl.Series(NULL, [bool(result) == self._negate for result in results], dtype=pl.Boolean)
            marked = frame.with_columns(failing)
        return marked.with_columns(pl.when(~pl.col(NULL)).then(pl.col(name)).alias(name) for name in self.schema.names)


class MapStep(TableStep):
    """Rows get new values; a null result is a delete."""

    def __init__(
        self, node: str, edge: EdgeSchema, mapper: CompiledValue | Callable[[Any, Any], Any], schema: Schema
    ) -> None:
        super().__init__(node, edge, schema)
        self._mapper = mapper

    def work(self, frame: pl.DataFrame, ctx: ColumnContext) -> pl.DataFrame:
        """See TableStep."""
        mapper = self._mapper
        carried = [name for name in frame.columns if name not in self._given and name != NULL]
        if isinstance(mapper, CompiledValue):
            return evaluate(frame, lambda part: mapper.on(part, carried), ctx)
        if isinstance(mapper, VectorizedFunction):
            return with_new_values(frame, carried, results_of(mapper, self.node, ctx, frame))
        arguments = record_keys(frame, self.edge), record_values(frame, self.edge)
        frame, results = call_each(frame.select(carried), arguments, mapper, ctx)
        return with_values(frame, results, self.schema, ctx)


def stepped(step: TableStep, frame: pl.DataFrame, ctx: ColumnContext, *, old_values: bool) -> pl.DataFrame:
    """Updates of a table with the step done on new values, and on old ones if they are wanted."""
    rows = frame.with_columns(pl.int_range(pl.len(), dtype=pl.Int64).alias(_ROW)) if old_values else frame
    olds = [name for name in rows.columns if name == OLD_NULL or name.startswith(OLD)]
    changed = step(rows.drop(olds), ctx)
    return step.on_old(rows, changed, ctx).drop(_ROW) if old_values else changed
