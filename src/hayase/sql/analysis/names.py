"""Names of columns that a statement does not name."""

from __future__ import annotations

from collections.abc import Collection

from hayase.sql.ast.expressions import ColumnRef, Expression, FieldRef

SYNTHETIC_KEY = "ROWKEY"
"""Name of the key of a join whose key is no column."""
_GENERATED = "KSQL_COL_"


class ColumnNames:
    """Names for what has none: `KSQL_COL_0`, … and fields of structs, which avoid the names of the sources."""

    def __init__(self, taken: Collection[str]) -> None:
        self._taken = set(taken)
        self._next = 0

    def of(self, expression: Expression) -> str:
        """The name of an expression that is no column: a field by its own name, anything else by number."""
        return self.of_field(expression.field_name) if isinstance(expression, FieldRef) else self.numbered()

    def numbered(self) -> str:
        """The next `KSQL_COL_n`."""
        while f"{_GENERATED}{self._next}" in self._taken:
            self._next += 1
        return self._use(f"{_GENERATED}{self._next}")

    def of_field(self, name: str) -> str:
        """The name of a field, with a number behind it if that is taken: `F`, `F_1`."""
        return self._use(free_name(name, self._taken))

    def _use(self, name: str) -> str:
        self._taken.add(name)
        return name


def free_name(name: str, taken: Collection[str]) -> str:
    """The name, with the first number behind it that makes it free."""
    if name not in taken:
        return name
    number = 1
    while f"{name}_{number}" in taken:
        number += 1
    return f"{name}_{number}"


def column_name(expression: Expression) -> str | None:
    """The name of the column that an expression is; `None` if it is none."""
    return expression.name if isinstance(expression, ColumnRef) else None
