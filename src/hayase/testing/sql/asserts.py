"""ASSERT statements of test scripts."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

from hayase.core.errors import HayaseError
from hayase.serde.registry import SchemaRegistry
from hayase.sql.ast.expressions import Expression
from hayase.sql.ast.location import Location
from hayase.sql.ast.queries import WindowKind
from hayase.sql.ast.statement_text import statement_text
from hayase.sql.ast.statements import (
    AssertNullValues,
    AssertSource,
    AssertValues,
    ColumnDefinition,
    ColumnKind,
    CreateSource,
)
from hayase.sql.ast.text import expression_text
from hayase.sql.catalog.catalog import did_you_mean
from hayase.sql.catalog.sources import ROWTIME, WINDOW_BOUNDS, WINDOWEND, WINDOWSTART, DataSource
from hayase.sql.engine import SqlEngine
from hayase.sql.errors import StatementError
from hayase.sql.expressions.rows import compile_row
from hayase.sql.expressions.typing import type_of
from hayase.sql.formats.serdes import key_serde, value_serde
from hayase.sql.grammar.parser import ParsedStatement
from hayase.sql.registry.embedded import EmbeddedSchemaRegistry
from hayase.sql.statements.insert_coercion import insert_caster
from hayase.sql.types.sql_types import BIGINT, SqlType, quoted_name
from hayase.testing.topics import RawRecord

_BOUNDS_BYTES = {WindowKind.SESSION: 16, WindowKind.TUMBLING: 8, WindowKind.HOPPING: 8}


class SqlAssertionError(HayaseError, AssertionError):
    """An ASSERT statement does not hold."""


def check_values(
    statement: AssertValues, engine: SqlEngine, registry: SchemaRegistry, record: RawRecord | None
) -> None:
    """The next record has these values in these columns.

    Raises:
        SqlAssertionError: there is no record, or it is another one.
    """
    source = _source(statement.source, engine)
    names = statement.columns if statement.columns is not None else tuple(source.columns)
    expected = _expected(names, statement.values, source, engine)
    actual = _actual(_present(record, source), source, registry)
    _compare({name: actual.get(name) for name in expected}, expected, source)


def check_null_values(
    statement: AssertNullValues, engine: SqlEngine, registry: SchemaRegistry, record: RawRecord | None
) -> None:
    """The next record deletes this key.

    Raises:
        SqlAssertionError: there is no record, or it is another one.
    """
    source = _source(statement.source, engine)
    names = statement.columns if statement.columns is not None else tuple(column.name for column in source.key)
    expected = _expected(names, statement.key, source, engine)
    found = _present(record, source)
    actual = _actual(found, source, registry)
    if found.value is not None:
        raise _mismatch(source, f"a delete of {expected}", actual)
    _compare({name: actual.get(name) for name in expected}, expected, source)


def _source(name: str, engine: SqlEngine) -> DataSource:
    source = engine.catalog.find(name)
    if source is None:
        raise StatementError("UNKNOWN_SOURCE", f"{name} does not exist.{did_you_mean(engine.catalog, name)}")
    return source


def _present(record: RawRecord | None, source: DataSource) -> RawRecord:
    if record is None:
        raise SqlAssertionError(
            "NO_MORE_RECORDS", f"Expected another record, but all records of topic {source.topic} were asserted before"
        )
    return record


def _expected(
    names: Sequence[str], expressions: Sequence[Expression], source: DataSource, engine: SqlEngine
) -> dict[str, Any]:
    if len(names) != len(expressions):
        raise StatementError("INVALID_ASSERT", f"{len(names)} columns, but {len(expressions)} values")
    bounds = {} if source.window is None else WINDOW_BOUNDS
    types: dict[str, SqlType] = {**source.columns, ROWTIME: BIGINT, **bounds}
    expected = {}
    for name, expression in zip(names, expressions, strict=True):
        if name not in types:
            raise StatementError(
                "UNKNOWN_COLUMN",
                f"Column name {quoted_name(name)} does not exist. {source.name} has {', '.join(types)}.",
            )
        expected[name] = _value(expression, types[name], engine)
    return expected


def _value(expression: Expression, type_: SqlType, engine: SqlEngine) -> Any:
    """The value that an expression without columns has as one of a column."""
    given = type_of(expression, {}, engine.functions)
    evaluate = compile_row(expression, {}, engine.functions, engine.settings)
    try:
        return insert_caster(given, type_)(evaluate({}))
    except Exception as error:  # functions and casts may raise anything
        raise StatementError(
            "INVALID_ASSERT",
            f"{expression_text(expression)} has no value of type {type_}: {error}",
            location=expression.location,
        ) from error


def _actual(record: RawRecord, source: DataSource, registry: SchemaRegistry) -> dict[str, Any]:
    """The columns of a record, ROWTIME and the bounds of its window with them."""
    key_bytes, bounds = _window_of(record.key, source)
    key = key_serde(source.key_format, source.key, topic=source.topic, registry=registry).deserialize(key_bytes)
    value = value_serde(source.value_format, source.value, topic=source.topic, registry=registry).deserialize(
        record.value
    )
    keys = key if isinstance(key, dict) and len(source.key) != 1 else {column.name: key for column in source.key}
    return {ROWTIME: record.timestamp_ms, **bounds, **(keys or {}), **(value or {})}


def _window_of(key: bytes | None, source: DataSource) -> tuple[bytes | None, dict[str, int]]:
    """The key without its window, and the bounds of that."""
    if key is None or source.window is None:
        return key, {}
    length = _BOUNDS_BYTES[source.window.kind]
    numbers = struct.unpack(f">{length // 8}q", key[-length:])
    start, end = numbers[-1], numbers[0] if len(numbers) == 2 else numbers[0] + (source.window.size_ms or 0)
    return key[:-length], {WINDOWSTART: start, WINDOWEND: end}


def _compare(actual: dict[str, Any], expected: dict[str, Any], source: DataSource) -> None:
    if actual != expected:
        raise _mismatch(source, expected, actual)


def _mismatch(source: DataSource, expected: object, actual: object) -> SqlAssertionError:
    return SqlAssertionError(
        "RECORD_DIFFERS",
        f"Expected record does not match actual. Expected: {expected} Actual: {actual}, topic {source.topic}",
    )


def check_source(statement: AssertSource, engine: SqlEngine) -> None:
    """A stream or table is as this statement declares it.

    Raises:
        StatementError: it is not.
    """
    actual = _source(statement.name, engine)
    expected = _declared(statement, actual, engine)
    for what, left, right in (
        ("type", expected.kind.value, actual.kind.value),
        ("schema", expected.schema_text, actual.schema_text),
        ("kafka topic", expected.topic, actual.topic),
        ("key format", expected.key_format.name, actual.key_format.name),
        ("value format", expected.value_format.name, actual.value_format.name),
        ("window type", _window_kind(expected), _window_kind(actual)),
        ("window size", expected.window and expected.window.size_ms, actual.window and actual.window.size_ms),
        ("timestamp column", _time_column(expected), _time_column(actual)),
        ("timestamp format", _time_format(expected), _time_format(actual)),
        ("value serde features", expected.value_format.wrap, actual.value_format.wrap),
    ):
        if left != right:
            of = "" if what == "schema" else f" for source {actual.name}"
            raise StatementError(
                "SOURCE_DIFFERS", f"Expected {what} does not match actual{of}. Expected: {left}, Actual: {right}"
            )


def _declared(statement: AssertSource, actual: DataSource, engine: SqlEngine) -> DataSource:
    """The source that the statement would create."""
    scratch = SqlEngine(engine.settings, engine.functions, EmbeddedSchemaRegistry())
    scratch.catalog.types.update(engine.catalog.types)
    columns = _columns_of(actual) if statement.columns is None else statement.columns
    create = CreateSource(statement.kind, statement.name, columns, statement.properties)
    scratch.execute(ParsedStatement(statement_text(create), create, statement.location or Location(1, 1)))
    return _source(statement.name, scratch)


def _window_kind(source: DataSource) -> str | None:
    return None if source.window is None else source.window.kind.value


def _columns_of(source: DataSource) -> tuple[ColumnDefinition, ...]:
    key_kind = ColumnKind.PRIMARY_KEY if source.is_table else ColumnKind.KEY
    kinds = dict.fromkeys((column.name for column in source.key), key_kind)
    kinds |= {each.name: ColumnKind.HEADERS if each.key is None else ColumnKind.HEADER for each in source.headers}
    header_keys = {each.name: each.key for each in source.headers}
    return tuple(
        ColumnDefinition(name, type_, kinds.get(name, ColumnKind.VALUE), header_keys.get(name))
        for name, type_ in source.columns.items()
    )


def _time_column(source: DataSource) -> str | None:
    return None if source.timestamp is None else source.timestamp.name


def _time_format(source: DataSource) -> str | None:
    return None if source.timestamp is None else source.timestamp.format
