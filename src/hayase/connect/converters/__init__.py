"""Converters: bytes of topics and headers from and to values with schemas, under the names of Kafka's classes."""

from __future__ import annotations

from collections.abc import Mapping

_KAFKA = "org.apache.kafka.connect."
_CONFLUENT = "io.confluent.connect."
_HERE = "hayase.connect.converters."

ALIASES: Mapping[str, str] = {
    f"{_CONFLUENT}avro.AvroConverter": f"{_HERE}avro_converter:AvroConverter",
    f"{_CONFLUENT}json.JsonSchemaConverter": f"{_HERE}json_schema_converter:JsonSchemaConverter",
    f"{_CONFLUENT}protobuf.ProtobufConverter": f"{_HERE}protobuf_converter:ProtobufConverter",
    f"{_KAFKA}converters.BooleanConverter": f"{_HERE}primitive_converters:BooleanConverter",
    f"{_KAFKA}converters.ByteArrayConverter": f"{_HERE}primitive_converters:ByteArrayConverter",
    f"{_KAFKA}converters.DoubleConverter": f"{_HERE}primitive_converters:DoubleConverter",
    f"{_KAFKA}converters.FloatConverter": f"{_HERE}primitive_converters:FloatConverter",
    f"{_KAFKA}converters.IntegerConverter": f"{_HERE}primitive_converters:IntegerConverter",
    f"{_KAFKA}converters.LongConverter": f"{_HERE}primitive_converters:LongConverter",
    f"{_KAFKA}converters.ShortConverter": f"{_HERE}primitive_converters:ShortConverter",
    f"{_KAFKA}json.JsonConverter": f"{_HERE}json_converter:JsonConverter",
    f"{_KAFKA}storage.SimpleHeaderConverter": f"{_HERE}simple_header_converter:SimpleHeaderConverter",
    f"{_KAFKA}storage.StringConverter": f"{_HERE}string_converter:StringConverter",
}
"""Converters of keys, values and headers: module and class by the full name of the class in Java."""
