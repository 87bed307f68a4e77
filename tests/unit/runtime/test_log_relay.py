"""What processes beside the driver log arrives in the driver."""

from __future__ import annotations

import logging
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from hayase.core.secrets import Vault
from hayase.runtime.wire.log_relay import LogRelay, RelayHandler

WORKER = """
import logging, sys
from hayase.core.logs import log_context
from hayase.runtime.wire.log_relay import log_to_driver
log_to_driver(sys.argv[1], "INFO", {"application_id": "shop"}, ["hunter22"])
with log_context(epoch=3, task="0_1"):
    logging.getLogger("users.own").info("value %s", "hunter22", extra={"offset": 7})
    try:
        raise ValueError("no")
    except ValueError:
        logging.getLogger("hayase.task").exception("failed")
    logging.getLogger("users.own").debug("not this")
"""


@pytest.fixture
def relay() -> Iterator[LogRelay]:
    made = LogRelay()
    yield made
    made.close()


def test_records_of_another_process_arrive_with_their_place_and_trace_and_without_secrets(
    relay: LogRelay, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    subprocess.run([sys.executable, "-c", WORKER, relay.address], check=True)
    deadline = time.monotonic() + 30
    while len(caplog.records) < 2:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    first, second = caplog.records
    assert (first.name, first.levelno, first.getMessage()) == ("users.own", logging.INFO, "value ***")
    place = {"application_id": "shop", "epoch": 3, "task": "0_1", "offset": 7}
    assert place.items() <= vars(first).items()
    assert first.process != os.getpid()
    assert second.getMessage() == "failed"
    assert "ValueError: no" in str(second.exc_text)


def test_only_the_user_may_reach_the_relay(relay: LogRelay) -> None:
    assert os.stat(os.path.dirname(relay.address)).st_mode & 0o077 == 0  # noqa: PTH116, PTH120


@pytest.mark.long
def test_a_driver_that_is_gone_disturbs_nobody() -> None:
    relay = LogRelay()
    relay.close()
    subprocess.run([sys.executable, "-c", WORKER, relay.address], check=True)
    assert not os.path.exists(relay.address)  # noqa: PTH110


@pytest.fixture
def relay_of_a_cluster() -> Iterator[LogRelay]:
    made = LogRelay("127.0.0.1")
    yield made
    made.close()


def test_on_a_cluster_records_arrive_over_tcp(relay_of_a_cluster: LogRelay, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    subprocess.run([sys.executable, "-c", WORKER, relay_of_a_cluster.address], check=True)
    deadline = time.monotonic() + 30
    while len(caplog.records) < 2:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert [record.getMessage() for record in caplog.records] == ["value ***", "failed"]


def test_who_does_not_know_the_token_is_not_listened_to(
    relay_of_a_cluster: LogRelay, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    where = urlsplit(relay_of_a_cluster.address)
    assert where.hostname is not None and where.port is not None and where.username is not None
    line = b'{"name": "x", "levelno": 30, "levelname": "WARNING", "msg": "forged"}\n'
    with socket.create_connection((where.hostname, where.port), 30) as stranger:
        stranger.sendall(b"guess\n" + line)
        assert stranger.recv(1) == b""
    with socket.create_connection((where.hostname, where.port), 30) as worker:
        worker.sendall(where.username.encode() + b"\n" + line.replace(b"forged", b"true"))
        worker.shutdown(socket.SHUT_WR)
        assert worker.recv(1) == b""
    assert [record.getMessage() for record in caplog.records] == ["true"]


def test_a_driver_that_nobody_reaches_is_not_tried_for_every_line(monkeypatch: pytest.MonkeyPatch) -> None:
    tries: list[str] = []

    def refuse(address: str) -> socket.socket:
        tries.append(address)
        raise OSError

    monkeypatch.setattr("hayase.runtime.wire.log_relay._connected", refuse)
    handler = RelayHandler("tcp://token@127.0.0.1:1", {}, [])
    for _ in range(5):
        handler.emit(logging.makeLogRecord({"msg": "line"}))
    assert len(tries) == 2
    handler.close()


@pytest.mark.long
def test_a_long_temporary_folder_is_no_hindrance(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The path of a Unix socket has at most about 100 characters."""
    long = tmp_path / ("x" * 100)
    long.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(long))
    relay, vault = LogRelay(), Vault()
    try:
        assert relay.folder.stat().st_mode & 0o777 == 0o700
    finally:
        relay.close()
        vault.close()
    assert list(long.iterdir()) == []
