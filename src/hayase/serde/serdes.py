"""`Serdes`: the serdes by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Unpack, overload

from hayase.core.objects import FieldValues
from hayase.core.type_variables import T
from hayase.serde import bare, numbers
from hayase.serde.debezium_serde import DebeziumSerde
from hayase.serde.headers_serde import HeadersSerde
from hayase.serde.json_serde import JsonSerde
from hayase.serde.list_serde import ListSerde
from hayase.serde.pickled import PickleSerde
from hayase.serde.protocol import Serde
from hayase.serde.uuid_serde import UuidSerde

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor

    from hayase.serde.avro_serde import AvroSerde
    from hayase.serde.json_schema_serde import JsonSchemaSerde
    from hayase.serde.protobuf_serde import ProtobufSerde
    from hayase.serde.registry import SchemaRegistry
    from hayase.serde.registry_serde import ProtobufSettings, SchemaSettings


class Serdes:
    r"""The serdes by Kafka Streams' names.

    Example:
        >>> Serdes.long().serialize(1)
        b'\x00\x00\x00\x00\x00\x00\x00\x01'
    """

    @staticmethod
    def string() -> bare.StringSerde:
        """Text, UTF-8."""
        return bare.StringSerde()

    @staticmethod
    def bytes() -> bare.BytesSerde:
        """Bytes as they are: Kafka's ByteArray, ByteBuffer and Bytes serdes."""
        return bare.BytesSerde()

    @staticmethod
    def void() -> bare.VoidSerde:
        """Always null."""
        return bare.VoidSerde()

    @staticmethod
    def long() -> numbers.LongSerde:
        """64-bit integers, big-endian."""
        return numbers.LongSerde()

    @staticmethod
    def integer() -> numbers.IntegerSerde:
        """32-bit integers, big-endian."""
        return numbers.IntegerSerde()

    @staticmethod
    def short() -> numbers.ShortSerde:
        """16-bit integers, big-endian."""
        return numbers.ShortSerde()

    @staticmethod
    def double() -> numbers.DoubleSerde:
        """64-bit floating point numbers, big-endian."""
        return numbers.DoubleSerde()

    @staticmethod
    def float() -> numbers.FloatSerde:
        """32-bit floating point numbers, big-endian."""
        return numbers.FloatSerde()

    @staticmethod
    def boolean() -> numbers.BooleanSerde:
        """One byte, 1 or 0."""
        return numbers.BooleanSerde()

    @staticmethod
    def uuid() -> UuidSerde:
        """UUIDs as text."""
        return UuidSerde()

    @staticmethod
    def pickle() -> PickleSerde:
        """Any Python value, as a pickle: for topics that only those write to whom you trust to run code.

        See PickleSerde.
        """
        return PickleSerde()

    @staticmethod
    def list(inner: Serde[T]) -> ListSerde[T]:
        """Lists of values of another serde; see ListSerde."""
        return ListSerde(inner)

    @staticmethod
    def with_headers(inner: Serde[T]) -> HeadersSerde[T]:
        """Values of another serde with the headers of their record, for stores; see HeadersSerde."""
        return HeadersSerde(inner)

    @staticmethod
    def debezium(inner: Serde[T]) -> DebeziumSerde[T]:
        """Rows of captured tables out of Debezium's events; see DebeziumSerde."""
        return DebeziumSerde(inner)

    @overload
    @staticmethod
    def json(python_type: type[T]) -> JsonSerde[T]: ...
    @overload
    @staticmethod
    def json(python_type: None = None, *, schema: Mapping[str, object]) -> JsonSerde[FieldValues]: ...
    @overload
    @staticmethod
    def json(python_type: object = None, *, sort_fields: bool = False) -> JsonSerde: ...
    @staticmethod
    def json(
        python_type: object = None, *, schema: Mapping[str, object] | None = None, sort_fields: bool = False
    ) -> JsonSerde:
        """JSON; see JsonSerde."""
        return JsonSerde(python_type, schema=schema, sort_fields=sort_fields)

    @staticmethod
    def avro(
        schema: str | Mapping[str, object] | Sequence[object] | None = None,
        registry: SchemaRegistry | str | None = None,
        **options: Unpack[SchemaSettings],
    ) -> AvroSerde:
        """Avro with a schema registry; see AvroSerde, which names the options."""
        from hayase.serde.avro_serde import AvroSerde

        return AvroSerde(schema, registry, **options)

    @overload
    @staticmethod
    def json_schema(
        schema: type[T], registry: SchemaRegistry | str | None = None, **options: Unpack[SchemaSettings]
    ) -> JsonSchemaSerde[T]: ...
    @overload
    @staticmethod
    def json_schema(
        schema: str | Mapping[str, object] | None = None,
        registry: SchemaRegistry | str | None = None,
        **options: Unpack[SchemaSettings],
    ) -> JsonSchemaSerde: ...
    @staticmethod
    def json_schema(
        schema: type[object] | str | Mapping[str, object] | None = None,
        registry: SchemaRegistry | str | None = None,
        **options: Unpack[SchemaSettings],
    ) -> JsonSchemaSerde:
        """JSON with a schema registry; see JsonSchemaSerde, which names the options."""
        from hayase.serde.json_schema_serde import JsonSchemaSerde

        return JsonSchemaSerde(schema, registry, **options)

    @overload
    @staticmethod
    def protobuf(
        schema: type[T], registry: SchemaRegistry | str | None = None, **options: Unpack[ProtobufSettings]
    ) -> ProtobufSerde[T]: ...
    @overload
    @staticmethod
    def protobuf(
        schema: str | Descriptor | None = None,
        registry: SchemaRegistry | str | None = None,
        **options: Unpack[ProtobufSettings],
    ) -> ProtobufSerde: ...
    @staticmethod
    def protobuf(
        schema: type[object] | str | Descriptor | None = None,
        registry: SchemaRegistry | str | None = None,
        **options: Unpack[ProtobufSettings],
    ) -> ProtobufSerde:
        """Protobuf with a schema registry; see ProtobufSerde, which names the options."""
        from hayase.serde.protobuf_serde import ProtobufSerde

        return ProtobufSerde(schema, registry, **options)
