"""The format JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from hayase.sql.formats.columns import Column, types_in
from hayase.sql.formats.json_reading import DECODER, reader, record_reader
from hayase.sql.formats.json_twins import JsonTwin, spelling_of
from hayase.sql.formats.json_writing import ENCODER, record_writer, writer
from hayase.sql.formats.payload import PayloadCodec, fields_of
from hayase.sql.types import sql_types as sql

NOTHING: Mapping[str, None] = MappingProxyType({})
"""No fields."""
_MISSES_MAX = 200
"""So many records one after the other may be other than expected before no more are expected to be."""


class JsonPayload(PayloadCodec):
    """JSON text: an object of the columns, or the only column's value.

    Args:
        columns: names and types.
        bare: the value is that of the only column.
        entries: maps are written as arrays of objects with key and value.

    Attributes:
        twin: the short way of reading; `None` if there is none, or it was given up.
    """

    def __init__(self, columns: Sequence[Column], *, bare: bool, entries: bool = False) -> None:
        fields = fields_of(columns)
        long_way = bare or not columns or (entries and any(map(_has_maps, columns)))
        self.twin = None if long_way else JsonTwin(fields, {})
        self._missed = 0
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
        twin = self.twin
        if twin is not None:
            try:
                row = twin.read(data)
            except Exception:  # UndecidedError, or whatever does not fit, which the long way judges
                self._missed += 1
            else:
                self._missed = 0
                return row
        value = DECODER.decode(data)
        if value is None:
            return None
        row = self._read(value)
        if twin is not None:
            self._learn(twin, value)
        return row

    def _learn(self, twin: JsonTwin, value: Any) -> None:
        """Expect what a record that had to be read the long way looked like; give the short way up if that is vain."""
        spelling = spelling_of(twin.fields, value)
        if self._missed > _MISSES_MAX:
            self.twin = None
        elif any(twin.spelling.get(name) != key for name, key in spelling.items()):
            self.twin = JsonTwin(twin.fields, twin.spelling | spelling)


def _has_maps(column: Column) -> bool:
    return any(isinstance(each, sql.MapType) for each in types_in(column.type))
