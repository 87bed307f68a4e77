"""Rows of two tables made one, in column form."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from hayase.kernel.join.joiner_columns import JoinedValues, compile_joiner
from hayase.kernel.node.column_node import KEY, NULL, ORDER, TS, ColumnContext, order_columns
from hayase.kernel.node.edge import EdgeSchema
from hayase.serde.protocol import Schema
from hayase.topology.operators import JoinKind, TableJoiner


@dataclass(frozen=True, slots=True)
class JoinedTables:
    """Makes the rows of a join; `kind` says which of the two rows must be there.

    Attributes:
        left, right: schemas of the values joined.
        values: makes the results.
    """

    kind: JoinKind
    left: Schema
    right: Schema
    values: JoinedValues

    @property
    def schema(self) -> Schema:
        """Of the results."""
        return self.values.schema

    @classmethod
    def compile(cls, node: str, joiner: TableJoiner, left: EdgeSchema, right: EdgeSchema) -> JoinedTables | None:
        """The column form of a joiner; a callable has one if the schema of its results is known."""
        values = compile_joiner(node, joiner.function, left, right.value, joiner.schema)
        return None if values is None else cls(joiner.kind, left.value, right.value, values)

    def join(
        self,
        at: pl.DataFrame,
        left: pl.DataFrame,
        right: pl.DataFrame,
        ctx: ColumnContext,
        wanted: pl.Series | None = None,
    ) -> tuple[pl.DataFrame, pl.Series | None]:
        """The results.

        Args:
            at: keys, times and order of the results.
            left: fields of the left rows and `__null`, where there is none; aligned.
            right: the same of the right rows.
            ctx: decides about rows on which the joiner fails.
            wanted: which of the rows have a result, if that is not for `kind` to say.

        Returns:
            Fields and `__null` of the results, without those that failed; and which of the rows these are, `None`: all.
        """
        number = f"{ORDER}{len(order_columns(at))}"
        wanted = self._wanted(left[NULL], right[NULL]) if wanted is None else wanted
        sides = at.select(KEY, TS, *order_columns(at)).with_columns(
            pl.int_range(pl.len(), dtype=pl.Int64).alias(number),
            *left.select(*self.left.names, NULL).get_columns(),
        )
        if not wanted.all():
            sides, right = sides.filter(wanted), right.filter(wanted)
        values = self.values.join(sides, right, ctx)
        fields = values.select(*self.schema.names, NULL)
        if fields.height == at.height:
            return fields, None
        positions = np.full(at.height, -1)
        positions[values[number].to_numpy()] = np.arange(values.height)
        kept: pl.Series | None = None
        if values.height < sides.height:  # some failed
            kept = ~wanted | pl.Series(positions >= 0)
            positions = positions[kept.to_numpy()]
        fields = fields.select(pl.all().gather(pl.Series(positions).replace(-1, None)))
        return fields.with_columns(pl.col(NULL).fill_null(value=True)), kept

    def _wanted(self, no_left: pl.Series, no_right: pl.Series) -> pl.Series:
        if self.kind == "inner":
            return ~(no_left | no_right)
        return ~no_left if self.kind == "left" else ~(no_left & no_right)
