"""Connectors on a Kafka broker: the same loops, fences and offsets as on the embedded log."""

from __future__ import annotations

import contextlib
import os
import signal
import sqlite3
import time
import uuid
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from tests.unit.connect import connectors
from tests.unit.connect.connectors import LedgerSink, LedgerTask, NumberSource
from tests.unit.connect.slot_worker import SlotWorker, wait

from hayase.connect.generations import SupersededError
from hayase.connect.worker import ConnectWorker
from hayase.connect.worker_lease import LEASE_BUNDLE, WorkerLease
from hayase.core.errors import LeaseHeldError
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


def test_a_worker_runs_connectors_of_both_kinds_and_goes_on_after_a_restart(
    broker: KafkaBroker, worker: dict[str, str], tmp_path: Path
) -> None:
    name = worker["group.id"]
    storage = {f"{kind}.storage.topic": f"{kind}-{name}" for kind in ("config", "status")}
    props = {**worker, **storage, "listeners": "http://127.0.0.1:0", "value.converter": "StringConverter"}
    log = LogConfig("kafka", broker.bootstrap_servers)
    lines, database = tmp_path / "lines.txt", tmp_path / "lines.db"
    lines.write_text("".join(f"line {number}\n" for number in range(50)))
    hoist = {"transforms": "hoist", "transforms.hoist.type": "HoistField$Value", "transforms.hoist.field": "line"}

    def wait_for(count: int) -> list[str]:
        deadline = time.monotonic() + 120
        rows: list[str] = []
        while len(rows) < count and time.monotonic() < deadline:
            time.sleep(0.2)
            with contextlib.suppress(sqlite3.OperationalError), contextlib.closing(sqlite3.connect(database)) as opened:
                rows = [line for (line,) in opened.execute("SELECT line FROM lines ORDER BY rowid")]
        return rows

    with ConnectWorker(log, props) as running:
        running.herder.create(
            {"name": f"in-{name}", "connector.class": "FileStreamSource", "file": str(lines), "topic": f"lines-{name}"}
        )
        sink = {"connector.class": "SqliteSink", "topics": f"lines-{name}", "connection.path": str(database), **hoist}
        table = {"collection.name.format": "lines", "auto.create": "true"}
        running.herder.create({"name": f"out-{name}", **sink, **table})
        assert wait_for(50) == [f"line {number}" for number in range(50)]
    with lines.open("a") as more:
        more.writelines(f"line {number}\n" for number in range(50, 60))
    with ConnectWorker(log, props) as running:
        assert wait_for(60) == [f"line {number}" for number in range(60)], running.herder.status(f"out-{name}")
        assert running.herder.topics(f"in-{name}") == {f"in-{name}": {"topics": [f"lines-{name}"]}}


def test_a_second_worker_of_a_group_is_refused_until_the_first_one_stops(log: Log, worker: dict[str, str]) -> None:
    group = worker["group.id"]
    with WorkerLease(log, group, lambda: None, beat_s=3600) as first:
        with pytest.raises(LeaseHeldError, match=f"pid {os.getpid()} on"), WorkerLease(log, group, lambda: None):
            pass
        assert first.renew()
    with WorkerLease(log, group, lambda: None, beat_s=3600) as second:
        assert second.renew()


def test_a_worker_starts_while_a_transaction_of_a_task_that_died_is_open(
    broker: KafkaBroker, log: Log, worker: dict[str, str]
) -> None:
    group = worker["group.id"]
    log.prepare_markers(group)
    dead = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": f"{group}-dead"})
    dead.init_transactions(30)
    dead.begin_transaction()
    for partition in range(32):
        if partition != zlib.crc32(LEASE_BUNDLE.encode()) % 32:
            dead.produce(f"{group}-epochs", b"open", b"task", partition)
    dead.flush(30)
    try:
        began = time.monotonic()
        with WorkerLease(log, group, lambda: None, beat_s=3600) as lease:
            assert lease.renew()
        assert time.monotonic() - began < 45  # brokers would end the transaction after 60 s
    finally:
        dead.abort_transaction(30)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_task_of_a_slot_that_is_killed_starts_in_another_and_each_line_comes_once(
    broker: KafkaBroker, log: Log, worker: dict[str, str], tmp_path: Path
) -> None:
    name = f"lines-{worker['group.id']}"
    slots = SlotWorker(log, LogConfig("kafka", broker.bootstrap_servers), tmp_path, 2, worker)
    try:
        slots.slot(0)
        slots.slot(1)
        file = slots.lines(name)
        for round_number in range(3):
            with file.open("a") as more:
                more.writelines(f"line {number}\n" for number in range(20 * round_number, 20 * round_number + 20))
            wait(lambda seen=20 * round_number + 3: len(slots.published(name)) > seen, True)
            killed = slots.process_of(f"{name}-0")
            os.kill(killed, signal.SIGKILL)
            slots.slot(next(number for number, process in slots.pool.processes().items() if process == killed))
        wait(lambda: slots.published(name), [f"line {number}" for number in range(60)])
    finally:
        slots.close()
