"""Names of columns in a query: which source one belongs to, and its name in the rows of the plan."""

from __future__ import annotations

import difflib
from collections.abc import Collection
from dataclasses import dataclass, field, replace

from hayase.sql.analysis.rewrite import rewrite
from hayase.sql.ast.expressions import ColumnRef, Expression
from hayase.sql.ast.location import Location
from hayase.sql.catalog.sources import WINDOW_BOUNDS, DataSource
from hayase.sql.errors import StatementError, located
from hayase.sql.types.sql_types import StructType, quoted_name

_SHOWN_MAX = 12

CANNOT = "can_not".replace("_", " ").capitalize()
"""Two words, as some of ksqlDB's messages have it; `make lint` refuses that spelling in prose."""


@dataclass(frozen=True, slots=True)
class ScopeSource:
    """A source of a query under the name by which the query calls it."""

    alias: str
    source: DataSource


@dataclass(frozen=True)
class Scope:
    """The columns that expressions of a query see.

    In the rows of the plan a column of the only source has its own name, one of several sources `ALIAS_COLUMN`.

    Attributes:
        sources: in order of the text.
        windowed_aggregation: the query has a WINDOW, so that SELECT and HAVING see its bounds.
        synthetic_key: name of the key that a join made.
    """

    sources: tuple[ScopeSource, ...]
    windowed_aggregation: bool = False
    synthetic_key: str | None = field(default=None)

    @property
    def is_join(self) -> bool:
        """Whether there are several sources."""
        return len(self.sources) > 1

    def with_synthetic_key(self, name: str | None) -> Scope:
        """The scope with the key that a join made."""
        return replace(self, synthetic_key=name)

    def source(self, alias: str) -> ScopeSource:
        """The source that is called so.

        Raises:
            StatementError: no source is.
        """
        for source in self.sources:
            if source.alias == alias:
                return source
        hint = ""
        if any(isinstance(source.source.columns.get(alias), StructType) for source in self.sources):
            hint = f"\n{alias} is a column of type STRUCT, whose fields are written {alias}->NAME."
        raise StatementError("UNKNOWN_SOURCE", f"'{alias}' is not a valid stream/table name or alias.{hint}")

    def flat_name(self, alias: str, column: str) -> str:
        """The name of a column in the rows of the plan."""
        return f"{alias}_{column}" if self.is_join else column

    def clashes(self, column: str) -> bool:
        """Whether several sources have a column of that name."""
        return sum(column in _visible(source) for source in self.sources) > 1

    def all_names(self) -> set[str]:
        """Names of all columns of all sources, as they are in the sources."""
        return {name for source in self.sources for name in _visible(source)}

    def qualify(self, expression: Expression, clause: str, also: Collection[str] = ()) -> Expression:
        """The expression with the source of each column.

        Args:
            expression: as it was parsed.
            clause: for errors: SELECT, WHERE, JOIN ON, …
            also: names that are columns of no source, and stay without one.

        Raises:
            StatementError: a column is in no source, or in several.
        """

        def replacement(part: Expression) -> Expression | None:
            if not isinstance(part, ColumnRef):
                return None
            if part.source is None and part.name in also:
                return part
            return self._qualified(part, clause)

        return rewrite(expression, replacement)

    def _qualified(self, ref: ColumnRef, clause: str) -> ColumnRef:
        if ref.source is not None:
            with located(ref.location):
                source = self.source(ref.source)
            if ref.name in _visible(source):
                return ref
            if self._is_bound(ref):
                return replace(ref, source=None)
            raise self._unresolved(ref, f"{ref.source}.{ref.name}", clause)
        owners = [source for source in self.sources if ref.name in _visible(source)]
        if len(owners) > 1:
            names = [f"{owner.alias}.{ref.name}" for owner in owners]
            choice = ", ".join(names[:-1]) + " or " + names[-1]
            raise StatementError(
                "AMBIGUOUS_COLUMN",
                f"Exception while preparing statement: {position(ref.location)}Column '{ref.name}' is ambiguous. "
                f"Could be {choice}.",
                location=ref.location,
            )
        if owners:
            return replace(ref, source=owners[0].alias)
        if ref.name == self.synthetic_key:
            return ref
        if self._is_bound(ref):
            return ref
        raise self._unresolved(ref, ref.name, clause)

    def _is_bound(self, ref: ColumnRef) -> bool:
        return ref.name in WINDOW_BOUNDS and self.windowed_aggregation and not self.is_join

    def _unresolved(self, ref: ColumnRef, text: str, clause: str) -> StatementError:
        message = f"{position(ref.location)}{clause} column '{text}' cannot be resolved."
        if clause == "PARTITION BY":
            message += f" '{text}' must be a column in the source schema since PARTITION BY is applied on the input."
        names = sorted(self.all_names())
        near = difflib.get_close_matches(ref.name, names, n=1)
        if near:
            message += f"\nDid you mean '{near[0]}'?"
        elif len(names) <= _SHOWN_MAX:
            message += f"\nThe columns are {', '.join(map(quoted_name, names))}."
        if ref.name != ref.name.upper():
            message += f"\nA text is written in single quotes: '{ref.name}'."
        return StatementError("UNKNOWN_COLUMN", message, location=ref.location)

    def flatten(self, expression: Expression) -> Expression:
        """A qualified expression over the rows of the plan."""

        def replacement(part: Expression) -> Expression | None:
            if isinstance(part, ColumnRef) and part.source is not None:
                return replace(part, name=self.flat_name(part.source, part.name), source=None)
            return None

        return rewrite(expression, replacement)


def position(location: Location | None) -> str:
    """Where an error is, as ksqlDB's messages begin with it."""
    return "" if location is None else f"Line: {location.line}, Col: {location.column}: "


def _visible(source: ScopeSource) -> Collection[str]:
    return {**source.source.columns, **source.source.pseudo_columns}.keys()
