"""From records of connectors to bytes of topics and back, with the transforms of the connector between."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from hayase.connect.columns import RecordColumns, SingleColumn, StructColumns
from hayase.connect.contracts import Converter, HeaderConverter, Predicate, Transformation
from hayase.connect.errors import ErrorPolicy, RawRecord, Stage
from hayase.connect.model import ConnectHeader, ConnectRecord, SinkRecord, SourceRecord
from hayase.core.records import Headers
from hayase.log.protocol import RecordBatch


@dataclass(frozen=True, slots=True)
class ChainStep:
    """A transform, and of which records it is applied.

    Attributes:
        transform: what is applied.
        predicate: asked before; `None`: applied always.
        negate: whether it is applied where the predicate does not hold.
    """

    transform: Transformation
    predicate: Predicate | None = None
    negate: bool = False

    def apply(self, record: ConnectRecord) -> ConnectRecord | None:
        """The record after this step."""
        if self.predicate is not None and self.predicate.test(record) == self.negate:
            return record
        return self.transform.apply(record)

    def close(self) -> None:
        """Let go of both."""
        self.transform.close()
        if self.predicate is not None:
            self.predicate.close()


class SerializedRecord(NamedTuple):
    """A record of a source, as it goes into its topic; `timestamp_ms` is `None` where the source gave none."""

    topic: str
    partition: int | None
    key: bytes | None
    value: bytes | None
    timestamp_ms: int | None
    headers: Headers


class SinkConversion(Protocol):
    """Makes the records that a sink task gets of those of its topics.

    Attributes:
        policy: says what happens to records that fail.
    """

    policy: ErrorPolicy

    def from_batch(self, batch: RecordBatch, timestamp_type: str) -> list[SinkRecord]:
        """The records of a batch as the sink gets them, without those that were dropped or left out."""
        ...

    def columns_of(self, batch: RecordBatch) -> RecordColumns | None:
        """The same records by column; `None`: they have none, and are read one by one."""
        ...

    def close(self) -> None:
        """Let go of everything."""
        ...


class Conversion:
    """Transforms and converters of a task, under its error policy (of a sink: `SinkConversion`).

    Args:
        key: converts keys.
        value: converts values.
        header: converts headers.
        chain: transforms, in order.
        policy: says what happens to records that fail.
    """

    def __init__(
        self,
        key: Converter,
        value: Converter,
        header: HeaderConverter,
        chain: Sequence[ChainStep],
        policy: ErrorPolicy,
    ) -> None:
        self.key = key
        self.value = value
        self.header = header
        self.chain = tuple(chain)
        self.policy = policy

    def transformed(self, record: ConnectRecord, raw: RawRecord | None = None) -> ConnectRecord | None:
        """The record after all transforms; `None` if it was dropped or left out."""
        current: ConnectRecord | None = record
        for step in self.chain:
            current = self.policy.run(Stage.TRANSFORMATION, raw or record, step.transform, step.apply, current).value
            if current is None:
                return None
        return current

    def to_topic(self, record: SourceRecord) -> SerializedRecord | None:
        """A source's record as it goes into its topic; `None` if it was dropped or left out."""
        if not self.chain and not record.headers:
            topic = record.topic
            try:
                key = self.key.from_connect_data(topic, (), record.key_schema, record.key)
                value = self.value.from_connect_data(topic, (), record.value_schema, record.value)
            except Exception:  # again, step by step, under the error policy
                return self._to_topic(record)
            return SerializedRecord(topic, record.kafka_partition, key, value, record.timestamp_ms, ())
        return self._to_topic(record)

    def _to_topic(self, record: SourceRecord) -> SerializedRecord | None:
        changed = self.transformed(record)
        if changed is None:
            return None
        assert isinstance(changed, SourceRecord)
        run, topic = self.policy.run, changed.topic
        headers: list[tuple[str, bytes | None]] = []
        for name, value, schema in changed.headers:
            header = run(
                Stage.HEADER_CONVERTER, record, self.header, self.header.from_connect_header, topic, name, schema, value
            )
            if header.skipped:
                return None
            headers.append((name, header.value))
        convert = self.key.from_connect_data
        key = run(
            Stage.KEY_CONVERTER, record, self.key, convert, topic, changed.headers, changed.key_schema, changed.key
        )
        convert = self.value.from_connect_data
        data = None if key.skipped else run(
            Stage.VALUE_CONVERTER, record, self.value, convert, topic, changed.headers, changed.value_schema,
            changed.value,
        )  # fmt: skip
        if data is None or data.skipped:
            return None
        return SerializedRecord(
            topic, changed.kafka_partition, key.value, data.value, changed.timestamp_ms, tuple(headers)
        )

    def from_batch(self, batch: RecordBatch, timestamp_type: str) -> list[SinkRecord]:
        """See `SinkConversion.from_batch`."""
        if self.chain or batch.headers is not None:
            return self._from_rows(batch, range(len(batch)), timestamp_type)
        topic, partition = batch.topic, batch.partition
        key_of, value_of = self.key.to_connect_data, self.value.to_connect_data
        records: list[SinkRecord] = []
        for row, (offset, time_ms, key, value) in enumerate(
            zip(batch.offsets.tolist(), batch.timestamps_ms.tolist(), batch.keys, batch.values, strict=True)
        ):
            try:
                key_schema, key_value = key_of(topic, (), key)
                value_schema, value_value = value_of(topic, (), value)
            except Exception:  # again, step by step, under the error policy
                records.extend(self._from_rows(batch, (row,), timestamp_type))
                continue
            records.append(
                SinkRecord(
                    topic=topic,
                    kafka_partition=partition,
                    kafka_offset=offset,
                    key_schema=key_schema,
                    key=key_value,
                    value_schema=value_schema,
                    value=value_value,
                    timestamp_ms=time_ms,
                    timestamp_type=timestamp_type,
                    original_topic=topic,
                    original_kafka_partition=partition,
                    original_kafka_offset=offset,
                )
            )
        return records

    def columns_of(self, batch: RecordBatch) -> RecordColumns | None:
        """See `SinkConversion.columns_of`; there are none with transforms, or converters that have no columns."""
        if self.chain or batch.headers is not None or not len(batch):
            return None
        key: StructColumns | SingleColumn | None = None
        value: StructColumns | None = None
        if batch.keys.count(None) != len(batch):
            key = self.key.to_connect_columns(batch.topic, batch.keys)
            if key is None:
                return None
        if batch.values.count(None) != len(batch):
            found = self.value.to_connect_columns(batch.topic, batch.values)
            if not isinstance(found, StructColumns):
                return None
            value = found
        return RecordColumns(batch.topic, batch.partition, batch.offsets, key, value)

    def _from_rows(self, batch: RecordBatch, rows: Iterable[int], timestamp_type: str) -> list[SinkRecord]:
        found = (self.from_topic(RawRecord.of(batch, row), timestamp_type) for row in rows)
        return [record for record in found if record is not None]

    def from_topic(self, raw: RawRecord, timestamp_type: str = "CreateTime") -> SinkRecord | None:
        """A record of a topic as the sink gets it; `None` if it was dropped or left out."""
        run, topic = self.policy.run, raw.topic
        key = run(Stage.KEY_CONVERTER, raw, self.key, self.key.to_connect_data, topic, raw.headers, raw.key).value
        if key is None:
            return None
        value = run(
            Stage.VALUE_CONVERTER, raw, self.value, self.value.to_connect_data, topic, raw.headers, raw.value
        ).value
        if value is None:
            return None
        headers: list[ConnectHeader] = []
        for name, data in raw.headers:
            header = run(
                Stage.HEADER_CONVERTER, raw, self.header, self.header.to_connect_header, topic, name, data
            ).value
            if header is None:
                return None
            headers.append(ConnectHeader(name, header.value, header.schema))
        record = SinkRecord(
            topic=topic,
            kafka_partition=raw.partition,
            kafka_offset=raw.offset,
            key_schema=key.schema,
            key=key.value,
            value_schema=value.schema,
            value=value.value,
            timestamp_ms=raw.timestamp_ms,
            timestamp_type=timestamp_type,
            headers=tuple(headers),
            original_topic=topic,
            original_kafka_partition=raw.partition,
            original_kafka_offset=raw.offset,
        )
        changed = self.transformed(record, raw) if self.chain else record
        assert changed is None or isinstance(changed, SinkRecord)
        return changed

    def close(self) -> None:
        """Let go of transforms and converters."""
        for step in self.chain:
            step.close()
        for each in (self.key, self.value, self.header):
            each.close()
