"""Look-ups by key that were analyzed before: statements that differ in the key only share their analysis."""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hayase.server.services import QueryServices
from hayase.sql.analysis.access_path import KeyLookup
from hayase.sql.ast.expressions import (
    BigintLiteral,
    ColumnRef,
    Comparison,
    ComparisonOperator,
    Expression,
    IntegerLiteral,
    Logical,
    LogicalOperator,
    StringLiteral,
)
from hayase.sql.catalog.sources import DataSource
from hayase.sql.statements.results import PersistentQuery
from hayase.sql.types.sql_types import BIGINT, INTEGER, STRING, SqlType

if TYPE_CHECKING:  # what reads stores is slow to import
    from hayase.server.pull.table import TablePull

_KEPT = 512
_WHERE = re.compile(r"\bWHERE\b", re.IGNORECASE)
_LITERAL = re.compile(r"'(?:[^']|'')*'|(?<![\w.])-?\d+(?![\w.])")
_NOT_BEFORE_WHERE = re.compile(r"['\"`]")
_NOWHERE = re.compile(r"--|/\*|\$\{")
_LIMITS = {INTEGER: 2**31, BIGINT: 2**63}


@dataclass(frozen=True)
class StatementShape:
    """A statement without the literals behind WHERE, and these.

    Attributes:
        key: the text without them, and the settings of the request.
        literals: as they are written.
    """

    key: tuple[str, tuple[tuple[str, object], ...]]
    literals: tuple[str, ...]

    @classmethod
    def of(cls, text: str, overrides: Mapping[str, object]) -> StatementShape | None:
        """The shape of a statement; `None` if it has none that is worth to be kept.

        Example:
            >>> StatementShape.of("SELECT a FROM t WHERE k = 'it''s';", {})
            StatementShape(key=('SELECT a FROM t WHERE k = ?;', ()), literals=("'it''s'",))
        """
        where = _WHERE.search(text)
        if where is None or _NOWHERE.search(text) or _NOT_BEFORE_WHERE.search(text, 0, where.start()):
            return None
        begin = where.end()
        tail = text[begin:]
        literals = tuple(_LITERAL.findall(tail))
        if not literals:
            return None
        return cls((text[:begin] + _LITERAL.sub("?", tail), tuple(sorted(overrides.items()))), literals)


@dataclass(frozen=True)
class PreparedLookup:
    """The analysis of `… WHERE key = literal AND …`.

    Attributes:
        pull: compiled; the row of a key meets its condition.
        columns: of the key, with their types, in the order of the literals.
        source: the table at that time.
        query: that makes it, at that time.
    """

    pull: TablePull
    columns: tuple[tuple[str, SqlType], ...]
    source: DataSource
    query: PersistentQuery

    @classmethod
    def of(cls, pull: TablePull, services: QueryServices, literals: Sequence[str]) -> PreparedLookup | None:
        """What is worth to be kept of an analysis; `None`: nothing, the statement is another one."""
        plan, engine = pull.plan, services.engine
        lookups = plan.path.lookups
        if plan.where is None or lookups is None or len(lookups) != 1 or plan.rows.window is not None:
            return None
        compared = _key_literals(plan.where)
        if compared is None or len(compared) != len(literals) or {name for name, _ in compared} != set(plan.rows.key):
            return None
        columns = tuple((name, plan.rows.columns[name]) for name, _ in compared)
        if any(_value(text, type_) is None for text, (_, type_) in zip(literals, columns, strict=True)):
            return None
        return cls(pull, columns, plan.source, engine.queries[pull.query_id])

    def is_valid(self, services: QueryServices) -> bool:
        """Whether table and query are still those of the analysis."""
        engine = services.engine
        return (
            engine.catalog.find(self.source.name) is self.source
            and engine.queries.get(self.pull.query_id) is self.query
        )

    def lookup_of(self, literals: Sequence[str]) -> KeyLookup | None:
        """The look-up of a key; `None` if a literal is none of its column's type."""
        values: dict[str, Any] = {}
        for text, (name, type_) in zip(literals, self.columns, strict=True):
            value = _value(text, type_)
            if value is None:
                return None
            values[name] = value
        return KeyLookup(tuple((name, values[name]) for name in self.pull.plan.rows.key))


class PreparedLookups:
    """The analyses of the statements that came last, by their shape. Thread-safe."""

    def __init__(self, kept: int = _KEPT) -> None:
        self._kept = kept
        self._by_shape: OrderedDict[object, PreparedLookup] = OrderedDict()
        self._lock = threading.Lock()

    def find(self, shape: StatementShape, services: QueryServices) -> tuple[TablePull, KeyLookup] | None:
        """The look-up of a statement, if one of its shape was analyzed and nothing has changed since."""
        with self._lock:
            prepared = self._by_shape.get(shape.key)
            if prepared is None:
                return None
            if not prepared.is_valid(services):
                del self._by_shape[shape.key]
                return None
            self._by_shape.move_to_end(shape.key)
        lookup = prepared.lookup_of(shape.literals)
        return None if lookup is None else (prepared.pull, lookup)

    def keep(self, shape: StatementShape, pull: TablePull, services: QueryServices) -> None:
        """Keep an analysis, if it can serve other statements."""
        prepared = PreparedLookup.of(pull, services, shape.literals)
        if prepared is None:
            return
        with self._lock:
            self._by_shape[shape.key] = prepared
            if len(self._by_shape) > self._kept:
                self._by_shape.popitem(last=False)


def _key_literals(where: Expression) -> list[tuple[str, Expression]] | None:
    """The columns that are compared with literals, in the order of the text; `None` if there is anything else."""
    match where:
        case Logical(LogicalOperator.AND, left, right):
            first, second = _key_literals(left), _key_literals(right)
            return None if first is None or second is None else [*first, *second]
        case Comparison(ComparisonOperator.EQUAL, ColumnRef() as column, literal):
            pass
        case Comparison(ComparisonOperator.EQUAL, literal, ColumnRef() as column):
            pass
        case _:
            return None
    return [(column.name, literal)] if isinstance(literal, StringLiteral | IntegerLiteral | BigintLiteral) else None


def _value(text: str, type_: SqlType) -> Any:
    """The value of a literal of a type; `None` if it is none of it."""
    if text.startswith("'"):
        return text[1:-1].replace("''", "'") if type_ == STRING else None
    limit = _LIMITS.get(type_)
    if limit is None:
        return None
    number = int(text)
    return number if -limit <= number < limit else None
