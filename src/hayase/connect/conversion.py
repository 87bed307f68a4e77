"""From records of connectors to bytes of topics and back, with the transforms of the connector between."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hayase.connect.contracts import Converter, HeaderConverter, Predicate, Transformation
from hayase.connect.errors import ErrorPolicy, RawRecord, Stage
from hayase.connect.model import ConnectHeader, ConnectRecord, SinkRecord, SourceRecord
from hayase.core.records import Headers


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


@dataclass(frozen=True, slots=True)
class SerializedRecord:
    """A record of a source, as it goes into its topic; `timestamp_ms` is `None` where the source gave none."""

    topic: str
    partition: int | None
    key: bytes | None
    value: bytes | None
    timestamp_ms: int | None
    headers: Headers


class Conversion:
    """Transforms and converters of a task, under its error policy.

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
