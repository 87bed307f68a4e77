"""What CREATE OR REPLACE may change of a source."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from hayase.sql.ast.statements import SourceKind
from hayase.sql.catalog.catalog import kind_text
from hayase.sql.catalog.sources import DataSource, TimestampColumn, WindowedKey
from hayase.sql.errors import StatementError
from hayase.sql.formats.columns import Column
from hayase.sql.types.sql_types import quoted_name


def check_replaceable(name: str, kind: SourceKind, existing: DataSource | None, *, is_source: bool) -> None:
    """Sources made by CREATE SOURCE cannot be replaced, nor can others be replaced by such.

    Raises:
        StatementError: one of the two is such a source.
    """
    if is_source or (existing is not None and existing.is_source):
        text = kind.value.lower()
        raise StatementError(
            "CANNOT_REPLACE", f"Cannot add {text} '{name}': CREATE OR REPLACE is not supported on source {text}s."
        )


@contextmanager
def replacing(name: str) -> Iterator[None]:
    """The error of a source that cannot be replaced says what to do instead."""
    try:
        yield
    except StatementError as error:
        if error.condition != "CANNOT_REPLACE":
            raise
        raise StatementError(
            error.condition, f"{error.message}\nGive the new one another name, or DROP {quoted_name(name)} first."
        ) from error


def check_upgrade(old: DataSource, new: DataSource) -> None:
    """A source may get value columns at the end; all else stays as it is.

    Raises:
        StatementError: something else changed.
    """
    pairs: tuple[tuple[str, str, str], ...] = (
        ("type", kind_text(old.kind), kind_text(new.kind)),
        ("topic", old.topic, new.topic),
        ("key format", old.key_format.name, new.key_format.name),
        ("value format", old.value_format.name, new.value_format.name),
        ("timestamp column", _timestamp_text(old.timestamp), _timestamp_text(new.timestamp)),
        ("windows", _window_text(old.window), _window_text(new.window)),
    )
    for what, before, after in pairs:
        if before != after:
            raise StatementError(
                "CANNOT_REPLACE",
                f"Cannot upgrade data source: DataSource '{old.name}' has {what} = {before} which is not upgradeable "
                f"to {after}",
            )
    if old.key != new.key:
        _refuse(
            old, new, "Key columns must be identical. The following key columns", _different(old.key, new.key), key=True
        )
    different = _different(old.value, new.value[: len(old.value)])
    if different:
        _refuse(old, new, "The following columns", different, key=False)


def _window_text(window: WindowedKey | None) -> str:
    """The windows of a source's keys, e.g. `TUMBLING of 3600000 ms`."""
    if window is None:
        return "none"
    return window.kind.value if window.size_ms is None else f"{window.kind.value} of {window.size_ms} ms"


def _timestamp_text(column: TimestampColumn | None) -> str:
    """The column that gives the event time, with the format of its text."""
    if column is None:
        return "none"
    return quoted_name(column.name) + (f" in the format '{column.format}'" if column.format else "")


def _different(old: Sequence[Column], new: Sequence[Column]) -> list[Column]:
    return [column for index, column in enumerate(old) if index >= len(new) or new[index] != column]


def _refuse(old: DataSource, new: DataSource, what: str, columns: Sequence[Column], *, key: bool) -> None:
    suffix = " KEY" if key else ""
    listed = ", ".join(f"{quoted_name(column.name)} {column.type}{suffix}" for column in columns)
    raise StatementError(
        "CANNOT_REPLACE",
        f"Cannot upgrade data source: DataSource '{old.name}' has schema = {old.schema_text} which is not upgradeable "
        f"to {new.schema_text}. ({what} are changed, missing or reordered: [{listed}])",
    )
