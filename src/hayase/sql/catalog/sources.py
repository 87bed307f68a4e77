"""Streams and tables as the catalog knows them."""

from __future__ import annotations

from dataclasses import dataclass, field

from hayase.sql.ast.queries import WindowKind
from hayase.sql.ast.statements import SourceKind
from hayase.sql.formats.columns import Column
from hayase.sql.formats.format_info import FormatInfo
from hayase.sql.types.sql_types import BIGINT, INTEGER, SqlType, quoted_name

ROWTIME, ROWPARTITION, ROWOFFSET = "ROWTIME", "ROWPARTITION", "ROWOFFSET"
WINDOWSTART, WINDOWEND = "WINDOWSTART", "WINDOWEND"
PSEUDO_COLUMNS: dict[str, SqlType] = {ROWTIME: BIGINT, ROWPARTITION: INTEGER, ROWOFFSET: BIGINT}
"""Columns that every source has beside its own, in order."""
WINDOW_BOUNDS: dict[str, SqlType] = {WINDOWSTART: BIGINT, WINDOWEND: BIGINT}
"""Columns that sources with windowed keys have."""
SYSTEM_COLUMNS: dict[str, SqlType] = {**PSEUDO_COLUMNS, **WINDOW_BOUNDS}
"""Names that no column may have."""


@dataclass(frozen=True, slots=True)
class HeaderColumn:
    """A column of the headers of a record: all of them, or the last one with the name `key`."""

    name: str
    type: SqlType
    key: str | None = None


@dataclass(frozen=True, slots=True)
class WindowedKey:
    """How the keys of a source are windowed; `size_ms` is `None` for sessions."""

    kind: WindowKind
    size_ms: int | None


@dataclass(frozen=True, slots=True)
class TimestampColumn:
    """The column that gives the event time, and the format of its text."""

    name: str
    format: str | None = None


@dataclass(frozen=True, slots=True)
class DataSource:
    """A stream or a table.

    Attributes:
        kind: stream or table.
        name: as it counts.
        key: the columns of the key, in order.
        value: the columns of the value, in order.
        headers: the columns of headers, in order.
        topic: the Kafka topic.
        key_format: how keys are written.
        value_format: how values are written.
        window: how keys are windowed, if they are.
        timestamp: where the event time comes from, if not from the record.
        declared: names of all columns in the order in which they were declared, for texts.
        is_source: made by CREATE SOURCE, so that no statement may write it.
        statement: the text that made it.
        from_query: the query that writes it is its own, made with it (CREATE … AS SELECT).
    """

    kind: SourceKind
    name: str
    key: tuple[Column, ...]
    value: tuple[Column, ...]
    topic: str
    key_format: FormatInfo
    value_format: FormatInfo
    headers: tuple[HeaderColumn, ...] = ()
    window: WindowedKey | None = None
    timestamp: TimestampColumn | None = None
    declared: tuple[str, ...] = field(default=(), compare=False)
    is_source: bool = False
    statement: str = field(default="", compare=False)
    from_query: bool = False

    @property
    def is_table(self) -> bool:
        """Whether this is a table."""
        return self.kind is SourceKind.TABLE

    @property
    def columns(self) -> dict[str, SqlType]:
        """All declared columns: keys, values, headers."""
        return {
            **{column.name: column.type for column in (*self.key, *self.value)},
            **{header.name: header.type for header in self.headers},
        }

    @property
    def pseudo_columns(self) -> dict[str, SqlType]:
        """The columns that a query sees beside the declared ones."""
        return SYSTEM_COLUMNS if self.window is not None else PSEUDO_COLUMNS

    @property
    def schema_text(self) -> str:
        """The columns as ksqlDB shows them: `ID` INTEGER KEY, `NAME` STRING."""
        texts = dict(zip(self.columns, _column_texts(self.key, self.value, self.headers), strict=True))
        rest = [name for name in texts if name not in self.declared]
        return ", ".join(texts[name] for name in (*self.declared, *rest))


def schema_text(key: tuple[Column, ...], value: tuple[Column, ...], headers: tuple[HeaderColumn, ...] = ()) -> str:
    """Columns as ksqlDB shows them: keys, values, headers."""
    return ", ".join(_column_texts(key, value, headers))


def _column_texts(key: tuple[Column, ...], value: tuple[Column, ...], headers: tuple[HeaderColumn, ...]) -> list[str]:
    parts = [f"{quoted_name(column.name)} {column.type} KEY" for column in key]
    parts += [f"{quoted_name(column.name)} {column.type}" for column in value]
    for header in headers:
        suffix = "HEADERS" if header.key is None else f"HEADER('{header.key}')"
        parts.append(f"{quoted_name(header.name)} {header.type} {suffix}")
    return parts
