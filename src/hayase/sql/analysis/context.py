"""What the rule families of one query share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hayase.sql.analysis.names import ColumnNames
from hayase.sql.analysis.projection import Item
from hayase.sql.analysis.scopes import Scope
from hayase.sql.analysis.typing import Typing
from hayase.sql.ast.expressions import ColumnRef, Expression
from hayase.sql.ast.queries import Query
from hayase.sql.functions.registry import FunctionRegistry


@dataclass(frozen=True)
class QueryContext:
    """What the rule families of one query share.

    Attributes:
        query: as parsed.
        scope: its sources.
        names: for columns without a name.
        functions: all functions.
        settings: of the session.
        sink: name of the result.
        what: the statement, for errors: CREATE TABLE AS SELECT.
        transient: the result is shown and not kept, see Projection.
    """

    query: Query
    scope: Scope
    names: ColumnNames
    functions: FunctionRegistry
    settings: Mapping[str, object]
    sink: str
    what: str
    transient: bool = False

    @property
    def typing(self) -> Typing:
        """Types of expressions."""
        return Typing(self.functions)

    def key_columns(self, expressions: Sequence[Expression], items: Sequence[Item]) -> list[tuple[str, Expression]]:
        """The columns of a key that expressions give, over the rows before.

        A column keeps its name; any other expression has the name of the item that selects it.
        """
        item_names = {item.expression: item.name for item in reversed(items)}
        taken = self.scope.all_names()
        columns = []
        for expression in expressions:
            flat = self.scope.flatten(expression)
            name = flat.name if isinstance(flat, ColumnRef) else item_names.get(expression)
            if name is None:
                name = self.names.of(expression)
            elif not isinstance(flat, ColumnRef) and name in taken:
                name = f"KSQL_KEY_{name}"
            columns.append((name, flat))
        return columns
