"""Epochs whose outputs take longer to write than a transaction may.

They get more time, or an error that says what to set.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hayase.core.errors import LogError
from hayase.core.records import TopicPartition
from hayase.log.kafka.admin import KafkaAdmin
from hayase.log.kafka.log import KafkaLog
from hayase.log.kafka.writer import KafkaWriter
from hayase.log.protocol import LogConfig, Marker, OutputBatch
from hayase.testing.kafka_broker import PATIENT, KafkaBroker

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]

ALLOWED_MAX_MS = 10_000
QUICK = {
    **PATIENT,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "100",
    "transaction.max.timeout.ms": str(ALLOWED_MAX_MS),
}
TIMEOUT_S = 1.0


@pytest.fixture(scope="module")
def hasty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    """A broker that aborts transactions as soon as their time is over."""
    folder = tmp_path_factory.mktemp("hasty")
    with KafkaBroker(folder / "broker", heap_mb=256, start_timeout_s=600, extra_config=QUICK) as broker:
        yield broker


@pytest.fixture
def config(hasty: KafkaBroker, tmp_path: Path) -> LogConfig:
    """With a topic `t` of the test's own name."""
    made = LogConfig("kafka", hasty.bootstrap_servers)
    admin = KafkaAdmin(made)
    admin.create_topic(tmp_path.name, 1, {})
    admin.close()
    return made


class Slow:
    """Outputs on a slow disk: each part takes its time to load."""

    def __init__(self, topic: str, seconds: list[float]) -> None:
        self.topic = topic
        self.seconds = seconds

    def __len__(self) -> int:
        return 1

    def load(self) -> OutputBatch:
        if self.seconds:
            time.sleep(self.seconds.pop(0))
        return OutputBatch(self.topic, [b"k"], [b"late"], [1])


def published(config: LogConfig, topic: str, slow: Slow, **settings: float) -> bool:
    writer = KafkaWriter(config, **settings)
    try:
        first = OutputBatch(topic, [b"k"], [b"first"], [1])  # so that the brokers know of the transaction
        return writer.publish_epoch(f"app-{topic}", "0-0", Marker("L", 3, "d"), [first, slow])
    finally:
        writer.close()


def values(config: LogConfig, topic: str) -> list[bytes | None]:
    log = KafkaLog(config)
    where = TopicPartition(topic, 0)
    deadline = time.monotonic() + 30
    while not log.end_offsets([where])[where] and time.monotonic() < deadline:
        time.sleep(0.01)
    found = [value for batch in log.reader().fetch(where, 0, log.end_offsets([where])[where]) for value in batch.values]
    log.close()
    return found


def test_an_epoch_that_takes_longer_than_a_transaction_may_is_written_again_with_more_time(
    config: LogConfig, tmp_path: Path
) -> None:
    slow = Slow(tmp_path.name, [TIMEOUT_S + 2, TIMEOUT_S + 1])
    assert published(config, tmp_path.name, slow, transaction_timeout_s=TIMEOUT_S)
    assert values(config, tmp_path.name) == [b"first", b"late"]
    assert slow.seconds == []


def test_a_time_that_the_user_has_set_stays_and_the_error_says_what_to_set(config: LogConfig, tmp_path: Path) -> None:
    limited = LogConfig("kafka", config.location, {"producer.transaction.timeout.ms": "1000"})
    with pytest.raises(LogError) as raised:
        published(limited, tmp_path.name, Slow(tmp_path.name, [TIMEOUT_S + 2]))
    assert raised.value.condition == "TRANSACTION_TIMEOUT"
    assert raised.value.context == {"bundle": "0-0", "epoch": 3}
    assert "producer.transaction.timeout.ms" in raised.value.message
    assert "max.records.per.epoch" in raised.value.message
    assert "took longer than the 1 s" in raised.value.message


def test_a_time_that_the_brokers_do_not_allow_is_named(config: LogConfig, tmp_path: Path) -> None:
    slow = Slow(tmp_path.name, [])
    with pytest.raises(LogError) as raised:
        published(config, tmp_path.name, slow, transaction_timeout_s=2 * ALLOWED_MAX_MS / 1000)
    assert raised.value.condition == "TRANSACTION_TIMEOUT"
    assert "transaction.max.timeout.ms" in raised.value.message
