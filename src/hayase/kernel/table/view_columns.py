"""Tables without a store in column form: another table's rows, with something yet to be done to those that are read."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import polars as pl

from hayase.core.errors import UnknownStoreError
from hayase.kernel.node.column_node import ColumnContext, TableColumns

Step = Callable[[pl.DataFrame, ColumnContext], pl.DataFrame]
"""From rows read (`__key`, fields, `__null`, `__ts`, order columns and what else there is) to the rows of the view.

Rows with `__null` are left alone; a row becomes one of these if the view does not have it. Rows on which user code
fails go to the context's handler and are left out.
"""


class IndirectTable:
    """Base of tables that have no rows of their own to look up (`TableColumns`): their readers know how."""

    def at_start(self, keys: pl.Series) -> pl.DataFrame:
        """Raises UnknownStoreError."""
        raise UnknownStoreError("UNKNOWN_TABLE", "this table has no rows of its own to look up")

    def changes(self) -> pl.DataFrame:
        """Raises UnknownStoreError."""
        raise UnknownStoreError("UNKNOWN_TABLE", "this table has no rows of its own to look up")


class TableView:
    """A table computed from another one (`TableColumns`).

    `at_start` and `changes` are those of the table with a store, on which `steps` are yet to be done in order: only for
    rows that are read, as in row form.
    """

    def __init__(self, base: TableColumns, steps: Sequence[Step]) -> None:
        self.base = base
        self.steps = steps

    @classmethod
    def over(cls, parent: TableColumns, step: Step) -> TableView:
        """The view that does one more step."""
        if isinstance(parent, TableView):
            return cls(parent.base, [*parent.steps, step])
        return cls(parent, [step])

    def at_start(self, keys: pl.Series) -> pl.DataFrame:
        """Rows of the table with a store."""
        return self.base.at_start(keys)

    def changes(self) -> pl.DataFrame:
        """Updates of the table with a store."""
        return self.base.changes()


def view_over(parent: str, step: Step, ctx: ColumnContext) -> TableView | None:
    """The view of another node's table; `None` if that one cannot be read."""
    try:
        return TableView.over(ctx.table(parent), step)
    except UnknownStoreError:
        return None
