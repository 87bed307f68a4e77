"""The rules of joins: what may be joined with what, on what, and which columns can be the key of the result."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from hayase.sql.analysis.names import SYNTHETIC_KEY, free_name
from hayase.sql.analysis.rewrite import column_refs
from hayase.sql.analysis.scopes import CANNOT, Scope, ScopeSource
from hayase.sql.analysis.steps import JoinForeignKey, JoinStreams, JoinStreamTable, JoinTables, Rows, Step
from hayase.sql.analysis.windowed_joins import check_windowed
from hayase.sql.analysis.windows import check_duration
from hayase.sql.ast.expressions import ColumnRef, Comparison, ComparisonOperator, Expression, Logical
from hayase.sql.ast.location import Location
from hayase.sql.ast.queries import JoinKind, JoinRelation, Relation, SourceRelation, Within
from hayase.sql.ast.text import expression_text
from hayase.sql.errors import StatementError
from hayase.sql.types.sql_types import SqlType, quoted_name

KIND_TEXTS = {
    JoinKind.INNER: "[INNER]",
    JoinKind.LEFT: "LEFT [OUTER]",
    JoinKind.RIGHT: "RIGHT [OUTER]",
    JoinKind.FULL: "[FULL] OUTER",
}

TypeOf = Callable[[Expression, Mapping[str, SqlType]], SqlType | None]


@dataclass(frozen=True)
class JoinKeys:
    """The columns that can be the key of a join's result.

    Attributes:
        equal: qualified expressions that always equal the key, from left to right.
        synthetic: name of a key that is no column.
        foreign: the join is by foreign key; `equal` are the columns of the left table's key.
    """

    equal: tuple[Expression, ...]
    synthetic: str | None = None
    foreign: bool = False

    @property
    def viable(self) -> tuple[ColumnRef, ...]:
        """The columns among the expressions that equal the key."""
        return tuple(each for each in self.equal if isinstance(each, ColumnRef))


def source_relations(relation: Relation) -> list[SourceRelation]:
    """The sources of FROM, from left to right."""
    if isinstance(relation, JoinRelation):
        return [*source_relations(relation.left), relation.right]
    assert isinstance(relation, SourceRelation)
    return [relation]


def check_sources(scope: Scope) -> None:
    """Each source may occur once.

    Raises:
        StatementError: a join of a source with itself.
    """
    names = [source.source.name for source in scope.sources]
    for index, name in enumerate(names):
        if name not in names[:index]:
            continue
        if len(names) == 2:
            raise StatementError("SELF_JOIN", f"{CANNOT} join '{name}' to '{name}': self joins are not yet supported.")
        raise StatementError(
            "SELF_JOIN", f"N-way joins do not support multiple occurrences of the same source. Source: '{name}'"
        )
    kafka = [source.source.name for source in scope.sources if source.source.value_format.name == "KAFKA"]
    if kafka:
        raise unsupported_format(kafka, "JOIN")


def unsupported_format(names: list[str], what: str) -> StatementError:
    """The error of sources whose values are written by KAFKA."""
    return StatementError(
        "UNSUPPORTED_FORMAT",
        f"Source(s) {', '.join(names)} are using the 'KAFKA' value format. This format does not yet support {what}.",
    )


@dataclass
class JoinBuilder:
    """Joins of one query, from left to right.

    Attributes:
        scope: of the query.
        sources: the steps that read the sources, by alias.
        type_of: the type of an expression.
    """

    scope: Scope
    sources: Mapping[str, Step]
    type_of: TypeOf
    _conditions: dict[int, _Condition] = field(default_factory=dict)

    def check(self, relation: Relation) -> None:
        """Check the conditions of all joins, before kinds and types of the sides count; raises StatementError."""
        if isinstance(relation, JoinRelation):
            self.check(relation.left)
            condition = _Condition.of(relation, self.scope, self.scope.source(relation.right.alias))
            self._conditions[id(relation)] = condition

    def build(self, relation: Relation) -> tuple[Step, JoinKeys | None]:
        """The step that gives the rows of FROM, and the columns that can be its key; `None` without a join."""
        if isinstance(relation, SourceRelation):
            return self.sources[relation.alias], None
        assert isinstance(relation, JoinRelation)
        left, keys = self.build(relation.left)
        return self._join(relation, left, keys)

    def _join(self, relation: JoinRelation, left: Step, keys: JoinKeys | None) -> tuple[Step, JoinKeys]:
        right = self.scope.source(relation.right.alias)
        on = self._conditions[id(relation)]
        right_step = self.sources[right.alias]
        names = on.left_source.alias, right.alias
        self._check_kinds(relation, on, left.rows, right_step.rows, names)
        left_key, right_key = self.scope.flatten(on.left), self.scope.flatten(on.right)
        self._check_types(on, left_key, right_key, left.rows, right_step.rows)
        is_key = isinstance(left_key, ColumnRef) and left.rows.key == (left_key.name,)
        is_key = is_key or (keys is not None and on.left in keys.equal)
        foreign = left.rows.is_table and right_step.rows.is_table and not is_key
        if foreign:
            _check_foreign(relation, on, [left.rows, right_step.rows])
            joined = _foreign_keys(on.left_source)
        else:
            joined = _keys(relation.kind, on, keys, self.scope)
            check_windowed(on.left_source, right, left.rows, right_step.rows, left_key, right_key)
        name = joined.synthetic or self._flat(joined.viable[0])
        rows = self._rows(left.rows, right_step.rows, name, left_key, joined)
        arguments = (rows, left, right_step, relation.kind, left_key, right_key, name)
        if foreign:
            return JoinForeignKey(*arguments), joined
        if left.rows.is_table:
            return JoinTables(*arguments), joined
        if right_step.rows.is_table:
            return JoinStreamTable(*arguments), joined
        return JoinStreams(*arguments, within=_within(relation, names)), joined

    def _flat(self, ref: ColumnRef) -> str:
        assert ref.source is not None
        return self.scope.flat_name(ref.source, ref.name)

    def _rows(self, left: Rows, right: Rows, name: str, left_key: Expression, joined: JoinKeys) -> Rows:
        columns = {**left.columns, **right.columns}
        key: tuple[str, ...] = (name,)
        if joined.foreign:
            key = left.key
        elif name not in columns:
            type_ = self.type_of(left_key, left.columns)
            assert type_ is not None
            columns = {name: type_, **columns}
        return Rows(columns, key, left.is_table, left.window)

    def _check_kinds(
        self, relation: JoinRelation, on: _Condition, left: Rows, right: Rows, names: tuple[str, str]
    ) -> None:
        got = f"Got {names[0]} {KIND_TEXTS[relation.kind]} JOIN {names[1]}."
        if left.is_table and not right.is_table:
            raise StatementError(
                "INVALID_JOIN",
                f"Invalid join order: table-stream joins are not supported; only stream-table joins. {got}",
                location=relation.location,
            )
        mixed = not left.is_table and right.is_table
        if mixed and relation.kind in (JoinKind.FULL, JoinKind.RIGHT):
            word = "full" if relation.kind is JoinKind.FULL else "right"
            raise StatementError(
                "INVALID_JOIN",
                f"Invalid join type: {word}-outer join not supported for stream-table join. {got}",
                location=relation.location,
            )
        if relation.within is not None and right.is_table:
            kinds = "Stream-Table" if mixed else "Table-Table"
            raise StatementError(
                "INVALID_JOIN",
                f"A window definition was provided for a {kinds} join. These joins are not windowed. Please drop the "
                f"window definition (ie. the WITHIN clause) and try to execute your join again. {got}",
                location=relation.location,
            )
        if right.is_table and not on.right_is_key(right, self.scope):
            what = (
                "stream-table joins require to join on the table's primary key"
                if mixed
                else "table-table joins require to join on the primary key of the right input table"
            )
            raise StatementError(
                "INVALID_JOIN", f"Invalid join condition: {what}. Got {on.written}.", location=relation.location
            )

    def _check_types(
        self, on: _Condition, left_key: Expression, right_key: Expression, left: Rows, right: Rows
    ) -> None:
        left_type = self.type_of(left_key, left.columns)
        right_type = self.type_of(right_key, right.columns)
        if left_type != right_type:
            sides = [f"{expression_text(on.left)}{{{left_type}}}", f"{expression_text(on.right)}{{{right_type}}}"]
            got = " = ".join(reversed(sides) if on.swapped else sides)
            raise StatementError(
                "JOIN_TYPE_MISMATCH", f"Invalid join condition: types don't match. Got {got}.", location=on.location
            )


@dataclass(frozen=True)
class _Condition:
    """ON of a join, with the sides in the order of the sources."""

    left: Expression
    right: Expression
    left_source: ScopeSource
    written: str
    swapped: bool
    location: Location | None

    @classmethod
    def of(cls, relation: JoinRelation, scope: Scope, right: ScopeSource) -> _Condition:
        condition = scope.qualify(relation.condition, "JOIN ON", _synthetic(scope))
        text = expression_text(condition)
        if isinstance(condition, Logical):
            raise StatementError(
                "INVALID_JOIN",
                f"Invalid join condition: joins on multiple conditions are not yet supported. Got {text}.",
                location=relation.location,
            )
        if not (isinstance(condition, Comparison) and condition.operator is ComparisonOperator.EQUAL):
            raise StatementError(
                "INVALID_JOIN",
                f"Invalid join condition: only equality joins are supported. Got {text}.",
                location=relation.location,
            )
        sides = [_one_source(side, text, relation) for side in (condition.left, condition.right)]
        if sides[0] == sides[1]:
            raise StatementError(
                "INVALID_JOIN",
                "Each side of the join must reference exactly one source and not the same source. Left side "
                f"references {quoted_name(sides[0])} and right references {quoted_name(sides[1])}",
                location=relation.location,
            )
        if right.alias not in sides:
            raise StatementError(
                "INVALID_JOIN",
                f"A join criteria is expected to reference the source ({quoted_name(right.alias)}) in the FROM clause, "
                f"instead the right source references {quoted_name(sides[1])} and the left source references "
                f"{quoted_name(sides[0])}",
                location=relation.location,
            )
        swapped = sides[0] == right.alias
        first, second = (condition.right, condition.left) if swapped else (condition.left, condition.right)
        written = f"{expression_text(condition.left)} = {expression_text(condition.right)}"
        left_source = scope.source(sides[1] if swapped else sides[0])
        return cls(first, second, left_source, written, swapped, relation.location)

    def right_is_key(self, right: Rows, scope: Scope) -> bool:
        """Whether the right side is the only column of the right table's key."""
        flat = scope.flatten(self.right)
        return isinstance(flat, ColumnRef) and right.key == (flat.name,)


def _synthetic(scope: Scope) -> tuple[str, ...]:
    return () if scope.synthetic_key is None else (scope.synthetic_key,)


def _one_source(side: Expression, text: str, relation: JoinRelation) -> str:
    names = {ref.source for ref in column_refs(side) if ref.source is not None}
    if len(names) != 1:
        raise StatementError(
            "INVALID_JOIN",
            f"Invalid comparison expression '{expression_text(side)}' in join '{text}'. Each side of the join "
            "comparision must contain references from exactly one source.",
            location=relation.location,
        )
    return names.pop()


def _check_foreign(relation: JoinRelation, on: _Condition, sides: Sequence[Rows]) -> None:
    if any(rows.window is not None for rows in sides):
        raise StatementError(
            "INVALID_JOIN",
            "Foreign-key table-table joins are not supported on windowed tables.",
            location=relation.location,
        )
    if isinstance(relation.left, JoinRelation):
        raise StatementError(
            "INVALID_JOIN",
            "Invalid join condition: foreign-key table-table joins are not supported as part of n-way joins. "
            f"Got {on.written}.",
            location=relation.location,
        )
    if relation.kind in (JoinKind.RIGHT, JoinKind.FULL):
        raise StatementError(
            "INVALID_JOIN",
            f"{relation.kind.value} OUTER JOIN on a foreign key is not supported",
            location=relation.location,
        )


def _keys(kind: JoinKind, on: _Condition, before: JoinKeys | None, scope: Scope) -> JoinKeys:
    """The columns that equal the key of the result of a join that is not by foreign key."""
    if kind is not JoinKind.FULL:
        known = before.equal if before is not None and on.left in before.equal else (on.left,)
        keys = JoinKeys((*known, on.right))
        if keys.viable:
            return keys
        return replace(keys, synthetic=free_name(SYNTHETIC_KEY, scope.all_names()))
    return JoinKeys((), free_name(SYNTHETIC_KEY, scope.all_names()))


def _foreign_keys(left: ScopeSource) -> JoinKeys:
    return JoinKeys(tuple(ColumnRef(column.name, left.alias) for column in left.source.key), foreign=True)


def _within(relation: JoinRelation, names: tuple[str, str]) -> Within:
    if relation.within is None:
        raise StatementError(
            "INVALID_JOIN",
            "Stream-Stream joins must have a WITHIN clause specified. None was provided. To learn about how to specify "
            f"a WITHIN clause with a stream-stream join, see the reference of joins. Got {names[0]} "
            f"{KIND_TEXTS[relation.kind]} JOIN {names[1]}.",
            location=relation.location,
        )
    within = relation.within
    for name, duration_ms in (("before", within.before_ms), ("after", within.after_ms), ("grace", within.grace_ms)):
        check_duration(f"WITHIN, {name},", duration_ms or 0, 0, relation.location)
    return within
