"""The contract of serdes: one value at a time, and, where there is a schema, a column at a time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, Protocol

import polars as pl
import pyarrow as pa

from hayase.core.type_variables import T
from hayase.serde.arrow_bytes import is_chunked

Side = Literal["key", "value"]
"""Which part of a record."""

BARE_FIELD = "value"
"""Field name of a value that is not a record of fields."""


class Packing(Protocol):
    """How values that no type of Polars has are kept in columns: as bytes."""

    def pack_all(self, values: Sequence[Any]) -> list[bytes | None]:
        """The bytes of values, some of which are null; raises what a value of another type makes it raise."""
        ...

    def unpack_all(self, values: Sequence[bytes | None]) -> list[Any]:
        """The values of such bytes."""
        ...


@dataclass(frozen=True, slots=True)
class Schema:
    """Fields and types of a value in columns.

    Attributes:
        fields: field names in order with their Polars types. A bare value has the one field `value`.
        bare: the value is not a record of fields but the field itself (a string, a number, bytes).
        python_type: what the row form makes of a record of fields: `dict`, a dataclass or a msgspec.Struct;
            `None` if bare.
        packings: of the fields of dicts whose columns hold packed values.
    """

    fields: tuple[tuple[str, pl.DataType], ...]
    bare: bool = False
    python_type: type[object] | None = None
    packings: tuple[tuple[str, Packing], ...] = field(default=(), repr=False)

    @property
    def names(self) -> list[str]:
        """The field names in order."""
        return [name for name, _ in self.fields]

    def packed(self, frame: pl.DataFrame) -> pl.Series:
        """The fields in one column, as keys are: the bare field, or structs."""
        return frame.to_series() if self.bare else frame.to_struct()

    def unpacked(self, column: pl.Series) -> pl.DataFrame:
        """The fields of what `packed` made."""
        return column.to_frame(BARE_FIELD) if self.bare else column.struct.unnest()


@dataclass(slots=True)
class Decoded:
    """A column of bytes, decoded.

    Attributes:
        frame: the schema's fields, as many rows as there were values; null in the rows of `bad` and of null
            values.
        null: which values are null (a delete), as booleans; false in the rows of `bad`.
        bad: index and error of each value that could not be decoded, ascending.
    """

    frame: pl.DataFrame
    null: pl.Series
    bad: list[tuple[int, Exception]]

    def checked(self) -> Decoded:
        """This, where every value must have been decoded; raises the error of the first that was not."""
        if self.bad:
            raise self.bad[0][1]
        return self


class ColumnCodec(ABC):
    """The column form of a serde. Means exactly what the serde means, value by value."""

    @property
    @abstractmethod
    def schema(self) -> Schema:
        """Fields and types."""

    @abstractmethod
    def decode(self, data: pa.Array, fields: frozenset[str] | None = None) -> Decoded:
        """Values of a binary array; null bytes are null values.

        Never raises for a bad value: see `Decoded.bad`.
        """

    def decode_list(self, values: Sequence[bytes | None], fields: frozenset[str] | None = None) -> Decoded:
        """The same for a list, which some codecs read without making an array of it first."""
        array = pa.array(values, pa.binary())
        if is_chunked(array):  # more than 2 GB of bytes
            array = pa.array(values, pa.large_binary())
        return self.decode(array, fields)

    @abstractmethod
    def encode(self, frame: pl.DataFrame, null: pl.Series | None = None) -> list[bytes | None]:
        """Bytes of each row of the schema's fields; `None` where `null` is true.

        The bytes are those that `Serde.serialize` makes of the same value.

        Raises:
            SerializationError: a column has another type and some value does not fit the schema's.
        """

    def encode_packed(self, column: pl.Series) -> list[bytes | None]:
        """The same for fields in one column (`Schema.packed`); `None` for a null."""
        return self.encode(self.schema.unpacked(column), column.is_null() if column.null_count() else None)

    @abstractmethod
    def to_python(self, frame: pl.DataFrame, null: pl.Series | None = None) -> list[object]:
        """The row form's value of each row; `None` where `null` is true.

        Rows that could not be decoded have no value: leave them out, or flag them in `null`.
        """

    @abstractmethod
    def from_python(self, values: Sequence[object]) -> tuple[pl.DataFrame, pl.Series]:
        """Fields and null flags of the row form's values.

        Raises:
            SerializationError: a value does not fit the schema.
        """


class Serde(ABC, Generic[T]):
    """Turns values into bytes and back. Stateless; may be pickled; used by several tasks.

    `None` stands for null and is handled here: `to_bytes` and `from_bytes` never see it.
    """

    def serialize(self, value: T | None) -> bytes | None:
        """The bytes of a value.

        Raises:
            SerializationError: the value is not one this serde can write.
        """
        return None if value is None else self.to_bytes(value)

    def deserialize(self, data: bytes | None) -> T | None:
        """The value of the bytes.

        Raises:
            SerializationError: the bytes are no value of this serde.
        """
        return None if data is None else self.from_bytes(data)

    def for_topic(self, topic: str, side: Side, settings: Mapping[str, object]) -> Serde[T]:
        """The serde as it is used for the keys or values of one topic; most are the same for all.

        Called when a topology meets its configuration, once for each source, sink and store, before any record.

        Args:
            topic: the topic's name; of a store, of its changelog topic in Kafka Streams.
            side: keys or values.
            settings: the application's settings that begin with `schema.registry.`, without that, and those of
                serializers (`auto.register.schemas`, …).
        """
        return self

    def map_inner(self, replace: Callable[[Serde], Serde]) -> Serde[T]:
        """The serde with each serde that it is made of replaced; most are made of none."""
        return self

    def deserialize_many(self, data: Sequence[bytes | None]) -> list[T | None]:
        """The values of many bytes, as `deserialize` gives them; some serdes do it much faster than one by one.

        Raises:
            SerializationError: some bytes are no value of this serde; which, `deserialize` tells.
        """
        read = self.from_bytes
        return [None if item is None else read(item) for item in data]

    @abstractmethod
    def to_bytes(self, value: T) -> bytes:
        """Bytes of a value that is not null; raises SerializationError."""

    @abstractmethod
    def from_bytes(self, data: bytes) -> T:
        """Value of bytes; raises SerializationError."""

    @property
    def definition(self) -> str:
        """What the class and the schema do not say of how it reads and writes, as text; most have nothing to add."""
        return ""

    @property
    def columns(self) -> ColumnCodec | None:
        """The column form; `None` if this serde has no schema and so exists in rows only."""
        return None


def inner_serdes(serde: Serde) -> list[Serde]:
    """The serdes that a serde is made of; most are made of none."""
    inner: list[Serde] = []

    def noted(part: Serde) -> Serde:
        inner.append(part)
        return part

    serde.map_inner(noted)
    return inner
