"""Which class stands for which name of Kafka's and Debezium's transforms and predicates."""

from __future__ import annotations

from collections.abc import Mapping

from hayase.connect.contracts import Predicate, Transformation
from hayase.connect.transforms.cast import CastKey, CastValue
from hayase.connect.transforms.drop_headers import DropHeaders
from hayase.connect.transforms.extract_field import ExtractFieldKey, ExtractFieldValue
from hayase.connect.transforms.filter import Filter
from hayase.connect.transforms.flatten import FlattenKey, FlattenValue
from hayase.connect.transforms.header_from import HeaderFromKey, HeaderFromValue
from hayase.connect.transforms.hoist_field import HoistFieldKey, HoistFieldValue
from hayase.connect.transforms.insert_field import InsertFieldKey, InsertFieldValue
from hayase.connect.transforms.insert_header import InsertHeader
from hayase.connect.transforms.mask_field import MaskFieldKey, MaskFieldValue
from hayase.connect.transforms.predicates import HasHeaderKey, RecordIsTombstone, TopicNameMatches
from hayase.connect.transforms.regex_router import RegexRouter
from hayase.connect.transforms.replace_field import ReplaceFieldKey, ReplaceFieldValue
from hayase.connect.transforms.set_schema_metadata import SetSchemaMetadataKey, SetSchemaMetadataValue
from hayase.connect.transforms.timestamp_converter import TimestampConverterKey, TimestampConverterValue
from hayase.connect.transforms.timestamp_router import TimestampRouter
from hayase.connect.transforms.value_to_key import ValueToKey

_KAFKA = "org.apache.kafka.connect.transforms."

TRANSFORMS: Mapping[str, type[Transformation]] = {
    f"{_KAFKA}Cast$Key": CastKey,
    f"{_KAFKA}Cast$Value": CastValue,
    f"{_KAFKA}DropHeaders": DropHeaders,
    f"{_KAFKA}ExtractField$Key": ExtractFieldKey,
    f"{_KAFKA}ExtractField$Value": ExtractFieldValue,
    f"{_KAFKA}Filter": Filter,
    f"{_KAFKA}Flatten$Key": FlattenKey,
    f"{_KAFKA}Flatten$Value": FlattenValue,
    f"{_KAFKA}HeaderFrom$Key": HeaderFromKey,
    f"{_KAFKA}HeaderFrom$Value": HeaderFromValue,
    f"{_KAFKA}HoistField$Key": HoistFieldKey,
    f"{_KAFKA}HoistField$Value": HoistFieldValue,
    f"{_KAFKA}InsertField$Key": InsertFieldKey,
    f"{_KAFKA}InsertField$Value": InsertFieldValue,
    f"{_KAFKA}InsertHeader": InsertHeader,
    f"{_KAFKA}MaskField$Key": MaskFieldKey,
    f"{_KAFKA}MaskField$Value": MaskFieldValue,
    f"{_KAFKA}RegexRouter": RegexRouter,
    f"{_KAFKA}ReplaceField$Key": ReplaceFieldKey,
    f"{_KAFKA}ReplaceField$Value": ReplaceFieldValue,
    f"{_KAFKA}SetSchemaMetadata$Key": SetSchemaMetadataKey,
    f"{_KAFKA}SetSchemaMetadata$Value": SetSchemaMetadataValue,
    f"{_KAFKA}TimestampConverter$Key": TimestampConverterKey,
    f"{_KAFKA}TimestampConverter$Value": TimestampConverterValue,
    f"{_KAFKA}TimestampRouter": TimestampRouter,
    f"{_KAFKA}ValueToKey": ValueToKey,
}
"""Transforms by the full name of their class in Java."""

PREDICATES: Mapping[str, type[Predicate]] = {
    f"{_KAFKA}predicates.HasHeaderKey": HasHeaderKey,
    f"{_KAFKA}predicates.RecordIsTombstone": RecordIsTombstone,
    f"{_KAFKA}predicates.TopicNameMatches": TopicNameMatches,
}
"""Predicates by the full name of their class in Java."""
