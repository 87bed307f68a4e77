"""Bytes and values: serdes, the partitioner, windowed keys."""

from hayase.serde.bare import BytesSerde, StringSerde, VoidSerde
from hayase.serde.headers_serde import HeadersSerde, ValueAndHeaders
from hayase.serde.json_serde import JsonSerde
from hayase.serde.list_serde import ListSerde
from hayase.serde.murmur2 import murmur2, partition_for_key, partitions_for_array, partitions_for_keys
from hayase.serde.numbers import (
    BooleanSerde,
    DoubleSerde,
    FloatSerde,
    IntegerSerde,
    LongSerde,
    ShortSerde,
)
from hayase.serde.pickled import PickleSerde
from hayase.serde.plain import PlainSerde
from hayase.serde.protocol import BARE_FIELD, ColumnCodec, Decoded, Schema, Serde
from hayase.serde.serdes import Serdes
from hayase.serde.struct_serde import StructSerde
from hayase.serde.timestamped import decode_timestamped, decode_timestamped_array, encode_timestamped
from hayase.serde.uuid_serde import UuidSerde
from hayase.serde.windowed import (
    SessionWindowedSerde,
    TimeWindowedSerde,
    decode_session_keys,
    decode_windowed_keys,
    encode_session_keys,
    encode_windowed_keys,
)

__all__ = [
    "BARE_FIELD",
    "BooleanSerde",
    "BytesSerde",
    "ColumnCodec",
    "Decoded",
    "DoubleSerde",
    "FloatSerde",
    "HeadersSerde",
    "IntegerSerde",
    "JsonSerde",
    "ListSerde",
    "LongSerde",
    "PickleSerde",
    "PlainSerde",
    "Schema",
    "Serde",
    "Serdes",
    "SessionWindowedSerde",
    "ShortSerde",
    "StringSerde",
    "StructSerde",
    "TimeWindowedSerde",
    "UuidSerde",
    "ValueAndHeaders",
    "VoidSerde",
    "decode_session_keys",
    "decode_timestamped",
    "decode_timestamped_array",
    "decode_windowed_keys",
    "encode_session_keys",
    "encode_timestamped",
    "encode_windowed_keys",
    "murmur2",
    "partition_for_key",
    "partitions_for_array",
    "partitions_for_keys",
]
