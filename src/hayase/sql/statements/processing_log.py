"""The processing log as a stream: its topic and its columns, in ksqlDB's form."""

from __future__ import annotations

from collections.abc import Mapping

from hayase.sql.ast.text import string_text
from hayase.sql.settings import is_on
from hayase.sql.types.sql_types import quoted_name

_LOG = "ksql.logging.processing."
_TEXTS = "ARRAY<VARCHAR>"
_COLUMNS = f"""logger VARCHAR, level VARCHAR, time BIGINT, message STRUCT<
    type INT,
    deserializationError STRUCT<
        target VARCHAR, errorMessage VARCHAR, recordB64 VARCHAR, cause {_TEXTS}, `topic` VARCHAR>,
    recordProcessingError STRUCT<errorMessage VARCHAR, record VARCHAR, cause {_TEXTS}>,
    productionError STRUCT<errorMessage VARCHAR>,
    serializationError STRUCT<
        target VARCHAR, errorMessage VARCHAR, record VARCHAR, cause {_TEXTS}, `topic` VARCHAR>,
    kafkaStreamsThreadError STRUCT<message VARCHAR, name VARCHAR, cause {_TEXTS}>>"""


def processing_log_topic(settings: Mapping[str, object]) -> str:
    """The topic of the processing log."""
    return str(settings.get(f"{_LOG}topic.name") or f"{settings.get('ksql.service.id') or ''}ksql_processing_log")


def processing_log_size(settings: Mapping[str, object]) -> tuple[int, int]:
    """Partitions and replicas of that topic, where it has to be made."""
    numbers = [settings.get(f"{_LOG}topic.{name}") for name in ("partitions", "replication.factor")]
    partitions, replicas = (1 if number is None else int(str(number)) for number in numbers)
    return partitions, replicas


def makes_processing_log_topic(settings: Mapping[str, object]) -> bool:
    """Whether the topic is made if it is not there."""
    return is_on(settings, f"{_LOG}topic.auto.create")


def processing_log_stream(settings: Mapping[str, object]) -> str | None:
    """The statement that makes the processing log a stream; `None`: the settings do not want one."""
    if not is_on(settings, f"{_LOG}stream.auto.create"):
        return None
    name = quoted_name(str(settings.get(f"{_LOG}stream.name")))
    partitions, replicas = processing_log_size(settings)
    return (
        f"CREATE STREAM IF NOT EXISTS {name} ({_COLUMNS}) WITH (KAFKA_TOPIC = "
        f"{string_text(processing_log_topic(settings))}, VALUE_FORMAT = 'JSON', PARTITIONS = {partitions}, "
        f"REPLICAS = {replicas});"
    )
