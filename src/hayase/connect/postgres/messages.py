"""Events of logical messages, which `pg_logical_emit_message` wrote in a transaction, as Debezium has them."""

from __future__ import annotations

from collections.abc import Callable

from hayase.connect.postgres.config import CaptureConfig
from hayase.connect.postgres.events import SOURCE_SCHEMA, TRANSACTION_SCHEMA, Position, source_block
from hayase.connect.postgres.pgoutput import LogicalMessage
from hayase.connect.schema import (
    OPTIONAL_BYTES_SCHEMA,
    OPTIONAL_INT64_SCHEMA,
    OPTIONAL_STRING_SCHEMA,
    STRING_SCHEMA,
    ConnectSchema,
    struct_schema,
)

MESSAGE_KEY_SCHEMA = struct_schema(
    {"prefix": OPTIONAL_STRING_SCHEMA}, name="io.debezium.connector.postgresql.MessageKey", version=1
)
_MESSAGE = struct_schema(
    {"prefix": OPTIONAL_STRING_SCHEMA, "content": OPTIONAL_BYTES_SCHEMA},
    name="io.debezium.connector.postgresql.Message",
    version=1,
)


class MessageEvents:
    """Makes the events of messages.

    Args:
        config: the configuration.
        now_us: microseconds since 1970.
    """

    def __init__(self, config: CaptureConfig, now_us: Callable[[], int]) -> None:
        self.topic = config.topic("message")
        self._config = config
        self._now_us = now_us
        self.value_schema: ConnectSchema = struct_schema(
            {
                "op": STRING_SCHEMA,
                "ts_ms": OPTIONAL_INT64_SCHEMA,
                "ts_us": OPTIONAL_INT64_SCHEMA,
                "ts_ns": OPTIONAL_INT64_SCHEMA,
                "source": SOURCE_SCHEMA,
                "transaction": TRANSACTION_SCHEMA,
                "message": _MESSAGE,
            },
            name="io.debezium.connector.postgresql.MessageValue",
            version=1,
        )

    def value(self, message: LogicalMessage, position: Position) -> dict[str, object]:
        """The value of an event."""
        now_us = self._now_us()
        return {
            "op": "m",
            "ts_ms": now_us // 1000,
            "ts_us": now_us,
            "ts_ns": now_us * 1000,
            "source": source_block(self._config, position, "", ""),
            "transaction": None,
            "message": {"prefix": message.prefix, "content": message.content},
        }
