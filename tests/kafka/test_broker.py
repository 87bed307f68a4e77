"""The broker that users and tests start."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
import uuid
from pathlib import Path

import psutil
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from hayase.core.errors import LogError
from hayase.testing.kafka_broker import KafkaBroker

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(180)]

_HELD_BY_A_PROCESS_THAT_DIES = """
import os, signal, sys
from hayase.testing.kafka_broker import KafkaBroker
broker = KafkaBroker(sys.argv[1]).start()
os.write(1, f"{broker.pid}\\n".encode())
os.kill(os.getpid(), signal.SIGKILL)
"""


def _create_topic(servers: str, partitions: int = 1) -> str:
    name = f"t-{uuid.uuid4().hex}"
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([NewTopic(name, partitions, 1)])[name].result(30)
    return name


def _produce_in_a_transaction(servers: str, topic: str, value: str, *, commit: bool) -> None:
    producer = Producer({"bootstrap.servers": servers, "transactional.id": f"id-{topic}"})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, value, timestamp=1)
    if commit:
        producer.commit_transaction(30)
    else:
        producer.flush(30)
        producer.abort_transaction(30)


def _read_committed(servers: str, topic: str, count: int) -> list[bytes | None]:
    consumer = Consumer({"bootstrap.servers": servers, "group.id": topic, "isolation.level": "read_committed"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    messages = consumer.consume(count, timeout=30)
    consumer.close()
    return [message.value() for message in messages]


def _running(pid: int) -> bool:
    return psutil.pid_exists(pid) and bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)


def test_a_committed_record_is_read_and_an_aborted_one_is_not(broker: KafkaBroker) -> None:
    topic = _create_topic(broker.bootstrap_servers)
    _produce_in_a_transaction(broker.bootstrap_servers, topic, "aborted", commit=False)
    _produce_in_a_transaction(broker.bootstrap_servers, topic, "committed", commit=True)
    assert _read_committed(broker.bootstrap_servers, topic, 1) == [b"committed"]


def test_the_broker_listens_on_loopback_only(broker: KafkaBroker) -> None:
    assert broker.pid is not None
    listening = [c for c in psutil.Process(broker.pid).net_connections() if c.status == psutil.CONN_LISTEN]
    assert {connection.laddr.ip.removeprefix("::ffff:") for connection in listening} == {"127.0.0.1"}


def test_records_survive_a_second_broker_in_the_folder_and_a_kill_after_which_the_address_is_the_same(
    tmp_path: Path,
) -> None:
    hasty = {"broker.session.timeout.ms": "3000"}  # so long the controller refuses a killed node
    with KafkaBroker(tmp_path) as first:
        topic = _create_topic(first.bootstrap_servers)
        _produce_in_a_transaction(first.bootstrap_servers, topic, "first", commit=True)
    with KafkaBroker(tmp_path, extra_config=hasty) as second:
        address = second.bootstrap_servers
        _produce_in_a_transaction(address, topic, "second", commit=True)
        assert len(_read_committed(address, topic, 2)) == 2  # its marker is written: see KafkaBroker.kill
        second.kill()
        second.start()
        assert second.bootstrap_servers == address
        assert _read_committed(address, topic, 2) == [b"first", b"second"]


def test_no_process_and_no_temporary_folder_is_left_after_stop() -> None:
    own = KafkaBroker().start()
    assert own.pid is not None
    pid, folder = own.pid, own.data_folder
    watcher = psutil.Process(pid).children()
    own.stop()
    psutil.wait_procs(watcher, timeout=10)
    assert own.pid is None
    assert not _running(pid)
    assert not any(process.is_running() for process in watcher)
    assert not folder.exists()


def test_the_broker_ends_when_the_process_that_started_it_is_killed(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _HELD_BY_A_PROCESS_THAT_DIES, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == -9, done.stderr
    pid = int(done.stdout)
    deadline = time.monotonic() + 20
    while _running(pid) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not _running(pid)


def test_a_broker_that_cannot_start_says_why_and_leaves_no_process(tmp_path: Path) -> None:
    wrong = KafkaBroker(tmp_path, extra_config={"log.segment.bytes": "many"})
    with pytest.raises(LogError, match=r"log\.segment\.bytes") as caught:
        wrong.start()
    assert caught.value.condition == "KAFKA_BROKER_FAILED"
    assert wrong.pid is None


def test_a_port_that_is_taken_is_named_in_the_error(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(LogError, match="Address already in use") as caught:
            KafkaBroker(tmp_path, port=port).start()
    assert str(port) in caught.value.message


def test_extra_config_reaches_the_broker_and_unknown_topics_are_not_created(tmp_path: Path) -> None:
    with KafkaBroker(tmp_path, extra_config={"num.partitions": "3"}) as own:
        admin = AdminClient({"bootstrap.servers": own.bootstrap_servers})
        admin.create_topics([NewTopic("three", -1, 1)])["three"].result(30)
        assert len(admin.list_topics("three", timeout=30).topics["three"].partitions) == 3
        assert "absent" not in admin.list_topics(timeout=30).topics
        assert admin.list_topics("absent", timeout=30).topics["absent"].error is not None
