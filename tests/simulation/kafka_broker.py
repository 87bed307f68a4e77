"""A model of a Kafka cluster's log and transactions: what brokers do, without the network.

Transactional ids are owned by (producer id, epoch); `init_transactions` raises the epoch, which fences the owner
before, and ends what it left open. Commit and abort write a control record to each partition a little after they were
decided. The last stable offset is that of the oldest open transaction. A transaction that is open for too long is
aborted, its owner fenced.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from confluent_kafka import KafkaError, KafkaException
from tests.simulation.scheduler import Sim


class Entry(NamedTuple):
    """A record of a partition; `value` of a control record tells how the transaction ended."""

    offset: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    headers: list[tuple[str, bytes]] | None
    producer: int
    control: bool = False


@dataclass
class Partition:
    entries: list[Entry] = field(default_factory=list)
    start: int = 0
    end: int = 0
    open: dict[int, int] = field(default_factory=dict)
    """Producer id of an open transaction → its first offset here."""
    aborted: list[tuple[int, int, int]] = field(default_factory=list)
    """Producer id, first and last offset of aborted transactions."""

    @property
    def stable(self) -> int:
        """The last stable offset."""
        return min(self.open.values(), default=self.end)

    def append(self, producer: int, key, value, timestamp_ms, headers, *, control: bool = False) -> int:  # type: ignore[no-untyped-def]
        offset = self.end
        self.entries.append(Entry(offset, key, value, timestamp_ms, headers, producer, control))
        self.end += 1
        return offset

    def committed(self, start: int, end: int) -> list[Entry]:
        """What a read-committed consumer sees of a range."""
        return [
            each
            for each in self.entries
            if start <= each.offset < min(end, self.stable)
            and not each.control
            and not any(each.producer == pid and first <= each.offset <= last for pid, first, last in self.aborted)
        ]

    def written(self, start: int, end: int) -> list[Entry]:
        """What a read-uncommitted consumer sees of a range."""
        return [each for each in self.entries if start <= each.offset < end and not each.control]

    def delete_before(self, offset: int) -> None:
        self.start = max(self.start, min(offset, self.end))
        self.entries = [each for each in self.entries if each.offset >= self.start]


@dataclass
class Topic:
    topic_id: str
    config: dict[str, str]
    partitions: list[Partition]


@dataclass
class Transaction:
    """The coordinator's entry of a transactional id."""

    producer: int
    epoch: int = -1
    timeout_s: float = 60.0
    ongoing: bool = False
    ending: str = ""
    """`commit` or `abort` once that is decided and until all control records are written."""
    begun: float = 0.0
    partitions: set[tuple[str, int]] = field(default_factory=set)


def refused(
    code: int, text: str = "", *, retriable: bool = False, fatal: bool = False, abort: bool = False
) -> KafkaException:
    return KafkaException(KafkaError(code, text, fatal, retriable, abort))


class Broker:
    """The cluster."""

    def __init__(self, sim: Sim) -> None:
        self.sim = sim
        self.topics: dict[str, Topic] = {}
        self.transactions: dict[str, Transaction] = {}
        self.offsets: dict[tuple[str, str, int], int] = {}
        self.down_until = 0.0
        self._producers = 0

    # topics

    def create_topic(self, name: str, partitions: int, config: dict[str, str]) -> None:
        if name in self.topics:
            raise refused(KafkaError.TOPIC_ALREADY_EXISTS)
        topic_id = str(uuid.UUID(int=self.sim.ids.getrandbits(128)))
        self.topics[name] = Topic(topic_id, dict(config), [Partition() for _ in range(partitions)])

    def delete_topic(self, name: str) -> None:
        if self.topics.pop(name, None) is None:
            raise refused(KafkaError.UNKNOWN_TOPIC_OR_PART)

    def partition(self, topic: str, number: int) -> Partition:
        found = self.topics.get(topic)
        if found is None or number >= len(found.partitions):
            raise refused(KafkaError.UNKNOWN_TOPIC_OR_PART)
        return found.partitions[number]

    # transactions

    def init_producer(self, transactional_id: str, timeout_s: float) -> tuple[int, int]:
        found = self.transactions.get(transactional_id)
        if found is None:
            self._producers += 1
            found = self.transactions[transactional_id] = Transaction(self._producers)
        if found.ending:
            raise refused(KafkaError.CONCURRENT_TRANSACTIONS, retriable=True)
        if found.ongoing:
            found.epoch += 1
            self._end(found, "abort")
            raise refused(KafkaError.CONCURRENT_TRANSACTIONS, retriable=True)
        found.epoch += 1
        found.timeout_s = timeout_s
        return found.producer, found.epoch

    def write(
        self,
        transactional_id: str,
        producer: tuple[int, int],
        topic: str,
        number: int,
        records: list[tuple],  # type: ignore[type-arg]
    ) -> None:
        """Append records of a transaction (or, with an empty id, of none) to a partition."""
        partition = self.partition(topic, number)
        if not transactional_id:
            for record in records:
                partition.append(0, *record)
            return
        found = self._owned(transactional_id, producer)
        if found.ending:
            raise refused(KafkaError.CONCURRENT_TRANSACTIONS, retriable=True)
        if not found.ongoing:
            found.ongoing, found.begun = True, self.sim.now
            self.sim.at(found.timeout_s, self._expiry(found))
        if (topic, number) not in found.partitions:
            found.partitions.add((topic, number))
            partition.open[found.producer] = partition.end
        for record in records:
            partition.append(found.producer, *record)

    def end_transaction(self, transactional_id: str, producer: tuple[int, int], how: str) -> None:
        found = self._owned(transactional_id, producer)
        if found.ending:
            if found.ending != how:
                raise refused(KafkaError.INVALID_TXN_STATE, abort=True)
            return
        if found.ongoing:
            self._end(found, how)

    def _owned(self, transactional_id: str, producer: tuple[int, int]) -> Transaction:
        found = self.transactions.get(transactional_id)
        if found is None or found.producer != producer[0]:
            raise refused(KafkaError.INVALID_PRODUCER_ID_MAPPING, fatal=True)
        if found.epoch != producer[1]:
            raise refused(KafkaError._FENCED, "fenced", fatal=True)
        return found

    def _end(self, found: Transaction, how: str) -> None:
        found.ending = how
        for place in sorted(found.partitions):
            self.sim.at(self.sim.latency(), self._control(found, place))
        if not found.partitions:
            found.ending, found.ongoing = "", False

    def _control(self, found: Transaction, place: tuple[str, int]) -> Callable[[], None]:
        def write() -> None:
            topic = self.topics.get(place[0])
            if topic is not None:
                partition = topic.partitions[place[1]]
                first = partition.open.pop(found.producer, partition.end)
                last = partition.append(
                    found.producer, b"", found.ending.encode(), self.sim.now_ms(), None, control=True
                )
                if found.ending == "abort":
                    partition.aborted.append((found.producer, first, last))
            self.sim.trace(f"broker {found.ending} of producer {found.producer} in {place[0]}-{place[1]}")
            found.partitions.discard(place)
            if not found.partitions:
                found.ending, found.ongoing = "", False

        return write

    def _expiry(self, found: Transaction) -> Callable[[], None]:
        begun = found.begun

        def expire() -> None:
            if found.ongoing and not found.ending and found.begun == begun:
                self.sim.trace(f"broker transaction of producer {found.producer} timed out")
                found.epoch += 1
                self._end(found, "abort")

        return expire
