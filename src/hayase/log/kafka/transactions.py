"""Transactional producers: of one bundle, or of several under one id."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from confluent_kafka import KafkaError, KafkaException

from hayase.core.errors import ConfigError, LogError
from hayase.core.failpoints import reach
from hayase.core.records import TopicPartition
from hayase.core.steps import moved
from hayase.log.kafka.clients import (
    client_settings,
    given_by_user,
    kafka_error,
    open_producer,
    real_errors,
)
from hayase.log.kafka.markers import MarkerTopics, encode_marker
from hayase.log.kafka.produce import Sender
from hayase.log.protocol import LogConfig, Marker, OutgoingBatch

# From this many records on, outputs are flushed before the marker is sent: the marker's partition, which other
# bundles may share, then has an open transaction for milliseconds only.
_FLUSH_FIRST = 2_000
_ABORT_S = 5.0
_FLUSH_S = 5.0
_OWNERSHIP_LOST = {
    KafkaError._FENCED,
    KafkaError.PRODUCER_FENCED,
    KafkaError.INVALID_PRODUCER_EPOCH,
    KafkaError.INVALID_PRODUCER_ID_MAPPING,
    KafkaError.UNKNOWN_PRODUCER_ID,
}

_UNANSWERED = {
    KafkaError._TIMED_OUT,
    KafkaError._TIMED_OUT_QUEUE,
    KafkaError._MSG_TIMED_OUT,
    KafkaError._TRANSPORT,
    KafkaError._RESOLVE,
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._AUTHENTICATION,
    KafkaError._SSL,
}


def ownership_lost(error: KafkaError) -> bool:
    """Whether another producer has taken the transactional id (or the broker forgot it)."""
    return error.code() in _OWNERSHIP_LOST


def unanswered(error: KafkaError) -> bool:
    """Whether the cluster could not be reached in time, so that a new producer would fare no better."""
    return error.code() in _UNANSWERED


def given_transaction_timeout_s(config: LogConfig) -> float:
    """How long a transaction may take by the options of the log, or by our default.

    Raises:
        ConfigError: `INVALID_CLIENT_SETTING`: it is no number.
    """
    given = client_settings(config, "producer")["transaction.timeout.ms"]
    try:
        return int(str(given)) / 1000
    except ValueError as error:
        raise ConfigError(
            "INVALID_CLIENT_SETTING",
            f"producer.transaction.timeout.ms is {given!r}; it is a number of milliseconds, e.g. 60000",
            setting="producer.transaction.timeout.ms",
        ) from error


def transaction_timeout(marker: Marker, bundle: str, had_s: float, *, refused: bool = False) -> LogError:
    """The error of a transaction that took longer than it may; `refused`: brokers do not allow that time."""
    longer = "producer.transaction.timeout.ms"
    why = f"took longer than the {had_s:g} s that a transaction may take ({longer}), so the brokers abort it"
    if refused:
        why = f"needs a transaction of up to {had_s:g} s ({longer}), which the brokers do not allow"
    return LogError(
        "TRANSACTION_TIMEOUT",
        f"writing the outputs of an epoch {why}; nothing of it can be read. Set {longer} to what is needed, with the "
        "brokers' transaction.max.timeout.ms not below it (15 minutes unless they say otherwise), or make epochs "
        "smaller: max.records.per.epoch",
        bundle=bundle,
        epoch=marker.epoch,
    )


class TransactionTimeoutError(Exception):
    """The producer lost its id after its transaction took longer than it was allowed to.

    The `KafkaException` is the cause.

    Brokers abort such a transaction. But another process may have taken the id as well: markers say what it has
    written.
    """


@dataclass(frozen=True, slots=True)
class EpochWrite:
    """Outputs of one bundle's epoch, as part of a transaction.

    Attributes:
        bundle: whose outputs.
        key: of the marker's record.
        partition: of the marker's record.
        marker: of the epoch.
        batches: the outputs.
    """

    bundle: str
    key: str
    partition: TopicPartition
    marker: Marker
    batches: Sequence[OutgoingBatch]


class TransactionalProducer:
    """Owns a transactional id from the moment it is made until another process takes it.

    Args:
        config: the log.
        transactional_id: the id.
        topic: one that it writes to; `None`: none, the id is only taken.
        timeout_s: how long each step may take.
        transaction_timeout_s: how long a transaction may take; flushing many records may take as long.
        monotonic: the clock for that, in seconds.

    Raises:
        KafkaException, LogError: the id could not be taken.
    """

    def __init__(
        self,
        config: LogConfig,
        transactional_id: str,
        topic: str | None,
        *,
        timeout_s: float,
        transaction_timeout_s: float,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._timeout_s = timeout_s
        self._transaction_timeout_s = transaction_timeout_s
        self._monotonic = monotonic
        allowed_ms = round(1000 * transaction_timeout_s)
        timeouts = {"transaction_timeout_ms": allowed_ms}
        if not given_by_user(
            config, "message.timeout.ms"
        ):  # the client refuses a longer one, and a shorter one may end the write
            timeouts["message_timeout_ms"] = allowed_ms
        producer = open_producer(config, transactional_id=transactional_id, **timeouts)
        self._producer = producer
        self._sender = Sender(producer, timeout_s=timeout_s, monotonic=monotonic)
        try:
            # The first answer comes from the bootstrap connection, which is then replaced; the second one shows
            # that the new connection works. Without that, init_transactions can meet the gap and sleep for 500 ms.
            for _ in range(2 if topic is not None else 0):
                producer.list_topics(topic, timeout=timeout_s)
            self._until_done(producer.init_transactions)
        except BaseException:
            self.discard()
            raise

    def write(self, writes: Sequence[EpochWrite], now_ms: int) -> None:
        """Outputs and markers in one transaction.

        After an error the outcome is open and the producer must be discarded: the next owner finds out.

        Raises:
            ProductionError: a record was refused permanently.
            TransactionTimeoutError: it took longer than a transaction may.
            LogError, KafkaException: anything else.
        """
        producer, sender = self._producer, self._sender
        began: float | None = None
        filled = [batch for each in writes for batch in each.batches if len(batch)]
        for batch in filled:
            sender.partition_count(batch.topic)  # an unknown topic is found before anything is begun
        try:
            with real_errors():
                producer.begin_transaction()
                began = self._monotonic()
                for batch in filled:
                    sender.send(batch)
                if sum(map(len, filled)) >= _FLUSH_FIRST:
                    self._flush(began)
                for each in writes:
                    topic, number = each.partition
                    producer.produce(topic, encode_marker(each.marker), each.key.encode(), number, None, None, now_ms)
                    reach("inside_publish", bundle=each.bundle, epoch=each.marker.epoch)
                self._until_done(producer.commit_transaction)
        except KafkaException as error:
            sender.raise_refused()  # a refused record explains more than the failed transaction
            if began is not None and self._timed_out(kafka_error(error), began):
                raise TransactionTimeoutError from error
            raise

    def _flush(self, began: float) -> None:
        """Until all is written, or the transaction has no time left; the commit says what became of it."""
        deadline = began + max(self._timeout_s, self._transaction_timeout_s)
        before = len(self._producer)
        while (remaining_s := deadline - self._monotonic()) > 0:
            left = self._producer.flush(min(_FLUSH_S, remaining_s))
            if not left:
                return
            if left < before:
                moved()
            before = left

    def _timed_out(self, error: KafkaError, began: float) -> bool:
        """Whether the brokers may have aborted it: to the producer that looks as if another one had taken its id."""
        return ownership_lost(error) and self._monotonic() - began >= self._transaction_timeout_s

    def _until_done(self, call: Callable[[float], None]) -> None:
        """Some answers mean "call again"; nothing is done twice by that."""
        deadline = self._monotonic() + self._timeout_s
        while True:
            try:
                call(max(0.001, deadline - self._monotonic()))
                return
            except KafkaException as error:
                if not kafka_error(error).retriable() or self._monotonic() >= deadline:
                    raise

    def abort(self) -> None:
        """Abort what was begun, so that it hides nothing from readers; best effort, the next owner would do it too."""
        try:
            self._producer.abort_transaction(_ABORT_S)
        except KafkaException:
            return  # fenced or unreachable: taking the id again aborts it

    def discard(self) -> None:
        """Give the producer up without waiting for anything."""
        try:
            self._producer.purge()
        except KafkaException:
            return


class BundleProducer(TransactionalProducer):
    """Producer of one bundle, under an id of the bundle's own.

    Args:
        config, transactional_id, timeout_s, transaction_timeout_s, monotonic: see TransactionalProducer.
        markers: reads the bundle's marker once the id is owned; what was read before would prove nothing.
        partition: the partition of the bundle's markers.
        bundle: the bundle.

    Raises:
        KafkaException, LogError: the id could not be taken.
    """

    def __init__(
        self,
        config: LogConfig,
        transactional_id: str,
        markers: MarkerTopics,
        partition: TopicPartition,
        bundle: str,
        *,
        timeout_s: float,
        transaction_timeout_s: float,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(
            config, transactional_id, partition.topic,
            timeout_s=timeout_s, transaction_timeout_s=transaction_timeout_s, monotonic=monotonic,
        )  # fmt: skip
        self._partition = partition
        self._bundle = bundle
        try:
            self.last = markers.last(partition, bundle)
        except BaseException:
            self.discard()
            raise

    def markers_exist(self) -> bool:
        """Whether the topic of the markers is there; a reset deletes it. A fraction of a millisecond."""
        topic = self._partition.topic
        return self._producer.list_topics(topic, timeout=self._timeout_s).topics[topic].error is None

    def publish(self, marker: Marker, batches: Sequence[OutgoingBatch], now_ms: int) -> None:
        """Outputs and marker in one transaction. See `write`."""
        self.write([EpochWrite(self._bundle, self._bundle, self._partition, marker, batches)], now_ms)
        self.last = marker
