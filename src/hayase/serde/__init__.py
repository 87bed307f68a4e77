"""Bytes and values: serdes, the partitioner, windowed keys."""

from hayase.serde.bare import BytesSerde, StringSerde, VoidSerde
from hayase.serde.json_serde import JsonSerde
from hayase.serde.murmur2 import murmur2, partition_for_key, partitions_for_array, partitions_for_keys
from hayase.serde.numbers import (
    BooleanSerde,
    DoubleSerde,
    FloatSerde,
    IntegerSerde,
    LongSerde,
    ShortSerde,
)
from hayase.serde.protocol import BARE_FIELD, ColumnCodec, Decoded, Schema, Serde
from hayase.serde.serdes import Serdes

__all__ = [
    "BARE_FIELD",
    "BooleanSerde",
    "BytesSerde",
    "ColumnCodec",
    "Decoded",
    "DoubleSerde",
    "FloatSerde",
    "IntegerSerde",
    "JsonSerde",
    "LongSerde",
    "Schema",
    "Serde",
    "Serdes",
    "ShortSerde",
    "StringSerde",
    "VoidSerde",
    "murmur2",
    "partition_for_key",
    "partitions_for_array",
    "partitions_for_keys",
]
