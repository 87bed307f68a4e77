"""Events as JSON, straight from the texts of the server: what the JSON converter would write, without its detour.

A third of the time of capture goes into values that are made only to be written. Where the worker uses the JSON
converter and no transform looks at the values, the task writes the bytes itself.
"""

from __future__ import annotations

import math
from binascii import b2a_base64
from collections.abc import Callable, Sequence

import msgspec

from hayase.connect.contracts import SerializedJson
from hayase.connect.converters.json_schemas import schema_to_json
from hayase.connect.converters.json_values import JsonValues
from hayase.connect.exceptions import DataError
from hayase.connect.postgres.events import Position, TableColumnPlan, TableEvents, source_block
from hayase.connect.postgres.pgoutput import Cell, Unchanged
from hayase.connect.schema import DECIMAL_NAME, SchemaType

_encode = msgspec.json.Encoder(decimal_format="number").encode
_INTEGERS = (SchemaType.INT16, SchemaType.INT32, SchemaType.INT64)


class _Column:
    """A column's part of a row: its name, and what is written for a text, null, or a value that was not sent."""

    __slots__ = ("absent", "index", "name", "prefix", "unavailable", "write")

    def __init__(self, plan: TableColumnPlan, values: JsonValues) -> None:
        self.index = plan.index
        self.name = plan.name
        self.prefix = _encode(plan.name) + b":"
        self.write = _writer(plan, values)
        fallback = plan.type.fallback
        write_value = values.writer(plan.type.schema)
        self.absent = self.prefix + (b"null" if plan.optional else _encode(write_value(fallback)))
        given = fallback if plan.type.unavailable is None else plan.type.unavailable
        self.unavailable = self.prefix + _encode(write_value(given))


def _writer(plan: TableColumnPlan, values: JsonValues) -> Callable[[str], bytes]:
    """What writes a text of the server as JSON."""
    schema, convert = plan.type.schema, plan.type.convert
    if convert is int:
        return str.encode
    if convert is str:
        return _encode
    if convert is float:
        return lambda text: text.encode() if math.isfinite(float(text)) else _encode(text)
    if schema.type in _INTEGERS:
        return lambda text: str(convert(text)).encode()
    if schema.name == DECIMAL_NAME and plan.type.exact_text:
        return _write_decimal
    if schema.type is SchemaType.STRING:
        return lambda text: _encode(convert(text))
    write = values.writer(schema)
    return lambda text: _encode(write(convert(text)))


def _write_decimal(text: str) -> bytes:
    """The digits of a number in base64; the server writes as many behind the point as the column has."""
    number = int(text.replace(".", ""))  # not for NaN and infinity, which are refused
    bits = (number if number >= 0 else ~number).bit_length() + 1
    return b'"' + b2a_base64(number.to_bytes((bits + 7) // 8, "big", signed=True), newline=False) + b'"'


class RenderedEvents:
    """Makes keys and values of one table as bytes.

    Args:
        events: of the table.
        json: how the JSON converter is configured.
    """

    def __init__(self, events: TableEvents, json: SerializedJson) -> None:
        self._events = events
        values = JsonValues()
        self._key = [_Column(plan, values) for plan in events.key_columns]
        self._row = [_Column(plan, values) for plan in events.row_columns]
        self._key_begin = self._key_end = self._value_begin = self._value_end = b""
        if json.key_schemas and events.key_schema is not None:
            self._key_begin = b'{"schema":' + _encode(schema_to_json(events.key_schema, values.write_default))
            self._key_begin, self._key_end = self._key_begin + b',"payload":', b"}"
        if json.value_schemas:
            self._value_begin = b'{"schema":' + _encode(schema_to_json(events.value_schema, values.write_default))
            self._value_begin, self._value_end = self._value_begin + b',"payload":', b"}"

    def key(self, cells: Sequence[Cell]) -> bytes | None:
        """The key of a row; `None`: the table has none."""
        if not self._key:
            return None
        return self._key_begin + self._fields(self._key, cells, None) + self._key_end

    def row(self, cells: Sequence[Cell], old: Sequence[Cell] | None = None) -> bytes:
        """A row; large values that were not sent are taken from the old row, where that has them."""
        return self._fields(self._row, cells, old)

    def envelope(self, op: str, before: bytes | None, after: bytes | None, position: Position, now_us: int) -> bytes:
        """The value of an event."""
        events = self._events
        source = _encode(source_block(events.config, position, events.table.namespace, events.table.name))
        parts = (
            self._value_begin,
            b'{"before":', before or b"null", b',"after":', after or b"null", b',"source":', source,
            b',"transaction":null,"op":"%b","ts_ms":%d,' % (op.encode(), now_us // 1000),
            b'"ts_us":%d,"ts_ns":%d}' % (now_us, now_us * 1000),
            self._value_end,
        )  # fmt: skip
        return b"".join(parts)

    def _fields(self, columns: Sequence[_Column], cells: Sequence[Cell], old: Sequence[Cell] | None) -> bytes:
        parts = []
        column = columns[0] if columns else None
        try:
            for column in columns:
                cell = cells[column.index]
                if cell.__class__ is str:  # nearly all
                    parts.append(column.prefix + column.write(cell))
                    continue
                if isinstance(cell, Unchanged) and old is not None:
                    cell = old[column.index]
                if cell is None:
                    parts.append(column.absent)
                elif isinstance(cell, Unchanged):
                    parts.append(column.unavailable)
                else:
                    parts.append(column.prefix + column.write(cell))
        except (ValueError, ArithmeticError, DataError) as error:
            assert column is not None, "a column was being written"
            raise self._events.refused(str(cells[column.index]), column.name, error) from error
        return b"{" + b",".join(parts) + b"}"
