"""A transaction that took longer than it may: aborted by brokers, or its bundle was taken by another process meanwhile.

The answers of the brokers are made up here; tests/kafka has real ones.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from confluent_kafka import KafkaError, KafkaException

from hayase.core.errors import LogError
from hayase.core.records import TopicPartition
from hayase.log.kafka import writer as kafka_writer
from hayase.log.kafka.markers import MarkerTopics
from hayase.log.kafka.transactions import TransactionTimeoutError
from hayase.log.kafka.writer import KafkaWriter
from hayase.log.protocol import LogConfig, Marker, OutputBatch

MARKER = Marker("lineage", 7, "digest")
OUTPUTS = [OutputBatch("out", [b"k"], [b"v"], [1])]


class Brokers:
    """Producers whose transactions all end so, and the marker that is there."""

    def __init__(self, failure: Callable[[], Exception]) -> None:
        self.failure = failure
        self.marker: Marker | None = None
        self.taken_s: list[float] = []

    def writer(self, monkeypatch: pytest.MonkeyPatch, *, given: bool = False) -> KafkaWriter:
        brokers = self

        class Producer:
            def __init__(self, *_: object, transaction_timeout_s: float, **__: object) -> None:
                brokers.taken_s.append(transaction_timeout_s)
                self.last = None

            def publish(self, *_: object) -> None:
                raise brokers.failure()

            def discard(self) -> None: ...

            def abort(self) -> None: ...

        monkeypatch.setattr(kafka_writer, "BundleProducer", Producer)
        monkeypatch.setattr(MarkerTopics, "ensure", lambda *_: 1)
        monkeypatch.setattr(MarkerTopics, "last", lambda *_: brokers.marker)
        monkeypatch.setattr(MarkerTopics, "partition_of", lambda *_: TopicPartition("app-epochs", 0))
        options = {"producer.transaction.timeout.ms": "1000"} if given else {}
        config = LogConfig("kafka", "127.0.0.1:9", options)
        return KafkaWriter(config, transaction_timeout_s=1.0, sleep=lambda _: None)


def _slow() -> Exception:
    error = TransactionTimeoutError()
    error.__cause__ = KafkaException(KafkaError(KafkaError._FENCED))
    return error


@pytest.mark.parametrize("given", [False, True], ids=["our time", "the user's time"])
def test_a_slow_transaction_whose_bundle_another_process_took_and_wrote_is_no_error(
    monkeypatch: pytest.MonkeyPatch, given: bool
) -> None:
    brokers = Brokers(_slow)
    writer = brokers.writer(monkeypatch, given=given)
    monkeypatch.setattr(writer, "_sleep", lambda _: setattr(brokers, "marker", MARKER))
    assert writer.publish_epoch("app", "0-0", MARKER, OUTPUTS) is False
    assert brokers.taken_s == [1.0]


def test_a_transaction_that_is_too_slow_at_every_attempt_ends_with_the_time_it_had(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    brokers = Brokers(_slow)
    with pytest.raises(LogError, match=r"TRANSACTION_TIMEOUT.*longer than the 256 s"):
        brokers.writer(monkeypatch).publish_epoch("app", "0-0", MARKER, OUTPUTS)
    assert brokers.taken_s == [1.0, 4.0, 16.0, 64.0, 256.0]


def test_a_transaction_that_is_too_slow_for_the_time_that_the_user_set_is_not_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    brokers = Brokers(_slow)
    with pytest.raises(LogError, match=r"TRANSACTION_TIMEOUT.*longer than the 1 s"):
        brokers.writer(monkeypatch, given=True).publish_epoch("app", "0-0", MARKER, OUTPUTS)
    assert brokers.taken_s == [1.0]


@pytest.mark.long
@pytest.mark.parametrize(
    ("code", "condition", "attempts"),
    [
        (KafkaError._FENCED, "BUNDLE_OWNED_ELSEWHERE", 5),
        (KafkaError._TRANSPORT, "BROKER_UNAVAILABLE", 1),
        (KafkaError.INVALID_TRANSACTION_TIMEOUT, "TRANSACTION_TIMEOUT", 1),
    ],
    ids=["fenced", "unanswered", "refused"],
)
def test_other_failures_are_named_after_as_many_attempts_as_help(
    monkeypatch: pytest.MonkeyPatch, code: int, condition: str, attempts: int
) -> None:
    brokers = Brokers(lambda: KafkaException(KafkaError(code)))
    with pytest.raises(LogError, match=condition):
        brokers.writer(monkeypatch).publish_epoch("app", "0-0", MARKER, OUTPUTS)
    assert len(brokers.taken_s) == attempts
