"""The encodings of answers, by their media types."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Protocol

from hayase.server.http.encodings.json_values import RowsToJson, to_json, to_lines
from hayase.server.http.encodings.media_types import DELIMITED, JSON, KSQL_JSON, KSQL_PROTOBUF
from hayase.server.http.encodings.protobuf_rows import ProtobufRows
from hayase.server.rows import ResultColumn, RowBatch, RowHeader
from hayase.sql.errors import SqlError

ErrorEntity = Callable[[SqlError], Mapping[str, Any]]
"""The JSON object of an error."""


class RowEncoding(Protocol):
    """Writes one answer: `head`, then `batch` for each batch, then `tail`."""

    def head(self) -> bytes:
        """What comes before the rows."""
        ...

    def batch(self, batch: RowBatch) -> bytes:
        """The rows of a batch, its message and its error; empty if there is nothing to send."""
        ...

    def keep_alive(self) -> bytes:
        """What may be sent while there are no rows; empty where anything would be taken for data."""
        ...

    def tail(self) -> bytes:
        """What ends the answer."""
        ...


class Delimited:
    """A line of JSON for the header and for each row; tombstones and messages have none."""

    def __init__(self, header: RowHeader, error_entity: ErrorEntity) -> None:
        self._header = header
        self._values = RowsToJson(header.columns)
        self._error_entity = error_entity

    def head(self) -> bytes:
        """See RowEncoding."""
        return _metadata_json(self._header) + b"\n"

    def batch(self, batch: RowBatch) -> bytes:
        """See RowEncoding."""
        return to_lines(_items(batch, self._values, self._error_entity))

    def keep_alive(self) -> bytes:
        """See RowEncoding."""
        return b""

    def tail(self) -> bytes:
        """See RowEncoding."""
        return b""


class JsonArray:
    """One array: the header, then an array for each row, or the object of an error; each on a line of its own."""

    def __init__(self, header: RowHeader, error_entity: ErrorEntity) -> None:
        self._header = header
        self._values = RowsToJson(header.columns)
        self._error_entity = error_entity

    def head(self) -> bytes:
        """See RowEncoding."""
        return b"[" + _metadata_json(self._header) + b"\n"

    def batch(self, batch: RowBatch) -> bytes:
        """See RowEncoding."""
        lines = to_lines(_items(batch, self._values, self._error_entity))
        return b"," + lines[:-1].replace(b"\n", b"\n,") + b"\n" if lines else b""

    def keep_alive(self) -> bytes:
        """See RowEncoding."""
        return b""

    def tail(self) -> bytes:
        """See RowEncoding."""
        return b"]\n"


class StreamedRows:
    """An array of StreamedRow objects, each on a line of its own.

    Clients read it line by line and take commas from the end of lines, so an element goes with its comma at once. Where
    it is not known which element is the last one, it is held back until the next one comes.

    Args:
        header: of the answer.
        error_entity: the object of an error.
        protobuf: rows are messages instead of values.
    """

    def __init__(self, header: RowHeader, error_entity: ErrorEntity, *, protobuf: bool = False) -> None:
        self._header = header
        self._values = RowsToJson(header.columns)
        self._messages = ProtobufRows(header.columns) if protobuf else None
        self._error_entity = error_entity
        self._held = b""

    def head(self) -> bytes:
        """See RowEncoding."""
        self._held = b"[" + to_json(self._header_object())
        return self._released()

    def batch(self, batch: RowBatch) -> bytes:
        """See RowEncoding."""
        lines = []
        is_last = batch.final_message is not None or batch.error is not None
        for each in self.objects(batch):
            if self._held:
                lines.append(self._held + b",\n")
            self._held = to_json(each)
        return b"".join(lines) + (b"" if is_last else self._released())

    def _released(self) -> bytes:
        """The element that is held back, if another one is going to follow."""
        if not self._header.has_end or not self._held:
            return b""
        held, self._held = self._held, b""
        return held + b",\n"

    def keep_alive(self) -> bytes:
        """See RowEncoding."""
        return b"\n"

    def tail(self) -> bytes:
        """See RowEncoding."""
        return self._held + b"]\n"

    def _header_object(self) -> dict[str, Any]:
        """The StreamedRow of the header."""
        header: dict[str, Any] = {"queryId": self._header.query_id or ""}
        if self._messages is None:
            header["schema"] = self._header.schema_text
        else:
            header["protoSchema"] = self._messages.schema_text
        return {"header": header}

    def objects(self, batch: RowBatch) -> list[dict[str, Any]]:
        """The StreamedRows of a batch."""
        objects: list[dict[str, Any]] = [
            {"row": self._row(row, place in batch.tombstones)} for place, row in enumerate(batch.rows)
        ]
        if batch.error is not None:
            objects.append({"errorMessage": self._error_entity(batch.error)})
        if batch.final_message is not None:
            objects.append({"finalMessage": batch.final_message})
        return objects

    def _row(self, row: Any, is_tombstone: bool) -> dict[str, Any]:
        if self._messages is not None:
            shown: dict[str, Any] = {"protobufBytes": b64encode(self._messages(row)).decode()}
        else:
            shown = {"columns": self._values(row)}
        if is_tombstone:
            shown["tombstone"] = True
        return shown


def _items(batch: RowBatch, values: RowsToJson, error_entity: ErrorEntity) -> list[Any]:
    """The rows of a batch that have a line, and its error."""
    gone = batch.tombstones
    items: list[Any] = [values(row) for place, row in enumerate(batch.rows) if not gone or place not in gone]
    if batch.error is not None:
        items.append(error_entity(batch.error))
    return items


def _metadata_json(header: RowHeader) -> bytes:
    """The header of `/query-stream`."""
    return b'{"queryId":' + to_json(header.query_id) + _columns_json(header.columns)


@lru_cache(maxsize=512)
def _columns_json(columns: tuple[ResultColumn, ...]) -> bytes:
    """What is the same in the headers of all answers that have these columns."""
    names, types = [column.name for column in columns], [str(column.type) for column in columns]
    return b"," + to_json({"columnNames": names, "columnTypes": types})[1:]


def encoding_for(media_type: str, header: RowHeader, error_entity: ErrorEntity) -> RowEncoding:
    """The encoding of a media type.

    Raises:
        KeyError: there is none.
    """
    if media_type == DELIMITED:
        return Delimited(header, error_entity)
    if media_type == JSON:
        return JsonArray(header, error_entity)
    if media_type in (KSQL_JSON, KSQL_PROTOBUF):
        return StreamedRows(header, error_entity, protobuf=media_type == KSQL_PROTOBUF)
    raise KeyError(media_type)
