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

    def key_name(self, expression: Expression, items: Sequence[Item]) -> str:
        """The name of a key's column that an expression gives: the column's, or that of the item which selects it."""
        flat = self.scope.flatten(expression)
        if isinstance(flat, ColumnRef):
            return flat.name
        for item in items:
            if item.expression == expression:
                return item.name if item.name not in self.scope.all_names() else f"KSQL_KEY_{item.name}"
        return self.names.of(expression)
