"""The source of spare processes: forks one when a pool asks for it, and ends them with the pool and with the daemon."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path

import msgspec
import psutil
import pytest

from hayase.core.socket_folder import socket_folder
from hayase.runtime.wire.endpoints import RunEndpoints
from hayase.runtime.wire.slot_messages import JoinAsSpare, OfferSpares, StartSpare
from hayase.runtime.wire.span_protocol import SpanListener

pytestmark = pytest.mark.long

DAEMON = """
import sys, time
from hayase.runtime.wire.shared_options import SharedOptions
from hayase.runtime.worker.parent_death import end_with_forker
from hayase.runtime.worker import spare_source
import msgspec
from hayase.runtime.wire.slot_messages import JoinAsSpare
from hayase.runtime.wire.span_protocol import connect

def run_spare(offer, order):
    connection = connect(offer.address)
    connection.send_bytes(msgspec.msgpack.encode(JoinAsSpare(order.slot, order.application_id)))
    if order.application_id == "hanging":
        time.sleep(600)
    try:
        connection.recv_bytes()
    except EOFError:
        pass

end_with_forker()
spare_source.start_source(run_spare)
for address in sys.argv[1:]:
    spare_source.offer_spares(SharedOptions("", 1, 1.0, "", "", "", "", "INFO", "runtime", "", False, 0), address)
time.sleep(600)
"""
WAIT_S = 30.0


@pytest.fixture
def listener(tmp_path: Path) -> Iterator[SpanListener]:
    opened = SpanListener(RunEndpoints(str(tmp_path), str(socket_folder("hayase-test-"))), 4)
    yield opened
    opened.close()


@pytest.fixture
def daemon(listener: SpanListener) -> Iterator[psutil.Process]:
    process = subprocess.Popen([sys.executable, "-c", DAEMON, listener.address, listener.address])
    yield psutil.Process(process.pid)
    process.kill()
    process.wait()


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def ordered(source: Connection, listener: SpanListener, name: str = "") -> Connection:
    """Have a spare process started; its connection."""
    source.send_bytes(msgspec.msgpack.encode(StartSpare(1, name)))
    spare = listener.accept()
    assert msgspec.msgpack.decode(spare.recv_bytes(), type=JoinAsSpare) == JoinAsSpare(1, name)
    return spare


def processes(daemon: psutil.Process) -> list[psutil.Process]:
    return [each for each in daemon.children(recursive=True) if each.status() != psutil.STATUS_ZOMBIE]


def test_a_source_forks_a_process_for_each_order_of_a_pool(daemon: psutil.Process, listener: SpanListener) -> None:
    source = listener.accept()
    offer = msgspec.msgpack.decode(source.recv_bytes(), type=OfferSpares)
    assert offer.machine.endswith(f":{daemon.pid}")
    spares = [ordered(source, listener) for _ in range(2)]
    assert len(processes(daemon)) == 3
    for spare in spares:
        spare.send_bytes(b"")
    until(lambda: len(processes(daemon)) == 1)


def test_spare_processes_that_hang_are_killed_when_their_pool_is_gone(
    daemon: psutil.Process, listener: SpanListener
) -> None:
    source = listener.accept()
    spare = ordered(source, listener, "hanging")
    assert len(processes(daemon)) == 2
    spare.close()
    source.close()
    until(lambda: len(processes(daemon)) == 1)
    assert daemon.is_running()


def test_spare_processes_and_their_source_end_with_the_daemon(daemon: psutil.Process, listener: SpanListener) -> None:
    ordered(listener.accept(), listener, "hanging")
    left = processes(daemon)
    os.kill(daemon.pid, signal.SIGKILL)
    assert len(left) == 2
    _, alive = psutil.wait_procs(left, WAIT_S)
    assert not alive
