"""Events as JSON, straight from the texts of the server: what the JSON converter would write, without its detour.

A third of the time of capture goes into values that are made only to be written. Where the worker uses the JSON
converter and no transform looks at the values, the task writes the bytes itself. What is the same in all events of a
table is prepared once.
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
from hayase.connect.postgres.column_types import ZONED_TIMESTAMP_NAME
from hayase.connect.postgres.events import Position, TableColumnPlan, TableEvents, source_block
from hayase.connect.postgres.pgoutput import Cell, CellWriter, Unchanged, write_row
from hayase.connect.schema import DECIMAL_NAME, SchemaType

_encode = msgspec.json.Encoder(decimal_format="number").encode
_INTEGERS = (SchemaType.INT16, SchemaType.INT32, SchemaType.INT64)


class _Column:
    """A column of a row: what it is, and what is written for a text, null, or a value that was not sent."""

    __slots__ = ("absent", "index", "plan", "unavailable", "write")

    def __init__(self, plan: TableColumnPlan, values: JsonValues) -> None:
        self.index = plan.index
        self.plan = plan
        self.write = _writer(plan, values)
        fallback = plan.type.fallback
        write_value = values.writer(plan.type.schema)
        # The converter writes the default of a column for null, too.
        absent = plan.type.schema.default if plan.optional else fallback
        self.absent = b"null" if absent is None else _encode(write_value(absent))
        self.unavailable = _encode(write_value(fallback if plan.type.unavailable is None else plan.type.unavailable))

    def write_any(self, cell: Cell) -> bytes:
        """What is written for a value of any kind."""
        if cell is None:
            return self.absent
        return self.unavailable if isinstance(cell, Unchanged) else self.write(cell)


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
    if schema.type is SchemaType.BOOLEAN:
        true = next(text for text in ("t", "1") if convert(text))  # of bool, of bit(1)
        return lambda text: b"true" if text == true else b"false"
    if schema.name == DECIMAL_NAME and plan.type.exact_text:
        return _write_decimal
    if schema.type is SchemaType.STRING:
        return lambda text: _encode(convert(text))
    write = values.writer(schema)
    return lambda text: _encode(write(convert(text)))


def _write_decimal(text: str) -> bytes:
    """The digits of a number in base64; the server writes as many behind the point as the column has."""
    return _write_decimal_bytes(text.encode())


def _bytes_writer(plan: TableColumnPlan, write: Callable[[str], bytes]) -> Callable[[bytes], bytes]:
    """What does the same as `write` with the bytes of a text."""
    schema, convert = plan.type.schema, plan.type.convert
    if convert is int:
        return bytes
    if schema.name == DECIMAL_NAME and plan.type.exact_text:
        return _write_decimal_bytes
    if schema.type is SchemaType.BOOLEAN:
        written = {text.encode(): write(text) for text in ("t", "f", "1", "0")}
        return written.__getitem__
    if schema.name == ZONED_TIMESTAMP_NAME:
        return lambda text: _write_zoned(text) or write(text.decode())
    return lambda text: write(text.decode())


def _write_decimal_bytes(text: bytes) -> bytes:
    number = int(text.replace(b".", b""))  # not for NaN and infinity, which are refused
    size = (number if number >= 0 else ~number).bit_length() // 8 + 1
    return b'"%b"' % b2a_base64(number.to_bytes(size, "big", signed=True), newline=False)


def _write_zoned(text: bytes) -> bytes | None:
    """A time with all six digits behind the second, as most are; `None` for others."""
    if len(text) == 29 and text[10] == 32 and text.endswith(b"+00"):
        return b'"%bT%bZ"' % (text[:10], text[11:26])
    return None


class _Fields:
    """Writes some columns of a row as a JSON object.

    Attributes:
        format: of the object, with a place for each column.

    Args:
        events: of the table.
        plans: the columns.
        values: makes JSON of values.
    """

    __slots__ = ("_columns", "_events", "_prepared", "_writers", "format")

    def __init__(self, events: TableEvents, plans: Sequence[TableColumnPlan], values: JsonValues) -> None:
        self._events = events
        self._columns = [_Column(plan, values) for plan in plans]
        self._prepared = [(column.index, column.write, column.absent, column) for column in self._columns]
        self._writers: list[CellWriter] = [(None, b"")] * events.columns
        for plan, column in zip(plans, self._columns, strict=True):
            # A null where the catalog allows none says that the catalog has changed.
            self._writers[plan.index] = _bytes_writer(plan, column.write), column.absent if plan.optional else None
        self.format = b"{" + b",".join(_literal(_encode(plan.name)) + b":%b" for plan in plans) + b"}"

    def write(self, cells: Sequence[Cell]) -> bytes:
        """The object."""
        return self.format % tuple(self.parts(cells))

    def parts(self, cells: Sequence[Cell]) -> list[bytes]:
        """What is written for each column."""
        try:
            return [
                write(cell)
                if (cell := cells[index]).__class__ is str
                else absent
                if cell is None
                else column.write_any(cell)
                for index, write, absent, column in self._prepared
            ]
        except (ValueError, ArithmeticError, DataError):
            self._refuse(cells)
            raise

    def parts_of_message(self, data: bytes, at: int) -> list[bytes] | None:
        """The same for the row that begins there in a message; `None`: decode it, and see."""
        try:
            return write_row(data, at, self._writers)
        except (ValueError, ArithmeticError, LookupError, DataError):
            return None

    def _refuse(self, cells: Sequence[Cell]) -> None:
        """Raise the error for the column that cannot be written."""
        for column in self._columns:
            cell = cells[column.index]
            try:
                if isinstance(cell, str):
                    column.plan.type.convert(cell)  # it says more of what is wrong than what writes in one step
                column.write_any(cell)
            except (ValueError, ArithmeticError, DataError) as error:
                raise self._events.refused(cells, column.plan, error) from error


def _literal(text: bytes) -> bytes:
    """A text as it stands in a format."""
    return text.replace(b"%", b"%%")


class _Source:
    """Writes the field `source`: as `source_block` makes it, of which a table and a transaction have their parts once.

    Args:
        events: of the table.
    """

    __slots__ = ("_begin", "_middle", "_names", "_table", "_transaction")

    def __init__(self, events: TableEvents) -> None:
        table = events.table
        block = source_block(events.config, Position(0, None, None, 0), table.namespace, table.name)
        self._names = _encode({name: block[name] for name in ("version", "connector", "name")})[:-1]
        self._table = _encode(block["db"]), _encode(table.namespace), _encode(table.name)
        self._transaction: Position | None = None
        self._begin = self._middle = b""

    def parts(self, lsn: int, transaction: Position) -> tuple[bytes, bytes, bytes, bytes]:
        """What is written for an event, in four parts.

        Args:
            lsn: of the event.
            transaction: what else its position has: the same object for all events of a transaction.
        """
        if transaction is not self._transaction:
            self._prepare(transaction)
        written = b"%d" % lsn
        return self._begin, written, self._middle, written

    def _prepare(self, position: Position) -> None:
        _, last_commit, xid, commit_us, snapshot = position
        database, namespace, table = self._table
        last = b"null" if last_commit is None else b'\\"%d\\"' % last_commit
        self._begin = b',"source":%b,"ts_ms":%d,"snapshot":"%b","db":%b,"sequence":"[%b,\\"' % (
            self._names, commit_us // 1000, snapshot.encode(), database, last,
        )  # fmt: skip
        self._middle = b'\\"]","ts_us":%d,"ts_ns":%d,"schema":%b,"table":%b,"txId":%b,"lsn":' % (
            commit_us, commit_us * 1000, namespace, table, b"null" if xid is None else b"%d" % xid,
        )  # fmt: skip
        self._transaction = position


_END = (
    b'%b%b%b%b,"xmin":null,"origin":null,"origin_lsn":null},"transaction":null,"op":"%b",'
    b'"ts_ms":%b,"ts_us":%b,"ts_ns":%b000}'
)
"""Format of an event from `source` on; the times are the digits of the microseconds, with three less and three more."""


class RenderedEvents:
    """Makes keys and values of one table as bytes.

    Args:
        events: of the table.
        json: how the JSON converter is configured.
    """

    def __init__(self, events: TableEvents, json: SerializedJson) -> None:
        values = JsonValues()
        self._row = _Fields(events, events.row_columns, values)
        self._source = _Source(events)
        key_begin = key_end = value_begin = value_end = b""
        if json.key_schemas and events.key_schema is not None:
            key_begin = b'{"schema":' + _encode(schema_to_json(events.key_schema, values.write_default))
            key_begin, key_end = _literal(key_begin) + b',"payload":', b"}"
        if json.value_schemas:
            value_begin = b'{"schema":' + _encode(schema_to_json(events.value_schema, values.write_default))
            value_begin, value_end = _literal(value_begin) + b',"payload":', b"}"
        self._key: _Fields | None = None
        self._key_places: list[int] | None = None
        if events.key_columns:
            self._key = _Fields(events, events.key_columns, values)
            self._key.format = key_begin + self._key.format + key_end
            if all(plan in events.row_columns for plan in events.key_columns):
                self._key_places = [events.row_columns.index(plan) for plan in events.key_columns]
        end = _END + value_end
        self._format = value_begin + b'{"before":%b,"after":%b' + end
        self._after_format = value_begin + b'{"before":null,"after":' + self._row.format + end
        self._before_format = value_begin + b'{"before":' + self._row.format + b',"after":null' + end

    def key(self, cells: Sequence[Cell]) -> bytes | None:
        """The key of a row; `None`: the table has none."""
        return None if self._key is None else self._key.write(cells)

    def record(
        self, op: str, cells: Sequence[Cell], lsn: int, transaction: Position, now_us: int
    ) -> tuple[bytes | None, bytes]:
        """Key and value of an event with one row: the one before a delete, else the one after.

        Args:
            op: kind of the event.
            cells: the row.
            lsn: where the event is from.
            transaction: what else its position has: the same object for all events of a transaction.
            now_us: microseconds since 1970.
        """
        parts = self._row.parts(cells)
        key, places = self._key, self._key_places
        # Columns of the key may be left out of the row.
        key_bytes = key.write(cells) if key is not None and places is None else self._key_of(parts)
        value_format = self._before_format if op == "d" else self._after_format
        return key_bytes, self._value(value_format, parts, op.encode(), lsn, transaction, now_us)

    def record_of_message(
        self, op: bytes, data: bytes, at: int, lsn: int, transaction: Position, now_us: int
    ) -> tuple[bytes | None, bytes] | None:
        """Key and value of an event with the new row that begins there in a message, which is not decoded.

        Returns:
            `None`: it has values that were not sent, unexpected nulls, or what cannot be captured; decode it, and see.
        """
        if self._key is not None and self._key_places is None:
            return None
        parts = self._row.parts_of_message(data, at)
        if parts is None:
            return None
        return self._key_of(parts), self._value(self._after_format, parts, op, lsn, transaction, now_us)

    def _key_of(self, parts: list[bytes]) -> bytes | None:
        """The key, whose columns are in the row."""
        key, places = self._key, self._key_places
        if key is None or places is None:
            return None
        if len(places) == 1:
            return key.format % parts[places[0]]
        return key.format % tuple([parts[place] for place in places])

    def _value(
        self, value_format: bytes, parts: list[bytes], op: bytes, lsn: int, transaction: Position, now_us: int
    ) -> bytes:
        now = b"%d" % now_us
        return value_format % (*parts, *self._source.parts(lsn, transaction), op, now[:-3], now, now)

    def update(
        self,
        old: Sequence[Cell],
        new: Sequence[Cell],
        lsn: int,
        transaction: Position,
        now_us: int,
    ) -> tuple[bytes | None, bytes]:
        """Key and value of an update of which the old row was sent.

        Args:
            old: the row before.
            new: the row after.
            lsn: where the event is from.
            transaction: what else its position has: the same object for all events of a transaction.
            now_us: microseconds since 1970.
        """
        now = b"%d" % now_us
        return self.key(new), self._format % (
            self._row.write(old), self._row.write(new), *self._source.parts(lsn, transaction), b"u", now[:-3], now, now,
        )  # fmt: skip
