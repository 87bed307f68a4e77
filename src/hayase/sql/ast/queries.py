"""Queries: SELECT, joins and windows."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from hayase.sql.ast.expressions import Expression
from hayase.sql.ast.location import Location


@dataclass(frozen=True, slots=True)
class SelectItem:
    """Base of the items of a projection."""

    location: Location | None = field(default=None, compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class SingleColumn(SelectItem):
    """`expression [AS alias]`."""

    expression: Expression
    alias: str | None = None


@dataclass(frozen=True, slots=True)
class AllColumns(SelectItem):
    """`*`, or `source.*`."""

    source: str | None = None


@dataclass(frozen=True, slots=True)
class AllFields(SelectItem):
    """`expression->*`: each field of a struct as a column."""

    base: Expression


@dataclass(frozen=True, slots=True)
class Relation:
    """Base of what stands behind FROM."""

    location: Location | None = field(default=None, compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class SourceRelation(Relation):
    """A stream or table with the name by which the query calls it (its own if no alias was given)."""

    name: str
    alias: str


class JoinKind(Enum):
    """Kinds of joins."""

    INNER = "INNER"
    LEFT = "LEFT"
    RIGHT = "RIGHT"
    FULL = "FULL"


@dataclass(frozen=True, slots=True)
class Within:
    """WITHIN of a join of two streams, in milliseconds; `grace_ms` is `None` without GRACE PERIOD."""

    before_ms: int
    after_ms: int
    grace_ms: int | None = None


@dataclass(frozen=True, slots=True)
class JoinRelation(Relation):
    """`left kind JOIN right [WITHIN …] ON condition`; `left` may be a join itself."""

    kind: JoinKind
    left: Relation
    right: SourceRelation
    condition: Expression
    within: Within | None = None


class WindowKind(Enum):
    """Kinds of windows."""

    TUMBLING = "TUMBLING"
    HOPPING = "HOPPING"
    SESSION = "SESSION"


@dataclass(frozen=True, slots=True)
class Window:
    """WINDOW of an aggregation, in milliseconds. `size_ms` of a session is its gap; `advance_ms` only of HOPPING."""

    kind: WindowKind
    size_ms: int
    advance_ms: int | None = None
    retention_ms: int | None = None
    grace_ms: int | None = None
    location: Location | None = field(default=None, compare=False, kw_only=True)


class Emit(Enum):
    """EMIT CHANGES and EMIT FINAL."""

    CHANGES = "CHANGES"
    FINAL = "FINAL"


@dataclass(frozen=True, slots=True)
class Query:
    """SELECT … FROM …, with the clauses that were written; absent ones are `None`.

    `group_by` and `partition_by` are empty tuples for an empty list in parentheses. `emit` is `None` where no EMIT was
    written.
    """

    select: tuple[SelectItem, ...]
    source: Relation
    window: Window | None = None
    where: Expression | None = None
    group_by: tuple[Expression, ...] | None = None
    partition_by: tuple[Expression, ...] | None = None
    having: Expression | None = None
    emit: Emit | None = None
    limit: int | None = None
    location: Location | None = field(default=None, compare=False, kw_only=True)
