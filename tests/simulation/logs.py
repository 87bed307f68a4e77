"""The log of a simulation: the real embedded log in memory, or the real Kafka code over the model of the brokers."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from tests.simulation.kafka_broker import Broker
from tests.simulation.kafka_clients import Clients
from tests.simulation.scheduler import Sim

from hayase.core.records import TopicPartition
from hayase.log.embedded.log import EmbeddedLog
from hayase.log.kafka.log import KafkaLog
from hayase.log.protocol import LogConfig, OutputBatch
from hayase.serde.murmur2 import partition_for_key


@dataclass(frozen=True, slots=True)
class Stored:
    """A committed record of a topic, as the oracle sees it."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int


class SimulatedLog(Protocol):
    """Where the topics are."""

    config: LogConfig

    def open(self) -> Any:
        """A `Log` of the current process."""
        ...

    def create(self, topic: str, partitions: int, config: Mapping[str, str] | None = None) -> None: ...

    def write(self, topic: str, partition: int, key: bytes, value: bytes, timestamp_ms: int) -> None:
        """Another application's record."""
        ...

    def read(self, topic: str) -> list[Stored]:
        """All committed records that are there, by partition and offset."""
        ...

    def ends(self, topic: str) -> dict[int, int]: ...

    def expire(self, topic: str, before: Mapping[int, int]) -> None:
        """Retention removes records."""
        ...

    def close(self) -> None: ...


class EmbeddedTopics:
    """The real embedded log in a folder."""

    def __init__(self, sim: Sim, folder: Path) -> None:
        self._sim = sim
        self.config = LogConfig(
            "embedded", str(folder), {"fsync": "false", "cleaner.interval.ms": "0", "map.size": str(64 << 20)}
        )
        self._log = self._open()

    def open(self) -> Any:
        return _Stepping(self._open(), self._sim, "log")

    def _open(self) -> EmbeddedLog:
        return EmbeddedLog(self.config, new_id=lambda: uuid.UUID(int=self._sim.ids.getrandbits(128)), clock=self._sim)

    def create(self, topic: str, partitions: int, config: Mapping[str, str] | None = None) -> None:
        self._log.create_topic(topic, partitions, config)

    def write(self, topic: str, partition: int, key: bytes, value: bytes, timestamp_ms: int) -> None:
        import numpy as np

        batch = OutputBatch(topic, [key], [value], [timestamp_ms], np.array([partition], np.int32))
        self._log.writer().append([batch])

    def read(self, topic: str) -> list[Stored]:
        found, reader = [], self._log.reader()
        count = self._log.describe([topic])[topic].partitions
        places = [TopicPartition(topic, number) for number in range(count)]
        starts, ends = self._log.start_offsets(places), self._log.end_offsets(places)
        for place in places:
            for batch in reader.fetch(place, starts[place], ends[place]):
                rows = zip(batch.offsets.tolist(), batch.keys, batch.values, batch.timestamps_ms.tolist(), strict=True)
                found += [Stored(place.partition, *row) for row in rows]
        return found

    def ends(self, topic: str) -> dict[int, int]:
        count = self._log.describe([topic])[topic].partitions
        found = self._log.end_offsets([TopicPartition(topic, number) for number in range(count)])
        return {place.partition: end for place, end in found.items()}

    def expire(self, topic: str, before: Mapping[int, int]) -> None:
        self._log.delete_records({TopicPartition(topic, number): offset for number, offset in before.items()})

    def close(self) -> None:
        self._log.close()


class KafkaTopics:
    """The real `KafkaLog` over the model of the brokers."""

    def __init__(self, sim: Sim) -> None:
        self._sim = sim
        self.broker = Broker(sim)
        self.clients = Clients(self.broker)
        self.config = LogConfig("kafka", "simulated:9092", {"producer.transaction.timeout.ms": "10000"})

    def open(self) -> Any:
        return KafkaLog(self.config, monotonic=self._sim.monotonic, sleep=self._sim.sleep)

    def create(self, topic: str, partitions: int, config: Mapping[str, str] | None = None) -> None:
        self.broker.create_topic(topic, partitions, dict(config or {}))

    def write(self, topic: str, partition: int, key: bytes, value: bytes, timestamp_ms: int) -> None:
        self.broker.write("", (-1, -1), topic, partition, [(key, value, timestamp_ms, None)])

    def read(self, topic: str) -> list[Stored]:
        return [
            Stored(number, each.offset, each.key, each.value, each.timestamp_ms)
            for number, partition in enumerate(self.broker.topics[topic].partitions)
            for each in partition.committed(partition.start, partition.end)
        ]

    def ends(self, topic: str) -> dict[int, int]:
        return {number: each.stable for number, each in enumerate(self.broker.topics[topic].partitions)}

    def expire(self, topic: str, before: Mapping[int, int]) -> None:
        for number, offset in before.items():
            self.broker.partition(topic, number).delete_before(offset)

    def close(self) -> None:
        pass


class _Stepping:
    """An object of the embedded log of which every call is two steps."""

    def __init__(self, inner: Any, sim: Sim, name: str) -> None:
        self._inner = inner
        self._sim = sim
        self._name = name

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if not callable(found):
            return found
        if name in ("reader", "writer"):
            return lambda: _Stepping(found(), self._sim, f"log.{name}")
        if name == "close":
            return found
        if name == "fetch":
            return self._fetch

        def call(*args: Any, **kwargs: Any) -> Any:
            self._sim.step(f"{self._name}.{name}")
            result = found(*args, **kwargs)
            self._sim.step("  answered")
            return result

        return call

    def _fetch(self, partition: TopicPartition, start: int, end: int) -> Iterator[Any]:
        self._sim.step(f"log.fetch {partition.topic}-{partition.partition} [{start}, {end})")
        yield from list(self._inner.fetch(partition, start, end))


def partition_of(key: str, partitions: int) -> int:
    """Kafka's default partition of a text key."""
    return partition_for_key(key.encode(), partitions)
