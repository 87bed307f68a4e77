"""The format JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from hayase.sql.formats.columns import Column
from hayase.sql.formats.json_reading import DECODER, reader, record_reader
from hayase.sql.formats.json_writing import ENCODER, record_writer, writer
from hayase.sql.formats.payload import PayloadCodec, fields_of

NOTHING: Mapping[str, None] = MappingProxyType({})
"""No fields."""


class JsonPayload(PayloadCodec):
    """JSON text: an object of the columns, or the only column's value.

    Args:
        columns: names and types.
        bare: the value is that of the only column.
        entries: maps are written as arrays of objects with key and value.
    """

    def __init__(self, columns: Sequence[Column], *, bare: bool, entries: bool = False) -> None:
        fields = fields_of(columns)
        self._read = reader(columns[0].type, entries=entries) if bare else record_reader(fields, entries=entries)
        self._write = writer(columns[0].type, entries=entries) if bare else record_writer(fields, entries=entries)

    def write(self, value: Any, missing: Mapping[str, None] = NOTHING) -> bytes:
        """Compact JSON with all columns in their order.

        Args:
            value: to write.
            missing: fields that are null if the value does not have them.
        """
        content = value if self._write is None else self._write(value)
        return ENCODER.encode({**missing, **content} if missing else content)

    def read(self, data: bytes) -> Any:
        """See json_reading; the text `null` is null."""
        value = DECODER.decode(data)
        return None if value is None else self._read(value)
