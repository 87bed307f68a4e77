"""The rules of SELECT: which columns it means, their names, and that the key is among them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hayase.sql.analysis.names import ColumnNames
from hayase.sql.analysis.rewrite import rewrite
from hayase.sql.analysis.scopes import Scope, ScopeSource, position
from hayase.sql.analysis.typing import Typing
from hayase.sql.ast.expressions import ColumnRef, Expression, FieldRef
from hayase.sql.ast.location import Location
from hayase.sql.ast.queries import AllColumns, AllFields, SelectItem, SingleColumn
from hayase.sql.catalog.sources import SYSTEM_COLUMNS, WINDOW_BOUNDS
from hayase.sql.errors import StatementError
from hayase.sql.types.sql_types import SqlType, StructType, quoted_name


@dataclass(frozen=True)
class Item:
    """A column of SELECT.

    Attributes:
        name: of the column.
        expression: with the source of each column.
        from_star: it was not written, but meant by a star.
    """

    name: str
    expression: Expression
    from_star: bool = False


@dataclass(frozen=True)
class Projection:
    """How the items of a SELECT are read.

    Attributes:
        scope: of the query.
        names: for items without a name.
        typing: types of expressions.
        types: of the qualified columns, by their names in the rows of the plan.
        repartitioned: the query has a PARTITION BY, behind which columns have another order.
        transient: the result is shown and not kept: pseudo columns may be selected, and a star means window bounds too.
    """

    scope: Scope
    names: ColumnNames
    typing: Typing
    types: Mapping[str, SqlType]
    repartitioned: bool = False
    transient: bool = False

    def items(self, select: Sequence[SelectItem]) -> list[Item]:
        """The columns that the items mean, in order.

        Raises:
            StatementError: an unknown name, a reserved one.
        """
        return [item for each in select for item in self._item(each)]

    def _item(self, item: SelectItem) -> list[Item]:
        match item:
            case AllColumns(source):
                sources = self.scope.sources if source is None else (self.scope.source(source),)
                return self._all(sources, first=source is None)
            case AllFields(base):
                return self._fields(self.scope.qualify(base, "SELECT"))
        assert isinstance(item, SingleColumn)
        self._check_reserved(item)
        expression = self.scope.qualify(item.expression, "SELECT")
        return [Item(self._name(item, expression), expression)]

    def _check_reserved(self, item: SingleColumn) -> None:
        column = item.expression
        if self.transient or self.repartitioned or self.scope.is_join or not isinstance(column, ColumnRef):
            return
        if column.name in SYSTEM_COLUMNS and item.alias in (None, column.name):
            raise reserved_name(column.name, column.location)

    def _all(self, sources: Sequence[ScopeSource], *, first: bool) -> list[Item]:
        items = [item for source in sources for item in self._of_source(source)]
        synthetic = self.scope.synthetic_key
        if synthetic is not None and first and not self.repartitioned:
            items.insert(0, Item(synthetic, ColumnRef(synthetic), from_star=True))
        return items

    def _of_source(self, source: ScopeSource) -> list[Item]:
        keys = [column.name for column in source.source.key]
        columns = list(source.source.columns)
        if self.repartitioned:
            pseudo = list(source.source.pseudo_columns) if self.scope.is_join else []
            columns = [*(name for name in columns if name not in keys), *pseudo, *keys]
        elif source.source.window is not None and (self.transient or self.scope.is_join):
            columns = [*keys, *WINDOW_BOUNDS, *(name for name in columns if name not in keys)]
        return [
            Item(self.scope.flat_name(source.alias, name), ColumnRef(name, source.alias), from_star=True)
            for name in columns
        ]

    def _fields(self, base: Expression) -> list[Item]:
        type_ = self.typing(self.scope.flatten(base), self.types)
        if not isinstance(type_, StructType):
            raise StatementError("NO_STRUCT", "Cannot select all fields of what is no STRUCT", location=base.location)
        return [Item(self.names.of_field(name), FieldRef(base, name)) for name, _ in type_.fields]

    def _name(self, item: SingleColumn, expression: Expression) -> str:
        column = expression if isinstance(expression, ColumnRef) else None
        if item.alias is not None:
            if item.alias in SYSTEM_COLUMNS and (column is None or column.name != item.alias):
                raise StatementError(
                    "RESERVED_NAME",
                    f"{position(item.location)}{quoted_name(item.alias)} is a reserved column name. You cannot use it "
                    "as an alias for a column.",
                    location=item.location,
                )
            return item.alias
        if column is None:
            return self.names.of(expression)
        if column.source is not None and self.scope.clashes(column.name):
            return f"{column.source}_{column.name}"
        return column.name


def check_names(items: Sequence[Item], key_names: Sequence[str] = ()) -> None:
    """Columns that were written must not have names that are reserved.

    Raises:
        StatementError: one has.
    """
    for item in items:
        if item.name in SYSTEM_COLUMNS and not item.from_star and item.name not in key_names:
            raise reserved_name(item.name, item.expression.location)


def reserved_name(name: str, location: Location | None) -> StatementError:
    """The error of a result's column with the name of a pseudo column."""
    return StatementError(
        "RESERVED_NAME",
        f"Reserved column name in select: {quoted_name(name)}. Please remove or alias the column.",
        location=location,
    )


def check_values(key: Sequence[tuple[str, SqlType]], values: Sequence[tuple[str, SqlType]]) -> None:
    """There are value columns, and names are unique.

    Raises:
        StatementError: there are none, or two columns have one name.
    """
    if not values:
        raise StatementError("NO_VALUE_COLUMNS", "The projection contains no value columns.")
    check_unique(key, values)


def check_unique(key: Sequence[tuple[str, SqlType]], values: Sequence[tuple[str, SqlType]]) -> None:
    """Names of columns are unique; raises StatementError."""
    for what, columns in (("key", key), ("value", values)):
        names = [name for name, _ in columns]
        twice = [f"{quoted_name(name)} {type_}" for name, type_ in dict(columns).items() if names.count(name) > 1]
        if what == "value":
            twice += [f"{quoted_name(name)} {type_}" for name, type_ in columns if name in dict(key)]
        if twice:
            raise StatementError("DUPLICATE_COLUMN", f"Duplicate {what} columns found in schema: {', '.join(twice)}")


def replaced(expression: Expression, by_expression: Mapping[Any, str]) -> Expression:
    """An expression with each part that is a column of the rows by now as that column; by the parts' names."""

    def replacement(part: Expression) -> Expression | None:
        name = by_expression.get(part)
        return None if name is None else ColumnRef(name, location=part.location)

    return rewrite(expression, replacement)
