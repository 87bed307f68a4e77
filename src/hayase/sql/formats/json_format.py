"""The format JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hayase.sql.formats.columns import Column
from hayase.sql.formats.json_reading import DECODER, reader, record_reader
from hayase.sql.formats.json_writing import ENCODER, record_writer, writer
from hayase.sql.formats.payload import PayloadCodec, fields_of


class JsonPayload(PayloadCodec):
    """JSON text: an object of the columns, or the only column's value."""

    def __init__(self, columns: Sequence[Column], *, bare: bool) -> None:
        self._read = reader(columns[0].type) if bare else record_reader(fields_of(columns))
        self._write = writer(columns[0].type) if bare else record_writer(fields_of(columns))

    def write(self, value: Any) -> bytes:
        """Compact JSON with all columns in their order."""
        return ENCODER.encode(value if self._write is None else self._write(value))

    def read(self, data: bytes) -> Any:
        """See json_reading; the text `null` is null."""
        value = DECODER.decode(data)
        return None if value is None else self._read(value)
