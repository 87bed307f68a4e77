"""Writing to topics: at least once, or an epoch exactly once."""

from __future__ import annotations

import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence

from confluent_kafka import KafkaError, KafkaException

from hayase.core.errors import HayaseError, LogError
from hayase.core.records import TopicPartition
from hayase.log.kafka.admin import KafkaAdmin
from hayase.log.kafka.clients import (
    explained_error,
    given_by_user,
    kafka_error,
    open_producer,
    real_errors,
)
from hayase.log.kafka.forks import ProcessBound
from hayase.log.kafka.markers import MarkerTopics, is_moved
from hayase.log.kafka.produce import Sender
from hayase.log.kafka.transactions import (
    BundleProducer,
    TransactionTimeoutError,
    given_transaction_timeout_s,
    ownership_lost,
    transaction_timeout,
    unanswered,
)
from hayase.log.protocol import LogConfig, Marker, OutgoingBatch, check_attempt, is_published

_ATTEMPTS = 5
_FIRST_BACKOFF_S = 0.05
_BACKOFF_FACTOR = 3
_MUCH = 2_000
_MAX_PRODUCERS = 8
_TRANSACTION_MAX_S = 900.0
"""Brokers allow no more unless their `transaction.max.timeout.ms` says so."""
_MORE_TIME = 4

_LOG = logging.getLogger("hayase.log.kafka.writer")

_Key = tuple[str, str]
"""Application id and bundle."""


class KafkaWriter(ProcessBound):
    """Writes with producers that are kept: one for `append`, one per bundle that this process published last.

    At most eight bundles' producers are kept; a bundle that comes back later costs a new one (some 10 ms).

    Args:
        config: the log.
        timeout_s: how long a step may take without an answer.
        transaction_timeout_s: how long a transaction may take, unless an option of the log says so. One that took
            longer is tried again with more time, up to the 15 minutes that brokers allow by default: not from the
            start, because readers wait for what a producer that died left open.
        monotonic: the clock for timeouts, in seconds.
        wall_clock_s: the time that marker records carry, in seconds since 1970.
        sleep: waits that many seconds after ownership was lost to another process.
    """

    def __init__(
        self,
        config: LogConfig,
        *,
        timeout_s: float = 60.0,
        transaction_timeout_s: float = 60.0,
        monotonic: Callable[[], float] = time.monotonic,
        wall_clock_s: Callable[[], float] = time.time,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        super().__init__()
        self._config = config
        self._timeout_s = timeout_s
        self._monotonic = monotonic
        self._wall_clock_s = wall_clock_s
        self._sleep = sleep
        self._admin = KafkaAdmin(config, timeout_s=timeout_s, monotonic=monotonic, sleep=sleep)
        self._markers = MarkerTopics(config, self._admin, timeout_s=timeout_s, monotonic=monotonic)
        self._marker_partitions: dict[str, int] = {}  # by application id
        self._positions: dict[_Key, int] = {}
        self._bundles: OrderedDict[tuple[str, str], BundleProducer] = OrderedDict()
        self._appender: Sender | None = None
        self._transaction_timeout_s = transaction_timeout_s
        self._timeout_given = False
        if given_by_user(config, "transaction.timeout.ms"):
            self._transaction_timeout_s, self._timeout_given = given_transaction_timeout_s(config), True

    def append(self, batches: Sequence[OutgoingBatch]) -> None:
        """See `EpochWriter.append`; besides ProductionError, LogError and UnknownTopicError.

        What was written before the error stays written.
        """
        if self._appender is None:
            self._appender = Sender(open_producer(self._config), timeout_s=self._timeout_s, monotonic=self._monotonic)
        sender = self._appender
        try:
            with real_errors():
                for batch in batches:
                    if len(batch):
                        sender.send(batch)
                left = sender.producer.flush(self._timeout_s)
            sender.raise_failures()
            if left:
                raise LogError(
                    "BROKER_UNAVAILABLE",
                    f"{left} records were not acknowledged within {self._timeout_s:g} s. Trying again is safe, "
                    "but may write them twice",
                )
        except KafkaException as error:
            self._drop_appender()
            raise explained_error(self._config, "producer", kafka_error(error), "writing records") from error
        except BaseException:
            self._drop_appender()
            raise

    def _drop_appender(self) -> None:
        """Nothing of a failed call may be written later, behind the caller's back."""
        if self._appender is not None:
            self._appender.producer.purge()
        self._appender = None

    def publish_epoch(
        self,
        application_id: str,
        bundle: str,
        marker: Marker,
        batches: Sequence[OutgoingBatch],
        *,
        plan_position: int | None = None,
        is_closed: Callable[[], bool] | None = None,
    ) -> bool:
        """See `EpochWriter.publish_epoch`; a topic that does not exist raises UnknownTopicError.

        Readers see the records a moment after the call: Kafka ends a transaction in the background.
        """
        key = application_id, bundle
        if plan_position is not None:
            self._positions[key] = plan_position
        attempt = 0
        while True:
            attempt += 1
            kept = key in self._bundles
            failure: KafkaException | TransactionTimeoutError
            try:
                return self._try_to_publish(key, marker, batches, is_closed)
            except (KafkaException, TransactionTimeoutError) as error:
                self._discard(key)
                failure = error
            if not self._may_be_tried_again(failure, marker, bundle):  # the caller decides whether to go on
                raise self._given_up(failure, marker, bundle) from failure
            # A kept producer was fenced by those who had the bundle since; a new one by a process that has it now. One
            # that was slow looks as if it were fenced, so either may be the case.
            if (not kept or isinstance(failure, TransactionTimeoutError)) and self._written_by_another(
                key, marker, attempt - 1
            ):
                return False
            if attempt == _ATTEMPTS:
                raise self._given_up(failure, marker, bundle) from failure
            if isinstance(failure, TransactionTimeoutError):
                self._allow_more(marker, bundle, failure)

    def _may_be_tried_again(
        self, failure: KafkaException | TransactionTimeoutError, marker: Marker, bundle: str
    ) -> bool:
        """Whether another attempt may fare better.

        Raises:
            LogError: `TRANSACTION_TIMEOUT`: the brokers do not allow the time that a transaction was to have.
        """
        if isinstance(failure, TransactionTimeoutError):
            return True
        reason = kafka_error(failure)
        if reason.code() == KafkaError.INVALID_TRANSACTION_TIMEOUT:
            raise transaction_timeout(marker, bundle, self._transaction_timeout_s, refused=True) from failure
        return not unanswered(reason)

    def _given_up(self, failure: KafkaException | TransactionTimeoutError, marker: Marker, bundle: str) -> HayaseError:
        if isinstance(failure, TransactionTimeoutError):
            return transaction_timeout(marker, bundle, self._transaction_timeout_s)
        if not ownership_lost(kafka_error(failure)):
            return explained_error(self._config, "producer", kafka_error(failure), "publishing an epoch", bundle=bundle)
        return LogError(
            "BUNDLE_OWNED_ELSEWHERE",
            f"other processes took over the transactional id of the bundle {_ATTEMPTS} times while epoch "
            f"{marker.epoch} was written. Trying again is safe; if it does not end, look for a second copy of the "
            "application",
            bundle=bundle,
        )

    def _allow_more(self, marker: Marker, bundle: str, error: TransactionTimeoutError) -> None:
        """Give transactions of this process more time, after one that had too little.

        Raises:
            LogError: `TRANSACTION_TIMEOUT`: they have all that they may have.
        """
        had_s = self._transaction_timeout_s
        if self._timeout_given or had_s >= _TRANSACTION_MAX_S:
            raise transaction_timeout(marker, bundle, had_s) from error
        self._transaction_timeout_s = min(_TRANSACTION_MAX_S, _MORE_TIME * had_s)
        _LOG.warning(
            "bundle %s, epoch %d: brokers aborted a transaction after %g s, so it is tried again with %g s",
            bundle, marker.epoch, had_s, self._transaction_timeout_s,
        )  # fmt: skip

    def _try_to_publish(
        self, key: _Key, marker: Marker, batches: Sequence[OutgoingBatch], is_closed: Callable[[], bool] | None
    ) -> bool:
        producer = self._bundles.get(key)
        if producer is not None and not self._may_go_on(producer, marker, batches):
            self._discard(key)
            producer = None
        if producer is None:
            producer = self._take(key)
            if is_published(producer.last, marker):
                return False
        self._bundles.move_to_end(key)
        # While the id is owned: a start that closes epochs takes it afterwards.
        check_attempt(key[1], marker, is_closed)
        try:
            producer.publish(marker, batches, int(self._wall_clock_s() * 1000))
        except KafkaException:
            raise
        except BaseException:
            producer.abort()
            self._discard(key)
            raise
        return True

    def _may_go_on(self, producer: BundleProducer, marker: Marker, batches: Sequence[OutgoingBatch]) -> bool:
        """Whether a kept producer should be tried, which is quicker if it still owns its id.

        Not if it has written the epoch itself (it is replayed, so the marker in the log must decide, which a
        reset may have deleted), nor with much to write if others probably had the bundle in between.
        """
        last = producer.last
        if is_moved(last):  # it may have come back
            return False
        if is_published(last, marker) or not producer.markers_exist():
            return False
        contiguous = last is not None and last.epoch + 1 == marker.epoch
        return contiguous or sum(map(len, batches)) < _MUCH

    def _take(self, key: _Key) -> BundleProducer:
        """Take the bundle's transactional id; the process that had it can no longer write."""
        application_id, bundle = key
        producer = BundleProducer(
            self._config,
            f"{application_id}-{bundle}",
            self._markers,
            self._marker_partition(key),
            bundle,
            timeout_s=self._timeout_s,
            transaction_timeout_s=self._transaction_timeout_s,
            monotonic=self._monotonic,
        )
        self._bundles[key] = producer
        while len(self._bundles) > _MAX_PRODUCERS:
            self._bundles.popitem(last=False)[1].discard()
        return producer

    def _marker_partition(self, key: _Key) -> TopicPartition:
        application_id, bundle = key
        if application_id not in self._marker_partitions:
            self._marker_partitions[application_id] = self._markers.ensure(application_id)
        return self._markers.partition_of(
            application_id, bundle, self._marker_partitions[application_id], self._positions.get(key)
        )

    def _written_by_another(self, key: _Key, marker: Marker, attempt: int) -> bool:
        """Give the process that took the bundle time to finish, before it is taken back.

        Two that took it from each other at once would both never finish. A marker that is there proves that the
        epoch is written, whichever process reads it; only its absence means nothing to a process that is not the owner.
        """
        self._sleep(_FIRST_BACKOFF_S * _BACKOFF_FACTOR**attempt)
        return is_published(self._markers.last(self._marker_partition(key), key[1]), marker)

    def _discard(self, key: _Key) -> None:
        producer = self._bundles.pop(key, None)
        if producer is not None:
            producer.discard()
        # The topic may have been deleted by a reset.
        self._marker_partitions.pop(key[0], None)

    def close(self) -> None:
        """See `EpochWriter.close`."""
        if self._appender is not None:
            self._appender.producer.flush(self._timeout_s)
        self._appender = None
        self._bundles.clear()
        self._markers.close()
        self._admin.close()

    def forget_clients(self) -> None:
        """See `ProcessBound.forget_clients`."""
        self._appender = None
        self._bundles = OrderedDict()
        self._marker_partitions = {}
