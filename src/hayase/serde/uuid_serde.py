"""UUIDs as text, as Kafka's own serializer writes them."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

import polars as pl
import pyarrow as pa

from hayase.serde.bare import BareCodec, refuse, refuse_bytes
from hayase.serde.protocol import BARE_FIELD, ColumnCodec, Serde

_FORM = "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"
_TEXT_LENGTH = 36


class UuidSerde(Serde[uuid.UUID]):
    """UUIDs in their canonical text of 36 characters, UTF-8: Kafka's UUIDSerializer.

    It writes lower case and reads both cases. In columns a UUID is its text in lower case.

    Example:
        >>> UuidSerde().serialize(uuid.UUID(int=1))
        b'00000000-0000-0000-0000-000000000001'
    """

    def to_bytes(self, value: uuid.UUID) -> bytes:
        """The canonical text; raises SerializationError for what is no `uuid.UUID`."""
        if not isinstance(value, uuid.UUID):
            raise refuse(self, value, "uuid.UUID")
        return str(value).encode()

    def from_bytes(self, data: bytes) -> uuid.UUID:
        """The UUID; raises SerializationError for anything but the canonical text."""
        try:
            value = uuid.UUID(data.decode("ascii"))
        except ValueError as error:
            raise refuse_bytes(self, data, "a UUID of 36 characters") from error
        if len(data) != _TEXT_LENGTH or str(value).encode() != data.lower():
            raise refuse_bytes(self, data, "a UUID of 36 characters")
        return value

    @property
    def columns(self) -> ColumnCodec:
        """One field of type String."""
        return _UuidCodec(self, pl.String(), uuid.UUID)


class _UuidCodec(BareCodec):
    def decode_column(self, data: pa.Array) -> pl.Series | None:
        try:
            text = pl.Series(BARE_FIELD, data.cast(pa.large_string()), dtype=pl.String).str.to_lowercase()
        except pa.ArrowInvalid:
            return None
        return text if text.str.contains(_FORM).all() else None

    def encode_column(self, values: pl.Series) -> list[bytes | None]:
        self._series(values.to_list())
        return values.str.to_lowercase().cast(pl.Binary).to_list()

    def to_python(self, frame: pl.DataFrame, null: pl.Series | None = None) -> list[object]:
        return [None if text is None else uuid.UUID(str(text)) for text in super().to_python(frame, null)]

    def _series(self, values: Sequence[object]) -> pl.Series:
        """From UUIDs or their texts."""
        texts = [str(value) if isinstance(value, uuid.UUID) else value for value in values]
        column = pl.Series(BARE_FIELD, texts, dtype=pl.String, strict=True).str.to_lowercase()
        wrong = column.filter(~column.str.contains(_FORM))
        if len(wrong):
            raise refuse(self._serde, wrong[0], "UUIDs of 36 characters")
        return column
