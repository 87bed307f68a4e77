"""`OutboxMessage`: logical messages of PostgreSQL that hold events become these events."""

from __future__ import annotations

import msgspec

from hayase.connect.config.config_def import ConfigDef, Importance, TypedConfig
from hayase.connect.config.types import ConfigType
from hayase.connect.exceptions import DataError
from hayase.connect.model import ConnectHeader, ConnectRecord
from hayase.connect.schema import OPTIONAL_STRING_SCHEMA, STRING_SCHEMA
from hayase.connect.transforms.base import ConfiguredTransform
from hayase.core.decoding import decode_json


class _Content(msgspec.Struct):
    id: str
    aggregatetype: str
    aggregateid: str
    type: str
    payload: str
    correlationid: str = ""
    causationid: str = ""


class OutboxMessage(ConfiguredTransform):
    """Makes an event of each message with the prefix; its content is JSON with the columns of an outbox table.

    Other messages are left out, other records pass.
    """

    config_def = ConfigDef().define(
        "prefix",
        ConfigType.STRING,
        "hayase-outbox",
        None,
        Importance.MEDIUM,
        "Prefix of the messages that hold events.",
    )

    def _setup(self, config: TypedConfig) -> None:
        self._prefix = config.string("prefix")

    def apply(self, record: ConnectRecord) -> ConnectRecord | None:
        """The event of a message; `None` for a message of others."""
        value = record.value
        if not isinstance(value, dict) or value.get("op") != "m" or not isinstance(value.get("message"), dict):
            return record
        message = value["message"]
        if message.get("prefix") != self._prefix:
            return None
        try:
            content = decode_json(message.get("content") or b"", as_type=_Content)
        except msgspec.MsgspecError as error:
            raise DataError(
                "INVALID_VALUE",
                f"a logical message with the prefix {self._prefix!r} is no event of an outbox: {error}",
            ) from error
        attributes = {
            "ce_id": content.id,
            "ce_subject": content.aggregateid,
            "ce_type": content.type,
            "ce_correlationid": content.correlationid,
            "ce_causationid": content.causationid,
        }
        time_ms = value.get("ts_ms")
        return msgspec.structs.replace(
            record,
            topic=content.aggregatetype,
            kafka_partition=None,
            key_schema=STRING_SCHEMA,
            key=content.aggregateid,
            value_schema=OPTIONAL_STRING_SCHEMA,
            value=content.payload,
            headers=(
                *record.headers,
                ConnectHeader("id", content.id, STRING_SCHEMA),
                *(ConnectHeader(name, text, STRING_SCHEMA) for name, text in attributes.items() if text),
            ),
            timestamp_ms=time_ms if isinstance(time_ms, int) else record.timestamp_ms,
        )
