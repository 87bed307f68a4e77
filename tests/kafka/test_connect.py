"""Connectors on a Kafka broker: the same loops, fences and offsets as on the embedded log."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest
from tests.unit.connect import connectors
from tests.unit.connect.connectors import LedgerSink, LedgerTask, NumberSource

from hayase.connect.generations import SupersededError
from hayase.log.open import open_log
from hayase.log.protocol import Log, LogConfig
from hayase.testing.connect import ConnectorTestDriver
from hayase.testing.kafka_broker import KafkaBroker

pytestmark = pytest.mark.kafka

STRINGS = {"key.converter": "StringConverter", "value.converter": "StringConverter"}


@pytest.fixture
def log(broker: KafkaBroker) -> Iterator[Log]:
    connectors.reset()
    opened = open_log(LogConfig("kafka", broker.bootstrap_servers))
    yield opened
    opened.close()


@pytest.fixture
def worker() -> dict[str, str]:
    name = uuid.uuid4().hex[:8]
    return {"group.id": f"connect-{name}", "offset.storage.topic": f"offsets-{name}", "offset.storage.partitions": "5"}


def test_a_source_goes_on_behind_what_was_published_and_its_predecessor_is_fenced(
    log: Log, worker: dict[str, str]
) -> None:
    name = worker["group.id"]
    props = {"connector.class": NumberSource, "name": name, "count": "20", "batch": "3", **STRINGS}
    renamed = {"transforms": "r", "transforms.r.type": "RegexRouter", "transforms.r.regex": ".*"}
    props |= {**renamed, "transforms.r.replacement": f"numbers-{name}"}
    first = ConnectorTestDriver(props, worker=worker, log=log)
    first.step()
    first.step()
    second = ConnectorTestDriver(props, worker=worker, log=log)
    second.start()
    with pytest.raises(SupersededError):
        first.step()
    second.run_to_end()
    found = [record.value for record in second.records(f"numbers-{name}")]
    assert found == [f"0-{number}".encode() for number in range(20)]
    assert second.offsets() == [{"partition": {"part": "0"}, "offset": {"next": 20}}]
    first.close()
    second.close()


def test_a_sink_writes_each_record_once(log: Log, worker: dict[str, str]) -> None:
    topic = f"words-{worker['group.id']}"
    props = {"connector.class": LedgerSink, "name": worker["group.id"], "topics": topic, **STRINGS}
    with ConnectorTestDriver(props, worker=worker, log=log) as sink:
        sink.produce(topic, b"k", b"a")
        sink.run_to_end()
        sink.kill()
        sink.produce(topic, b"k", b"b")
        sink.run_to_end()
        sink.stop()
    assert LedgerTask.rows == ["a", "b"]
