"""Rows of /inserts-stream: JSON objects as records of a stream or table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hayase.core.errors import HayaseError
from hayase.server.context import ServerContext
from hayase.server.errors import BAD_JSON, BAD_REQUEST, RequestError
from hayase.sql.ast.expressions import ColumnRef
from hayase.sql.catalog.sources import ROWTIME, DataSource
from hayase.sql.errors import SqlError, StatementError
from hayase.sql.formats.json_reading import DECODER, reader
from hayase.sql.grammar.parser import parse_expression
from hayase.sql.statements.insert import record_of
from hayase.sql.types import sql_types as sql
from hayase.sql.types.casts import caster

_TIMES = (sql.DATE, sql.TIME, sql.TIMESTAMP)


class RowInserts:
    """Writes JSON objects to a stream or table.

    Args:
        context: of the server.
        target: its name, as in SQL.

    Raises:
        RequestError: there is none of that name, or it cannot be written.
    """

    def __init__(self, context: ServerContext, target: str) -> None:
        self._context = context
        name = sql_name(target)
        source = context.engine.catalog.find(name)
        if source is None:
            raise _bad("UNKNOWN_SOURCE", f"Cannot insert values into an unknown stream/table: {sql.quoted_name(name)}")
        if source.is_source:
            raise _bad("READ_ONLY_SOURCE", f"Cannot insert values into read-only {source.kind.value.lower()}: {name}")
        if source.window is not None:
            raise _bad("INVALID_INSERT", "Cannot insert values into windowed stream/table!")
        self._source: DataSource = source
        self._types: dict[str, sql.SqlType] = {**source.columns, ROWTIME: sql.BIGINT}
        for header in source.headers:
            del self._types[header.name]

    def insert(self, line: bytes) -> None:
        """Write the row of a line.

        Raises:
            RequestError: it is no such row, or its topic cannot be written or is gone.
            HayaseError: it cannot be written.
        """
        try:
            row = DECODER.decode(line)
        except BAD_JSON as error:
            raise _bad("BAD_REQUEST", f"Invalid JSON in inserts stream: {error}") from error
        if not isinstance(row, dict):
            raise _bad("BAD_REQUEST", "Invalid JSON in inserts stream: a row is an object")
        values = {name: self._value(name, value) for name, value in self._named(row)}
        for column in self._source.key:
            if values.get(column.name) is None and self._source.is_table:
                raise _bad("INVALID_INSERT", f"Key field must be specified: {column.name}")
        record = record_of(self._source, values, self._context.registry)
        try:
            self._context.inserts.write([record])
        except StatementError as error:  # there is no statement here
            raise _bad(error.condition, error.message) from error

    def _named(self, row: Mapping[str, Any]) -> list[tuple[str, Any]]:
        named = []
        for given, value in row.items():
            name = given if given in self._types else sql_name(given)
            if name not in self._types:
                columns = ", ".join(map(sql.quoted_name, self._types))
                raise _bad(
                    "UNKNOWN_COLUMN",
                    f"Column name {sql.quoted_name(name)} does not exist. The columns of "
                    f"{sql.quoted_name(self._source.name)} are {columns}",
                )
            named.append((name, value))
        return named

    def _value(self, name: str, value: Any) -> Any:
        type_ = self._types[name]
        if value is None:
            return None
        try:
            if type_ in _TIMES and isinstance(value, str):
                return caster(sql.STRING, type_)(value)
            if type_ == sql.STRING and not isinstance(value, str):
                raise ValueError(f"{value!r} is no text")
            return reader(type_)(value)
        except (ValueError, HayaseError) as error:
            raise _bad(
                "INVALID_INSERT", f"Can't coerce a field of type {type(value).__name__} ({name}) to {type_}: {error}"
            ) from error


def sql_name(text: str) -> str:
    """A name as SQL reads it: in capitals unless it is in quotes."""
    try:
        expression = parse_expression(text)
    except SqlError:
        return text.upper()
    return expression.name if isinstance(expression, ColumnRef) and expression.source is None else text.upper()


def _bad(condition: str, message: str) -> RequestError:
    return RequestError(BAD_REQUEST, condition, message)
