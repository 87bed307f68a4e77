"""Records of connectors: as a source gives them, and as a sink gets them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from hayase.connect.schema import ConnectSchema
from hayase.core.records import Headers


class ConnectHeader(NamedTuple):
    """A header of a record, with its schema."""

    key: str
    value: object
    schema: ConnectSchema | None = None


ConnectHeaders = tuple[ConnectHeader, ...]
"""Headers in order; a name may occur more than once."""
SourcePartition = Mapping[str, object]
"""Which part of the source a record is from, as `{"server": "shop"}`: values are primitive."""
SourceOffset = Mapping[str, object]
"""Where in its part of the source a task goes on: values are primitive."""
RawKeyValue = tuple[bytes | None, bytes | None]
"""Key and value of a record as its topic has them."""


class SourceRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What a source task hands to the worker.

    Attributes:
        source_partition: which part of the source it is from.
        source_offset: where to go on behind it, in that part.
        topic: where it goes.
        kafka_partition: of the topic; `None`: by its key.
        key_schema: of the key; `None`: none.
        key: of the record.
        value_schema: of the value.
        value: of the record; `None`: a tombstone.
        timestamp_ms: event time; `None`: when the worker publishes it.
        headers: in order.
    """

    source_partition: SourcePartition
    source_offset: SourceOffset
    topic: str
    kafka_partition: int | None = None
    key_schema: ConnectSchema | None = None
    key: object = None
    value_schema: ConnectSchema | None = None
    value: object = None
    timestamp_ms: int | None = None
    headers: ConnectHeaders = ()

    def new_record(self, **changes: object) -> SourceRecord:
        """A copy with other values of these attributes."""
        return msgspec.structs.replace(self, **changes)


class SerializedRecords(msgspec.Struct, frozen=True, kw_only=True):
    """Records of one topic that a source task has serialized itself, for throughput.

    The worker takes them as they are: it applies neither transforms nor converters. A task may hand them out only where
    `SourceTaskContext.serialized_json` says how they must look.

    Attributes:
        topic: where they go.
        keys: of the records.
        values: of the records; `None`: a tombstone.
        timestamps_ms: event times.
        headers: one entry a record; `None`: no record has any.
        source_partition: which part of the source they are from.
        source_offset: where to go on behind the last of them; `None`: the task goes on before the first of them, until
            a later batch says more.
    """

    topic: str
    keys: list[bytes | None]
    values: list[bytes | None]
    timestamps_ms: list[int]
    headers: list[Headers] | None = None
    source_partition: SourcePartition
    source_offset: SourceOffset | None


Polled = Sequence[SourceRecord | SerializedRecords]
"""What one `poll` gives, in order."""


class SinkRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What a sink task gets.

    Attributes:
        topic: where it is from; transforms may change it.
        kafka_partition: of the topic.
        kafka_offset: in the partition.
        key_schema: of the key; `None`: none.
        key: of the record.
        value_schema: of the value.
        value: of the record; `None`: a tombstone.
        timestamp_ms: of the record.
        timestamp_type: `CreateTime` or `LogAppendTime`.
        headers: in order.
        original_topic: where it was read, before transforms (KIP-793); `None`: `topic`.
        original_kafka_partition: as `original_topic`.
        original_kafka_offset: as `original_topic`.
    """

    topic: str
    kafka_partition: int
    kafka_offset: int
    key_schema: ConnectSchema | None = None
    key: object = None
    value_schema: ConnectSchema | None = None
    value: object = None
    timestamp_ms: int | None = None
    timestamp_type: str = "CreateTime"
    headers: ConnectHeaders = ()
    original_topic: str | None = None
    original_kafka_partition: int | None = None
    original_kafka_offset: int | None = None

    def new_record(self, **changes: object) -> SinkRecord:
        """A copy with other values of these attributes."""
        return msgspec.structs.replace(self, **changes)


ConnectRecord = SourceRecord | SinkRecord
"""What transforms and predicates get. `record.new_record(value=…)` makes a changed one."""


class RecordMetadata(NamedTuple):
    """Where a published record is; the log does not always say the offset (`None`)."""

    topic: str
    partition: int | None
    offset: int | None
