"""The format KAFKA: one column as Kafka's own serializers write it."""

from __future__ import annotations

from typing import Any

from hayase.serde.bare import BytesSerde, StringSerde
from hayase.serde.numbers import DoubleSerde, IntegerSerde, LongSerde
from hayase.serde.protocol import ColumnCodec, Serde
from hayase.sql.formats.columns import Column
from hayase.sql.formats.payload import PayloadCodec
from hayase.sql.types import sql_types as sql

SERDES: dict[type[sql.SqlType], type[Serde[Any]]] = {
    sql.IntegerType: IntegerSerde,
    sql.BigintType: LongSerde,
    sql.DoubleType: DoubleSerde,
    sql.StringType: StringSerde,
    sql.BytesType: BytesSerde,
}
"""The serdes of the types that Kafka has serializers for."""


class KafkaPayload(PayloadCodec):
    """The value of the only column."""

    def __init__(self, column: Column) -> None:
        self._serde = SERDES[type(column.type)]()

    @property
    def columns(self) -> ColumnCodec | None:
        """The column form of bare values."""
        return self._serde.columns

    def write(self, value: Any) -> bytes:
        """As Kafka's serializer of the type."""
        return self._serde.to_bytes(value)

    def read(self, data: bytes) -> Any:
        """As Kafka's deserializer of the type."""
        return self._serde.from_bytes(data)
