"""Rows out of Debezium's events: a captured topic is read as a table, deletes included."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec
import polars as pl
import pyarrow as pa

from hayase.core.errors import SerializationError
from hayase.core.type_variables import T
from hayase.serde.bare import READ_ERRORS, refuse_bytes
from hayase.serde.protocol import ColumnCodec, Decoded, Schema, Serde, Side
from hayase.serde.unavailable import UNAVAILABLE, may_be_incomplete


class _Event(msgspec.Struct):
    """What is read of an event; with a schema beside it, the event is the `payload`."""

    op: str | None = None
    after: msgspec.Raw = msgspec.Raw(b"null")
    payload: msgspec.Raw = msgspec.Raw(b"")


_DECODE = msgspec.json.Decoder(_Event).decode


class DebeziumSerde(Serde[T]):
    """The row that an event of Debezium leaves behind, by a serde of JSON; a delete is `None`, as a tombstone is.

    Reads events with and without schemas (`value.converter.schemas.enable`). Written values are events of updates.

    A row that holds `__debezium_unavailable_value` does not have a large value that the update left as it was. A table
    (`builder.table`) keeps the value of the row before, and has its rows in a store for that; an update without a row
    before it goes to the processing exception handler. In streams and global tables such a row is refused: `ALTER
    TABLE … REPLICA IDENTITY FULL` makes the database send the value.

    Args:
        inner: the serde of the row, in JSON.
        incomplete: whether rows that hold the placeholder are read as they are.

    Example:
        >>> from hayase import Serdes
        >>> users = Serdes.debezium(Serdes.json())
        >>> users.deserialize(b'{"before":null,"after":{"name":"Ada"},"op":"c"}')
        {'name': 'Ada'}
        >>> users.deserialize(b'{"before":{"name":"Ada"},"after":null,"op":"d"}') is None
        True
    """

    def __init__(self, inner: Serde[T], *, incomplete: bool = False) -> None:
        self._inner = inner
        self._incomplete = incomplete

    def reading_incomplete(self) -> DebeziumSerde[T]:
        """The serde for readers that complete rows themselves."""
        return DebeziumSerde(self._inner, incomplete=True)

    def for_topic(self, topic: str, side: Side, settings: Mapping[str, object]) -> DebeziumSerde[T]:
        """The serde with the inner serde for that topic."""
        return DebeziumSerde(self._inner.for_topic(topic, side, settings), incomplete=self._incomplete)

    def map_inner(self, replace: Callable[[Serde], Serde]) -> DebeziumSerde[T]:
        """The serde with another serde of the row."""
        return DebeziumSerde(replace(self._inner), incomplete=self._incomplete)

    def row(self, data: bytes | None) -> bytes | None:
        """The JSON of the row that an event leaves; `None`: it is deleted.

        Raises:
            SerializationError: the bytes are no event, or do not have the whole row.
        """
        if data is None:
            return None
        try:
            event = _DECODE(data)
            if event.op is None and bytes(event.payload):
                event = _DECODE(bytes(event.payload))
        except READ_ERRORS as error:
            raise refuse_bytes(self, data, "events of Debezium in JSON") from error
        if event.op is None:
            raise refuse_bytes(self, data, "events of Debezium in JSON, with the field op")
        row = bytes(event.after)
        if not self._incomplete and may_be_incomplete(row):
            raise SerializationError(
                "VALUE_NOT_DESERIALIZABLE",
                f"the event has {UNAVAILABLE} instead of a large value that the update left as it was: run ALTER TABLE "
                "… REPLICA IDENTITY FULL in the database, so that it sends such values",
            )
        return None if row == b"null" else row

    def deserialize(self, data: bytes | None) -> T | None:
        """The row; `None` for a delete and a tombstone."""
        return self._inner.deserialize(self.row(data))

    def deserialize_many(self, data: Sequence[bytes | None]) -> list[T | None]:
        """The rows of many events."""
        return self._inner.deserialize_many([self.row(item) for item in data])

    def from_bytes(self, data: bytes) -> T:
        """The row of an event that is no delete."""
        row = self.row(data)
        if row is None:
            raise refuse_bytes(self, data, "events that leave a row")
        return self._inner.from_bytes(row)

    def to_bytes(self, value: T) -> bytes:
        """An event that says that the row is so now."""
        return b'{"before":null,"after":' + self._inner.to_bytes(value) + b',"op":"u"}'

    @property
    def columns(self) -> ColumnCodec | None:
        """The column form, where the serde of the row has one."""
        inner = self._inner.columns
        return None if inner is None else _DebeziumCodec(self, inner)


class _DebeziumCodec(ColumnCodec):
    """The column form: the rows of the events, in the columns of the inner serde."""

    def __init__(self, serde: DebeziumSerde, inner: ColumnCodec) -> None:
        self._serde = serde
        self._inner = inner

    @property
    def schema(self) -> Schema:
        return self._inner.schema

    def decode(self, data: pa.Array, fields: frozenset[str] | None = None) -> Decoded:
        return self.decode_list(data.to_pylist(), fields)

    def decode_list(self, values: Sequence[bytes | None], fields: frozenset[str] | None = None) -> Decoded:
        rows: list[bytes | None] = []
        bad: list[tuple[int, Exception]] = []
        for index, value in enumerate(values):
            try:
                rows.append(self._serde.row(value))
            except SerializationError as error:
                rows.append(None)
                bad.append((index, error))
        decoded = self._inner.decode_list(rows, fields)
        if not bad:
            return decoded
        null = decoded.null.to_list()
        for index, _ in bad:
            null[index] = False
        return Decoded(decoded.frame, pl.Series(null, dtype=pl.Boolean), sorted([*decoded.bad, *bad], key=_index))

    def encode(self, frame: pl.DataFrame, null: pl.Series | None = None) -> list[bytes | None]:
        rows = self._inner.encode(frame, null)
        return [None if row is None else b'{"before":null,"after":' + row + b',"op":"u"}' for row in rows]

    def to_python(self, frame: pl.DataFrame, null: pl.Series | None = None) -> list[object]:
        return self._inner.to_python(frame, null)

    def from_python(self, values: Sequence[object]) -> tuple[pl.DataFrame, pl.Series]:
        return self._inner.from_python(values)


def _index(entry: tuple[int, Exception]) -> int:
    return entry[0]
