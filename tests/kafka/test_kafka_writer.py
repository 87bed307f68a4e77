"""What only a Kafka log's writer has to stand: other owners of a bundle, dead ones, and a broker that goes away."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
import uuid
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from confluent_kafka import Producer

from hayase.core.errors import ConfigError, LogError, ProductionError
from hayase.core.records import TopicPartition
from hayase.log.kafka.admin import KafkaAdmin
from hayase.log.kafka.log import KafkaLog
from hayase.log.kafka.writer import KafkaWriter
from hayase.log.protocol import LogConfig, Marker, OutputBatch
from hayase.testing.kafka_broker import PATIENT, KafkaBroker

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(180)]

_PUBLISH_THE_SAME_EPOCHS = """
import sys
from hayase.core.errors import LogError
from hayase.log.kafka.log import KafkaLog
from hayase.log.protocol import LogConfig, Marker, OutputBatch
servers, application, topic = sys.argv[1:]
writer = KafkaLog(LogConfig("kafka", servers)).writer()
print("ready", flush=True)
sys.stdin.readline()
for epoch in range(1, 11):
    values = [b"%d-%d" % (epoch, index) for index in range(50)]
    try:
        writer.publish_epoch(application, "0", Marker("L", epoch, "d"), [OutputBatch(topic, values, values, [1] * 50)])
    except LogError as error:
        if error.condition != "STATE_MOVED":  # the other process is epochs ahead
            raise
writer.close()
"""

_DIE_BEFORE_COMMIT = """
import os, signal, sys
import hayase.log.kafka.transactions as transactions
from hayase.log.kafka.log import KafkaLog
from hayase.log.protocol import LogConfig, Marker, OutputBatch
servers, application, topic = sys.argv[1:]
# Outputs of this number are in the log when the marker's turn comes.
transactions.encode_marker = lambda marker: os.kill(os.getpid(), signal.SIGKILL)
values = [b"dead-%d" % index for index in range(transactions._FLUSH_FIRST)]
writer = KafkaLog(LogConfig("kafka", servers)).writer()
writer.publish_epoch(application, "0", Marker("L", 1, "d"), [OutputBatch(topic, values, values, [1] * len(values))])
"""

_DIE_WITH_AN_OPEN_MARKER = """
import os, signal, sys
from hayase.log.kafka.log import KafkaLog
from hayase.log.kafka.transactions import BundleProducer
from hayase.log.protocol import LogConfig, Marker, OutputBatch
bundle, place, servers, application, topic = sys.argv[1:]
real = BundleProducer._until_done
def die(self, call):
    if call.__name__ == "commit_transaction":
        self._producer.flush(30)
        os.kill(os.getpid(), signal.SIGKILL)
    real(self, call)
BundleProducer._until_done = die
writer = KafkaLog(LogConfig("kafka", servers)).writer()
outputs = [OutputBatch(topic, [b"k"], [b"v"], [1])]
writer.publish_epoch(application, bundle, Marker("L", 1, "d"), outputs, plan_position=int(place))
"""


@pytest.fixture
def log(broker: KafkaBroker) -> Iterator[KafkaLog]:
    opened = KafkaLog(LogConfig("kafka", broker.bootstrap_servers))
    yield opened
    opened.close()


@pytest.fixture
def topic(log: KafkaLog) -> str:
    return log.create_topic(f"t-{uuid.uuid4().hex[:12]}", 1).name


@pytest.fixture
def application() -> str:
    return f"app-{uuid.uuid4().hex[:12]}"


def _batch(topic: str, *values: bytes) -> OutputBatch:
    return OutputBatch(topic, list(values), list(values), [1_000] * len(values))


def _marker(epoch: int) -> Marker:
    return Marker("L", epoch, "d")


def _eventually(check: Callable[[], bool], seconds: float = 20.0) -> None:
    """Kafka ends transactions in the background."""
    deadline = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < deadline, "it did not come true in time"
        time.sleep(0.01)


def _end(log: KafkaLog, topic: str) -> int:
    return log.end_offsets([TopicPartition(topic, 0)])[TopicPartition(topic, 0)]


def _committed(log: KafkaLog, topic: str) -> list[bytes | None]:
    """All committed values, once no transaction is open any more."""
    where = TopicPartition(topic, 0)
    application = f"app-{uuid.uuid4().hex[:12]}"
    last = uuid.uuid4().bytes
    writer = log.writer()
    writer.publish_epoch(application, "last", _marker(1), [_batch(topic, last)])
    writer.close()
    reader = log.reader()
    values: list[bytes | None] = []
    start = 0
    while last not in values:
        end = log.end_offsets([where])[where]
        for part in reader.fetch(where, start, end):
            values += part.values
        start = end
        time.sleep(0.005)
    reader.close()
    return values[:-1]


def _child(script: str, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", script, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def test_two_processes_that_publish_the_same_epochs_write_each_once(
    log: KafkaLog, broker: KafkaBroker, topic: str, application: str
) -> None:
    children = [_child(_PUBLISH_THE_SAME_EPOCHS, broker.bootstrap_servers, application, topic) for _ in range(2)]
    for child in children:
        assert child.stdout is not None
        child.stdout.readline()
    for child in children:
        assert child.stdin is not None
        child.stdin.write("go\n")
        child.stdin.flush()
    assert [child.wait(120) for child in children] == [0, 0]
    assert _committed(log, topic) == [b"%d-%d" % (epoch, index) for epoch in range(1, 11) for index in range(50)]


def test_what_a_killed_process_left_open_is_aborted_by_the_next_owner(
    log: KafkaLog, broker: KafkaBroker, topic: str, application: str
) -> None:
    log.writer().publish_epoch(application, "0", _marker(0), [])
    child = _child(_DIE_BEFORE_COMMIT, broker.bootstrap_servers, application, topic)
    assert child.wait(60) == -signal.SIGKILL
    assert _end(log, topic) == 0, "the open transaction holds the end back"
    began = time.monotonic()
    assert log.markers(application, wait=False) == {"0": _marker(0)}
    assert time.monotonic() - began < 10, "a start does not wait until the transaction times out"
    writer = log.writer()
    assert writer.publish_epoch(application, "0", _marker(1), [_batch(topic, b"alive")])
    writer.close()
    assert _committed(log, topic) == [b"alive"]


def test_an_open_transaction_of_another_producer_holds_the_end_back(
    log: KafkaLog, broker: KafkaBroker, topic: str
) -> None:
    writer = log.writer()
    writer.append([_batch(topic, b"before")])
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": f"id-{topic}"})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, b"open")
    producer.flush(30)
    writer.append([_batch(topic, b"after")])
    assert _end(log, topic) == 1
    producer.commit_transaction(30)
    _eventually(lambda: _end(log, topic) == 4)  # three records and the marker of the transaction
    writer.close()


def test_a_topic_that_another_process_has_just_made_is_waited_for(
    broker: KafkaBroker, log: KafkaLog, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen, described = [], KafkaAdmin._descriptions

    def late(admin: KafkaAdmin, names: Sequence[str]) -> dict[str, Any]:
        seen.append(names)
        return {} if len(seen) < 4 else described(admin, names)  # as a broker that has not heard of the topic yet

    monkeypatch.setattr(KafkaAdmin, "_descriptions", late)
    admin = KafkaAdmin(LogConfig("kafka", broker.bootstrap_servers))
    assert admin.ensure_topic(topic, 7, {}).partitions == 1
    admin.close()


def test_a_bundle_may_go_back_and_forth_between_writers(log: KafkaLog, topic: str, application: str) -> None:
    writers = [log.writer(), log.writer()]
    for epoch in range(1, 9):
        writer = writers[epoch // 2 % 2]
        assert writer.publish_epoch(application, "0", _marker(epoch), [_batch(topic, b"%d" % epoch)])
    assert not writers[1].publish_epoch(application, "0", _marker(8), [_batch(topic, b"again")])
    assert _committed(log, topic) == [b"%d" % epoch for epoch in range(1, 9)]
    for writer in writers:
        writer.close()


def test_an_owner_that_lost_a_large_bundle_writes_nothing_of_its_stale_epoch(
    log: KafkaLog, topic: str, application: str
) -> None:
    old, new = log.writer(), log.writer()
    values = [b"%d" % index for index in range(5_000)]
    assert old.publish_epoch(application, "0", _marker(1), [])
    assert new.publish_epoch(application, "0", _marker(2), [_batch(topic, *values)])
    assert not old.publish_epoch(application, "0", _marker(2), [_batch(topic, *values)])
    assert _committed(log, topic) == values


def test_more_bundles_than_producers_are_kept_all_go_on(log: KafkaLog, topic: str, application: str) -> None:
    writer = log.writer()
    for epoch in (1, 2):
        for bundle in range(10):
            assert writer.publish_epoch(application, str(bundle), _marker(epoch), [_batch(topic, b"x")])
    assert log.markers(application) == {str(bundle): _marker(2) for bundle in range(10)}
    assert len(_committed(log, topic)) == 20
    writer.close()


def test_a_bundle_does_not_wait_for_the_open_transaction_of_one_at_another_place(
    log: KafkaLog, topic: str, application: str, broker: KafkaBroker
) -> None:
    # Both names lead to the same partition of the markers' topic.
    mine, other = "1-4", next(f"2-{n}" for n in range(1000) if zlib.crc32(b"2-%d" % n) % 32 == zlib.crc32(b"1-4") % 32)
    command = [sys.executable, "-c", _DIE_WITH_AN_OPEN_MARKER, other, "1"]
    killed = subprocess.run([*command, broker.bootstrap_servers, application, topic], check=False)
    assert killed.returncode == -signal.SIGKILL
    quick = KafkaWriter(LogConfig("kafka", broker.bootstrap_servers), timeout_s=20.0)
    assert quick.publish_epoch(application, mine, _marker(1), [_batch(topic, b"x")], plan_position=2)
    quick.close()


def test_an_epoch_larger_than_the_queue_is_written_in_order(
    broker: KafkaBroker, log: KafkaLog, topic: str, application: str
) -> None:
    options = {"producer.queue.buffering.max.messages": "1000"}
    small = KafkaLog(LogConfig("kafka", broker.bootstrap_servers, options))
    values = [b"%d" % index for index in range(25_000)]
    writer = small.writer()
    assert writer.publish_epoch(application, "0", _marker(1), [_batch(topic, *values)])
    writer.append([_batch(topic, *values)])
    writer.close()
    assert _committed(log, topic) == values * 2


def test_a_refused_record_leaves_nothing_and_the_bundle_goes_on(log: KafkaLog, topic: str, application: str) -> None:
    writer = log.writer()
    good = [b"%d" % index for index in range(3_000)]
    with pytest.raises(ProductionError) as raised:
        writer.publish_epoch(application, "0", _marker(1), [_batch(topic, *good, b"x" * 3_000_000)])
    assert raised.value.condition == "RECORD_REFUSED"
    assert raised.value.context["topic"] == topic
    assert raised.value.context["record"] == 3_000
    assert log.markers(application) == {}
    assert writer.publish_epoch(application, "0", _marker(1), [_batch(topic, b"good")])
    assert _committed(log, topic) == [b"good"]
    writer.close()


def test_a_record_that_the_broker_refuses_is_named_with_its_topic(log: KafkaLog, application: str) -> None:
    topic = log.create_topic(f"t-{uuid.uuid4().hex[:12]}", 1, {"max.message.bytes": "1000"}).name
    writer = log.writer()
    with pytest.raises(ProductionError) as raised:
        writer.publish_epoch(application, "0", _marker(1), [_batch(topic, os.urandom(20_000))])
    assert raised.value.context["topic"] == topic
    with pytest.raises(ProductionError):
        writer.append([_batch(topic, os.urandom(20_000))])
    writer.append([_batch(topic, b"small")])
    assert _committed(log, topic) == [b"small"]
    writer.close()


def test_the_first_millisecond_of_1970_is_written_as_the_second(log: KafkaLog, topic: str) -> None:
    writer = log.writer()
    writer.append([OutputBatch(topic, [b"a", b"b"], [b"", b""], [0, 7])])
    writer.close()
    reader = log.reader()
    parts = list(reader.fetch(TopicPartition(topic, 0), 0, 2))
    reader.close()
    assert [time_ms for part in parts for time_ms in part.timestamps_ms.tolist()] == [1, 7]


def test_a_writer_can_be_used_on_both_sides_of_a_fork(log: KafkaLog, topic: str, application: str) -> None:
    writer = log.writer()
    writer.publish_epoch(application, "0", _marker(1), [_batch(topic, b"parent")])
    writer.append([_batch(topic, b"parent too")])
    child = os.fork()
    if child == 0:
        status = 1
        try:
            writer.append([_batch(topic, b"child")])
            status = 0 if writer.publish_epoch(application, "0", _marker(2), [_batch(topic, b"child")]) else 2
            writer.close()
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    assert writer.publish_epoch(application, "0", _marker(3), [_batch(topic, b"parent")])
    assert sorted(_committed(log, topic)) == [b"child", b"child", b"parent", b"parent", b"parent too"]
    writer.close()


def test_a_kept_writer_notices_that_the_application_was_reset(log: KafkaLog, topic: str, application: str) -> None:
    writer = log.writer()
    assert writer.publish_epoch(application, "0", _marker(1), [_batch(topic, b"before")])
    log.delete_markers(application)
    assert writer.publish_epoch(application, "0", _marker(1), [_batch(topic, b"after")])
    assert log.markers(application) == {"0": _marker(1)}
    writer.close()


def test_epochs_topics_are_not_listed_but_those_of_users_are(log: KafkaLog, topic: str, application: str) -> None:
    mine = log.create_topic(f"{application}-training-epochs", 1).name
    log.writer().publish_epoch(application, "0", _marker(1), [])
    assert {topic, mine} <= set(log.topics())
    assert f"{application}-epochs" not in log.topics()


@pytest.mark.parametrize("option", ["isolation.level", "consumer.isolation.level", "producer.transactional.id"])
def test_settings_that_correctness_depends_on_are_refused(broker: KafkaBroker, option: str) -> None:
    log = KafkaLog(LogConfig("kafka", broker.bootstrap_servers, {option: "x"}))
    with pytest.raises(ConfigError) as raised:
        log.topics()
    assert raised.value.condition == "RESERVED_CLIENT_SETTING"
    assert raised.value.context["setting"] == option


def test_a_setting_that_the_client_does_not_know_is_an_error_that_names_it(broker: KafkaBroker) -> None:
    log = KafkaLog(LogConfig("kafka", broker.bootstrap_servers, {"producer.buffer.memory": "1"}))
    assert log.describe([]) == {}, "it concerns producers only"
    with pytest.raises(ConfigError, match=r"buffer\.memory"):
        log.writer().append([_batch("t", b"x")])


def test_a_cluster_that_does_not_answer_is_an_error_and_closing_does_not_hang() -> None:
    config = LogConfig("kafka", "127.0.0.1:9")
    writer = KafkaWriter(config, timeout_s=1.0)
    began = time.monotonic()
    with pytest.raises(LogError) as raised:
        writer.append([_batch("t", b"x")])
    assert raised.value.condition == "BROKER_UNAVAILABLE"
    writer.close()
    assert time.monotonic() - began < 20


def test_epochs_published_while_the_broker_restarts_are_written_exactly_once() -> None:
    with KafkaBroker(heap_mb=256, extra_config=PATIENT) as own:
        log = KafkaLog(LogConfig("kafka", own.bootstrap_servers))
        topic = log.create_topic("out", 1).name
        writer = log.writer()
        writer.publish_epoch("app", "0", _marker(0), [])
        restart = threading.Thread(target=own.restart)
        epochs = 0
        finish = time.monotonic() + 90
        restart.start()
        while restart.is_alive() or epochs < 20:
            epochs += 1
            values = [b"%d-%d" % (epochs, index) for index in range(100)]
            while True:
                try:
                    writer.publish_epoch("app", "0", _marker(epochs), [_batch(topic, *values)])
                    break
                except LogError:
                    assert time.monotonic() < finish
        restart.join()
        assert log.markers("app") == {"0": _marker(epochs)}
        assert _committed(log, topic) == [
            b"%d-%d" % (epoch, index) for epoch in range(1, epochs + 1) for index in range(100)
        ]
        writer.close()
        log.close()
