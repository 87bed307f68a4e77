"""confluent_kafka's clients over the model of the brokers, as far as the product uses them.

Every request is two steps, so that others go first, processes crash and answers get lost on both sides of its effect.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace
from typing import Any
from unittest import mock

import confluent_kafka
from confluent_kafka import IsolationLevel, KafkaError, KafkaException, Message
from confluent_kafka.admin import ConfigSource
from tests.simulation.kafka_broker import Broker, refused

from hayase.log.kafka import clients as kafka_clients
from hayase.serde.murmur2 import partition_for_key

_LATEST, _EARLIEST = -1, -2
_CHUNK = 3


def _of_the_model(client: Any) -> Any:
    assert isinstance(client, ModelProducer | ModelConsumer | ModelAdmin), f"{client} is a real client"
    return client


class Clients:
    """Makes clients of one cluster, in the place of those of confluent_kafka."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.answer_lost = 0.0
        """Chance that the answer to the end of a transaction does not arrive."""

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Inside, the product's Kafka code opens these clients, and a test in which it opens a real one fails."""
        replaced = {
            "ReferableProducer": self.producer,
            "ReferableConsumer": self.consumer,
            "AdminClient": self.admin,
            "never_freed_in_children": _of_the_model,  # which gets each client that is opened
        }
        with ExitStack() as stack:
            for name, made in replaced.items():
                stack.enter_context(mock.patch.object(kafka_clients, name, made))
            yield

    def producer(self, settings: Mapping[str, Any], logger: object = None) -> ModelProducer:
        return ModelProducer(self, settings)

    def consumer(self, settings: Mapping[str, Any], logger: object = None) -> ModelConsumer:
        return ModelConsumer(self, settings)

    def admin(self, settings: Mapping[str, Any], logger: object = None) -> ModelAdmin:
        return ModelAdmin(self)

    def request(self, label: str, effect: Callable[[], Any]) -> Any:
        sim = self.broker.sim
        if sim.process is None:
            return effect()
        sim.step(label)
        if self.broker.down_until > sim.now:
            sim.sleep(1.0)
            raise refused(KafkaError._TIMED_OUT, "no answer", retriable=True)
        result = effect()
        sim.step("  answered")
        return result

    def metadata(self, topic: str | None) -> Any:
        def ask() -> Any:
            topics = self.broker.topics
            found = {
                name: SimpleNamespace(
                    topic=name,
                    error=None,
                    partitions={number: SimpleNamespace(id=number) for number in range(len(topics[name].partitions))},
                )
                for name in ([topic] if topic is not None else list(topics))
                if name in topics
            }
            if topic is not None and topic not in found:
                error = KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)
                found[topic] = SimpleNamespace(topic=topic, error=error, partitions={})
            return SimpleNamespace(topics=found)

        return self.request(f"metadata {topic or ''}", ask)


class ModelProducer:
    """A producer, transactional or not."""

    def __init__(self, clients: Clients, settings: Mapping[str, Any]) -> None:
        self._clients = clients
        self._broker = clients.broker
        self._id = str(settings.get("transactional.id", ""))
        self._timeout_s = float(settings.get("transaction.timeout.ms", 60_000)) / 1000
        self._owner = (-1, -1)
        self._queue: list[tuple[str, int, tuple[Any, ...], Callable[..., object] | None]] = []
        self._failed: KafkaException | None = None
        self._in_transaction = False

    def list_topics(self, topic: str | None = None, timeout: float = -1) -> Any:
        return self._clients.metadata(topic)

    def init_transactions(self, timeout: float) -> None:
        deadline = self._broker.sim.now + timeout
        while True:
            try:
                self._owner = self._clients.request(
                    f"init {self._id}", lambda: self._broker.init_producer(self._id, self._timeout_s)
                )
                return
            except KafkaException as error:
                if error.args[0].code() != KafkaError.CONCURRENT_TRANSACTIONS or self._broker.sim.now > deadline:
                    raise
            self._broker.sim.sleep(0.02)

    def begin_transaction(self) -> None:
        self._raise_failed()
        self._in_transaction = True

    def produce(
        self,
        topic: str,
        value: bytes | None = None,
        key: bytes | None = None,
        partition: int = -1,
        callback: Callable[..., object] | None = None,
        on_delivery: Callable[..., object] | None = None,
        timestamp: int = 0,
        headers: Any = None,
    ) -> None:
        self._raise_failed()
        if partition < 0:
            assert key is not None
            partition = partition_for_key(key, len(self._broker.topics[topic].partitions))
        self._queue.append((topic, partition, (key, value, timestamp, headers), callback or on_delivery))

    def flush(self, timeout: float = -1) -> int:
        """Send what is queued, some records a request, so that a crash leaves any part of it."""
        while self._queue:
            topic, number = self._queue[0][:2]
            batch = [each for each in self._queue if each[:2] == (topic, number)][:_CHUNK]

            def send(topic: str = topic, number: int = number, batch: list[Any] = batch) -> None:
                self._broker.write(self._id, self._owner, topic, number, [each[2] for each in batch])

            try:
                self._clients.request(f"produce {len(batch)} to {topic}-{number}", send)
            except KafkaException as error:
                if error.args[0].retriable():
                    self._broker.sim.sleep(0.05)
                    continue
                self._failed = error
                for _, _, _, report in self._queue:
                    if report is not None:
                        report(error.args[0], Message(topic=topic, partition=number))
                self._queue.clear()
                raise
            for each in batch:
                self._queue.remove(each)
        return 0

    def poll(self, timeout: float = 0) -> int:
        self.flush()
        return 0

    def commit_transaction(self, timeout: float = -1) -> None:
        self._raise_failed()
        self.flush()
        self._end("commit")

    def abort_transaction(self, timeout: float = -1) -> None:
        self._queue.clear()
        self._end("abort")

    def _end(self, how: str) -> None:
        try:
            self._clients.request(f"{how} {self._id}", lambda: self._broker.end_transaction(self._id, self._owner, how))
        except KafkaException as error:
            if error.args[0].fatal():
                self._failed = error
            raise
        sim = self._broker.sim
        if sim.process is not None and sim.rng.random() < self._clients.answer_lost:
            sim.trace("  answer lost")
            sim.sleep(1.0)
            raise refused(KafkaError._TIMED_OUT, "no answer", retriable=sim.rng.random() < 0.5)
        self._in_transaction = False

    def purge(self) -> None:
        self._queue.clear()

    def __len__(self) -> int:
        return len(self._queue)

    def _raise_failed(self) -> None:
        if self._failed is not None:
            raise self._failed


class ModelConsumer:
    """A consumer of assigned partitions, read-committed, with end-of-partition events."""

    def __init__(self, clients: Clients, settings: Mapping[str, Any]) -> None:
        self._clients = clients
        self._broker = clients.broker
        self._on_commit = settings.get("on_commit")
        self._group = str(settings["group.id"])
        self._all = settings.get("isolation.level") == "read_uncommitted"
        self._positions: dict[tuple[str, int], int] = {}
        self._told_end: dict[tuple[str, int], int] = {}
        self._waited = 0
        self._answers: list[tuple[Any, list[Any]]] = []

    def list_topics(self, topic: str | None = None, timeout: float = -1) -> Any:
        return self._clients.metadata(topic)

    def assign(self, partitions: Iterable[Any]) -> None:
        self._positions = {(each.topic, each.partition): each.offset for each in partitions}
        self._told_end = {}
        self._waited = 0

    def unassign(self) -> None:
        self._positions = {}

    def close(self) -> None:
        self._positions = {}

    def position(self, partitions: Iterable[Any]) -> list[Any]:
        return [
            confluent_kafka.TopicPartition(
                each.topic, each.partition, self._positions.get((each.topic, each.partition), -1001)
            )
            for each in partitions
        ]

    def poll(self, timeout: float = 0) -> Message | None:
        if self._answers and self._on_commit is not None:
            self._on_commit(*self._answers.pop(0))
            return None
        found = self._fetch(1)
        if found:
            self._waited = 0
            return found[0]
        self._waited += 1
        # Nothing is there: others go on. The wait grows, as a transaction of a dead process takes its time to end.
        self._broker.sim.sleep(min(max(timeout, 0.001) * 2 ** min(self._waited, 8), 0.5))
        return None

    def consume(self, num_messages: int = 1, timeout: float = -1) -> list[Message]:
        self._broker.sim.step("fetch")
        return self._fetch(num_messages)

    def _fetch(self, most: int) -> list[Message]:
        found: list[Message] = []
        if self._broker.down_until > self._broker.sim.now and self._broker.sim.process is not None:
            return found
        for (topic, number), position in list(self._positions.items()):
            try:
                partition = self._broker.partition(topic, number)
            except KafkaException as error:
                found.append(Message(topic=topic, partition=number, offset=position, error=error.args[0]))
                del self._positions[topic, number]
                continue
            if not partition.start <= position <= partition.end:
                error = KafkaError(KafkaError._AUTO_OFFSET_RESET, "offset out of range")
                found.append(Message(topic=topic, partition=number, offset=position, error=error))
                del self._positions[topic, number]
                continue
            records = (partition.written if self._all else partition.committed)(position, partition.end)
            records = records[: most - len(found)]
            for each in records:
                found.append(
                    Message(
                        topic=topic,
                        partition=number,
                        offset=each.offset,
                        key=each.key,
                        value=each.value,
                        headers=each.headers,
                        timestamp=(confluent_kafka.TIMESTAMP_CREATE_TIME, each.timestamp_ms),
                    )
                )
                self._positions[topic, number] = each.offset + 1
            if len(found) >= most:
                break
            stable = partition.end if self._all else partition.stable
            if not records:
                self._positions[topic, number] = max(position, stable)
                if self._told_end.get((topic, number)) != stable:
                    self._told_end[topic, number] = stable
                    error = KafkaError(KafkaError._PARTITION_EOF)
                    found.append(Message(topic=topic, partition=number, offset=max(position, stable), error=error))
                    if len(found) >= most:
                        break
        return found

    def get_watermark_offsets(self, partition: Any, timeout: float = -1, cached: bool = False) -> tuple[int, int]:
        def ask() -> tuple[int, int]:
            found = self._broker.partition(partition.topic, partition.partition)
            return found.start, found.stable

        return ask() if cached else self._clients.request("watermarks", ask)

    def commit(self, offsets: Sequence[Any], asynchronous: bool = True) -> None:
        def commit() -> None:
            for each in offsets:
                self._broker.offsets[self._group, each.topic, each.partition] = each.offset

        try:
            self._clients.request("commit group", commit)
        except KafkaException as error:
            self._answers.append((error.args[0], list(offsets)))
        else:
            self._answers.append((None, list(offsets)))

    def committed(self, partitions: Iterable[Any], timeout: float = -1) -> list[Any]:
        return [
            confluent_kafka.TopicPartition(
                each.topic, each.partition, self._broker.offsets.get((self._group, each.topic, each.partition), -1001)
            )
            for each in partitions
        ]


class ModelAdmin:
    """An admin client: futures that are answered already."""

    def __init__(self, clients: Clients) -> None:
        self._clients = clients
        self._broker = clients.broker

    def list_topics(self, topic: str | None = None, timeout: float = -1) -> Any:
        return self._clients.metadata(topic)

    def create_topics(self, topics: Sequence[Any], request_timeout: float = 0) -> dict[str, Future[Any]]:
        return {
            each.topic: self._answer(
                f"create {each.topic}",
                lambda each=each: self._broker.create_topic(each.topic, each.num_partitions, dict(each.config or {})),
            )
            for each in topics
        }

    def delete_topics(self, names: Sequence[str], request_timeout: float = 0) -> dict[str, Future[Any]]:
        return {
            name: self._answer(f"delete {name}", lambda name=name: self._broker.delete_topic(name)) for name in names
        }

    def describe_topics(self, topics: Any, request_timeout: float = 0) -> dict[str, Future[Any]]:
        def describe(name: str) -> Any:
            found = self._broker.topics.get(name)
            if found is None:
                raise refused(KafkaError.UNKNOWN_TOPIC_OR_PART)
            return SimpleNamespace(
                topic_id=found.topic_id, partitions=[SimpleNamespace(leader="here") for _ in found.partitions]
            )

        return self._together("describe topics", topics.topic_names, describe)

    def describe_configs(self, resources: Sequence[Any], request_timeout: float = 0) -> dict[Any, Future[Any]]:
        def describe(resource: Any) -> Any:
            found = self._broker.topics.get(resource.name)
            if found is None:
                raise refused(KafkaError.UNKNOWN_TOPIC_OR_PART)
            own = ConfigSource.DYNAMIC_TOPIC_CONFIG.value
            return {key: SimpleNamespace(value=value, source=own) for key, value in found.config.items()}

        return self._together("describe configs", resources, describe)

    def list_offsets(
        self, wanted: Mapping[Any, Any], isolation_level: Any = None, request_timeout: float = 0
    ) -> dict[Any, Future[Any]]:
        committed = isolation_level == IsolationLevel.READ_COMMITTED

        def offset(place: Any) -> Any:
            partition, spec = self._broker.partition(place.topic, place.partition), wanted[place]._value
            end = partition.stable if committed else partition.end
            if spec == _LATEST:
                return SimpleNamespace(offset=end)
            if spec == _EARLIEST:
                return SimpleNamespace(offset=partition.start)
            later = (e.offset for e in partition.committed(partition.start, end) if e.timestamp_ms >= spec)
            return SimpleNamespace(offset=next(later, -1))

        return self._together("list offsets", list(wanted), offset)

    def delete_records(self, wanted: Sequence[Any], request_timeout: float = 0) -> dict[Any, Future[Any]]:
        return self._together(
            "delete records",
            wanted,
            lambda place: self._broker.partition(place.topic, place.partition).delete_before(place.offset),
        )

    def delete_consumer_groups(self, groups: Sequence[str], request_timeout: float = 0) -> dict[str, Future[Any]]:
        def delete(group: str) -> None:
            for place in [each for each in self._broker.offsets if each[0] == group]:
                del self._broker.offsets[place]

        return self._together("delete group", groups, delete)

    def _answer(self, label: str, effect: Callable[[], Any]) -> Future[Any]:
        answer: Future[Any] = Future()
        try:
            answer.set_result(self._clients.request(label, effect))
        except KafkaException as error:
            answer.set_exception(error)
        return answer

    def _together(self, label: str, wanted: Sequence[Any], effect: Callable[[Any], Any]) -> dict[Any, Future[Any]]:
        """One request, an answer for each."""

        def ask() -> dict[Any, Future[Any]]:
            answers: dict[Any, Future[Any]] = {}
            for each in wanted:
                answers[each] = Future()
                try:
                    answers[each].set_result(effect(each))
                except KafkaException as error:
                    answers[each].set_exception(error)
            return answers

        try:
            return self._clients.request(label, ask)  # type: ignore[no-any-return]
        except KafkaException as error:
            failed: Future[Any] = Future()
            failed.set_exception(error)
            return dict.fromkeys(wanted, failed)
