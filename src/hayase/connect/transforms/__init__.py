"""Single message transforms, one a module, named as the classes of Kafka and Debezium."""

from __future__ import annotations

from collections.abc import Mapping

_KAFKA = "org.apache.kafka.connect.transforms."
_DEBEZIUM = "io.debezium.transforms."
_HERE = "hayase.connect.transforms."

ALIASES: Mapping[str, str] = {
    f"{_KAFKA}Cast$Key": f"{_HERE}cast:CastKey",
    f"{_KAFKA}Cast$Value": f"{_HERE}cast:CastValue",
    f"{_KAFKA}DropHeaders": f"{_HERE}drop_headers:DropHeaders",
    f"{_KAFKA}ExtractField$Key": f"{_HERE}extract_field:ExtractFieldKey",
    f"{_KAFKA}ExtractField$Value": f"{_HERE}extract_field:ExtractFieldValue",
    f"{_KAFKA}Filter": f"{_HERE}filter:Filter",
    f"{_KAFKA}Flatten$Key": f"{_HERE}flatten:FlattenKey",
    f"{_KAFKA}Flatten$Value": f"{_HERE}flatten:FlattenValue",
    f"{_KAFKA}HeaderFrom$Key": f"{_HERE}header_from:HeaderFromKey",
    f"{_KAFKA}HeaderFrom$Value": f"{_HERE}header_from:HeaderFromValue",
    f"{_KAFKA}HoistField$Key": f"{_HERE}hoist_field:HoistFieldKey",
    f"{_KAFKA}HoistField$Value": f"{_HERE}hoist_field:HoistFieldValue",
    f"{_KAFKA}InsertField$Key": f"{_HERE}insert_field:InsertFieldKey",
    f"{_KAFKA}InsertField$Value": f"{_HERE}insert_field:InsertFieldValue",
    f"{_KAFKA}InsertHeader": f"{_HERE}insert_header:InsertHeader",
    f"{_KAFKA}MaskField$Key": f"{_HERE}mask_field:MaskFieldKey",
    f"{_KAFKA}MaskField$Value": f"{_HERE}mask_field:MaskFieldValue",
    f"{_KAFKA}RegexRouter": f"{_HERE}regex_router:RegexRouter",
    f"{_KAFKA}ReplaceField$Key": f"{_HERE}replace_field:ReplaceFieldKey",
    f"{_KAFKA}ReplaceField$Value": f"{_HERE}replace_field:ReplaceFieldValue",
    f"{_KAFKA}SetSchemaMetadata$Key": f"{_HERE}set_schema_metadata:SetSchemaMetadataKey",
    f"{_KAFKA}SetSchemaMetadata$Value": f"{_HERE}set_schema_metadata:SetSchemaMetadataValue",
    f"{_KAFKA}TimestampConverter$Key": f"{_HERE}timestamp_converter:TimestampConverterKey",
    f"{_KAFKA}TimestampConverter$Value": f"{_HERE}timestamp_converter:TimestampConverterValue",
    f"{_KAFKA}TimestampRouter": f"{_HERE}timestamp_router:TimestampRouter",
    f"{_KAFKA}ValueToKey": f"{_HERE}value_to_key:ValueToKey",
    f"{_KAFKA}predicates.HasHeaderKey": f"{_HERE}predicates:HasHeaderKey",
    f"{_KAFKA}predicates.RecordIsTombstone": f"{_HERE}predicates:RecordIsTombstone",
    f"{_KAFKA}predicates.TopicNameMatches": f"{_HERE}predicates:TopicNameMatches",
    f"{_DEBEZIUM}ExtractNewRecordState": f"{_HERE}extract_new_record_state:ExtractNewRecordState",
    f"{_HERE}OutboxMessage": f"{_HERE}outbox_message:OutboxMessage",
    f"{_DEBEZIUM}outbox.EventRouter": f"{_HERE}event_router:EventRouter",
}
"""Transforms and predicates: module and class by the full name of the class in Java."""
