"""Records with a registry's head in front of what another codec reads and writes: JSON, Protobuf."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import polars as pl
import pyarrow as pa

from hayase.core.errors import SerializationError
from hayase.core.type_variables import T
from hayase.serde.protocol import ColumnCodec, Decoded, Schema
from hayase.serde.registry_serde import HEAD_SIZE, RegistrySerde


class FramedSerde(RegistrySerde[T]):
    """Base of those of which the schema's id says only whether a record can be read, not how."""

    @abstractmethod
    def written_head(self) -> bytes:
        """The bytes before what is written."""


class FramedCodec(ColumnCodec):
    """The column form of such a serde.

    Args:
        serde: the row form.
        inner: reads and writes what is behind the head.
    """

    def __init__(self, serde: FramedSerde, inner: ColumnCodec) -> None:
        self._serde = serde
        self._inner = inner

    def __reduce__(self) -> tuple[object, ...]:
        return (FramedCodec, (self._serde, self._inner))

    @property
    def schema(self) -> Schema:
        """The fields."""
        return self._inner.schema

    def decode(self, data: pa.Array, fields: frozenset[str] | None = None) -> Decoded:
        """See ColumnCodec."""
        return self.decode_list(data.to_pylist(), fields)

    def decode_list(self, values: Sequence[bytes | None], fields: frozenset[str] | None = None) -> Decoded:
        """See ColumnCodec; raises SchemaRegistryError where the registry does not answer."""
        refused: dict[bytes, SerializationError] = {}
        for head, sample in {value[:HEAD_SIZE]: value for value in values if value is not None}.items():
            try:
                self._serde.written_schema(self._serde.schema_id(sample))
            except SerializationError as error:
                refused[head] = error
        if not refused:
            return self._inner.decode_list([None if value is None else value[HEAD_SIZE:] for value in values], fields)
        bad: list[tuple[int, Exception]] = []
        payloads: list[bytes | None] = []
        for index, value in enumerate(values):
            why = None if value is None else refused.get(value[:HEAD_SIZE])
            if why is not None:
                bad.append((index, why))
            payloads.append(None if value is None or why is not None else value[HEAD_SIZE:])
        decoded = self._inner.decode_list(payloads, fields)
        null = decoded.null.scatter([index for index, _ in bad], False)
        return Decoded(decoded.frame, null, sorted([*decoded.bad, *bad], key=lambda each: each[0]))

    def encode(self, frame: pl.DataFrame, null: pl.Series | None = None) -> list[bytes | None]:
        """See ColumnCodec; raises SchemaRegistryError if there is no id for the schema."""
        texts = self._inner.encode(frame, null)
        head = self._serde.written_head() if any(text is not None for text in texts) else b""
        return [None if text is None else head + text for text in texts]

    def to_python(self, frame: pl.DataFrame, null: pl.Series | None = None) -> list[object]:
        """See ColumnCodec."""
        return self._inner.to_python(frame, null)

    def from_python(self, values: Sequence[object]) -> tuple[pl.DataFrame, pl.Series]:
        """See ColumnCodec."""
        return self._inner.from_python(values)
