"""A server over its port: requests of HTTP/1.1, frames of HTTP/2, WebSockets, right, wrong and damaged.

It answers what can be answered, fails at nothing, does not grow, and serves the others meanwhile. How many requests the
slow test sends: HAYASE_FUZZ_REQUESTS, 100,000 where that is not set. A million takes about an hour.
"""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random

import psutil
import pytest
from h2.connection import H2Connection
from h2.exceptions import H2Error
from tests.fuzz.server_requests import (
    HOST,
    SETUP,
    HttpRequest,
    damaged,
    http2_frame,
    http_request,
    opened_http2,
    web_socket_frame,
    web_socket_opening,
)

from hayase.client import SqlClient
from hayase.core.errors import HayaseError
from hayase.testing.servers import free_ports

REQUESTS = "HAYASE_FUZZ_REQUESTS"
SEED = 20261126
SENDERS = 4
MEANT = frozenset({503})
"""What a server says that is not ready; `/healthcheck` also says 500 when it is not well, which it always is here."""
ANSWER_S = 60.0
PUSH_S = 0.05
START_S = 240.0
MOST_GROWTH_BYTES = 48 << 20
_STATUS = re.compile(rb"^HTTP/1\.1 (\d{3})")
_LENGTH = re.compile(rb"^content-length: *(\d+)", re.IGNORECASE | re.MULTILINE)


class Sender:
    """Sends requests over connections of its own, one after the other.

    Args:
        port: of the server.
        seed: of the requests.
    """

    def __init__(self, port: int, seed: int) -> None:
        self._port = port
        self._random = Random(seed)
        self._connection: socket.socket | None = None
        self.statuses: Counter[object] = Counter()

    def run(self, count: int) -> None:
        """Send so many."""
        for _ in range(count):
            kind = self._random.random()
            if kind < 0.90:
                self._http1(http_request(self._random))
            elif kind < 0.96:
                self._http2(http_request(self._random))
            else:
                self._web_socket()
        self._hang_up()

    def _http1(self, request: HttpRequest) -> None:
        data = request.http1(self._port)
        is_whole = self._random.random() < 0.95
        connection = self._connected()
        try:
            connection.settimeout(PUSH_S if request.may_go_on or not is_whole else ANSWER_S)
            connection.sendall(data if is_whole else damaged(self._random, data))
            status, goes_on = _http1_answer(connection, request.method)
        except TimeoutError:
            assert request.may_go_on or not is_whole, f"no answer to {data!r}"
            self._note("no end", data)
            self._hang_up()
            return
        except OSError:
            assert not is_whole, f"no answer to {data!r}"
            self._note("closed", data)
            self._hang_up()
            return
        self._note(status, data)
        if not goes_on or not is_whole:
            self._hang_up()

    def _http2(self, request: HttpRequest) -> None:
        connection, opening = opened_http2()
        data = opening + request.http2(self._port, connection, 1)
        frames = [http2_frame(self._random) for _ in range(self._random.randrange(4))]
        with _connection(self._port) as opened:
            if not frames:
                opened.settimeout(PUSH_S if request.may_go_on else ANSWER_S)
                try:
                    opened.sendall(data)
                    status = _http2_status(opened, connection)
                except TimeoutError:
                    status = "no end"
                assert request.may_go_on or status not in ("no end", "closed"), f"no answer to {data!r}"
                self._note(status, data)
                return
            opened.settimeout(PUSH_S)
            place = self._random.choice((len(opening), len(data)))
            data = data[:place] + b"".join(frames) + data[place:]
            with suppress(OSError, H2Error):
                opened.sendall(data)
                self._note(_http2_status(opened, connection), data)
        self.statuses["frames"] += 1

    def _web_socket(self) -> None:
        opening = web_socket_opening(self._random, self._port)
        with _connection(self._port) as opened:
            opened.settimeout(ANSWER_S)
            opened.sendall(opening)
            status, _ = _http1_answer(opened, "GET", until_head=True)
            self._note(status, opening)
            opened.settimeout(PUSH_S)
            with suppress(OSError):
                for _ in range(self._random.randrange(4)):
                    opened.sendall(web_socket_frame(self._random))
                while opened.recv(1 << 16):
                    pass

    def _note(self, status: object, data: bytes) -> None:
        self.statuses[status] += 1
        assert not isinstance(status, int) or status < 500 or status in MEANT, (status, data)

    def _connected(self) -> socket.socket:
        if self._connection is None:
            self._connection = _connection(self._port)
        return self._connection

    def _hang_up(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


def _connection(port: int) -> socket.socket:
    connection = socket.create_connection((HOST, port), ANSWER_S)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def _http1_answer(connection: socket.socket, method: str, *, until_head: bool = False) -> tuple[int, bool]:
    """The status of an answer, and whether the connection goes on; raises OSError for a connection that is closed."""
    data = _more(connection, b"", b"\r\n\r\n")
    head, _, body = data.partition(b"\r\n\r\n")
    found = _STATUS.match(head)
    assert found is not None, head
    status = int(found[1])
    if until_head or method == "HEAD" or status in (204, 304):
        return status, True
    length = _LENGTH.search(head)
    if length is not None:
        while len(body) < int(length[1]):
            body += _received(connection)
    elif b"chunked" in head.lower():
        _more(connection, body, b"0\r\n\r\n")
    return status, b"connection: close" not in head.lower()


def _more(connection: socket.socket, data: bytes, end: bytes) -> bytes:
    while end not in data:
        data += _received(connection)
    return data


def _received(connection: socket.socket) -> bytes:
    data = connection.recv(1 << 16)
    if not data:
        raise ConnectionResetError
    return data


def _http2_status(connection: socket.socket, protocol: H2Connection) -> object:
    """The status of the answer on stream 1, or what came instead of it."""
    while data := connection.recv(1 << 16):
        for event in protocol.receive_data(data):
            headers = getattr(event, "headers", None)
            if headers:
                return int(next(value for name, value in headers if name == b":status"))
            if type(event).__name__ in ("ConnectionTerminated", "StreamReset"):
                return type(event).__name__
    return "closed"


@contextmanager
def server_process(folder: Path) -> Iterator[tuple[int, psutil.Process]]:
    """A server in a process of its own: its port, and the process."""
    ports = free_ports(1)
    assert ports is not None
    settings = (f"log.dir={folder}/log", f"state.dir={folder}/state", "ksql.server.command.response.timeout.ms=10")
    command = [sys.executable, "-m", "hayase", "server", "--in-process", "--listen", f"http://{HOST}:{ports[0]}"]
    command += [part for setting in settings for part in ("-c", setting)]
    with (folder / "server.log").open("wb") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        try:
            _set_up(ports[0])
            yield ports[0], psutil.Process(process.pid)
        finally:
            process.terminate()


def rss_bytes(process: psutil.Process) -> int:
    """The memory that a process has."""
    return int(process.memory_info().rss)


def _set_up(port: int) -> None:
    deadline = time.monotonic() + START_S
    with SqlClient(f"http://{HOST}:{port}") as client:
        while True:
            try:
                client.execute(SETUP)
                return
            except HayaseError:
                assert time.monotonic() < deadline
                time.sleep(0.1)


def send_all(port: int, seed: int, count: int) -> Counter[object]:
    """Send so many requests over a few connections at a time; how they were answered."""
    senders = [Sender(port, seed * SENDERS + number) for number in range(SENDERS)]
    failed: list[BaseException] = []

    def run(sender: Sender) -> None:
        try:
            sender.run(count // SENDERS)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=run, args=(sender,)) for sender in senders]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]
    return sum((sender.statuses for sender in senders), Counter())


def is_well(port: int) -> bool:
    """Whether the server takes commands and answers queries."""
    with urllib.request.urlopen(f"http://{HOST}:{port}/info", timeout=ANSWER_S) as answer:
        status = json.loads(answer.read())["KsqlServerInfo"]["serverStatus"]
    with SqlClient(f"http://{HOST}:{port}") as client, client.query("SELECT n FROM t WHERE k = 'a';") as rows:
        return status == "RUNNING" and len(list(rows)) == 1


@pytest.mark.parametrize("closes", [False, True])
def test_a_request_of_http2_that_gets_no_answer_is_noticed(monkeypatch: pytest.MonkeyPatch, closes: bool) -> None:
    monkeypatch.setattr(sys.modules[__name__], "ANSWER_S", 0.1)
    random = Random(SEED)
    with socket.create_server((HOST, 0), backlog=100) as silent:
        sender = Sender(silent.getsockname()[1], SEED)
        accept = threading.Thread(target=_closes_all, args=(silent,), daemon=True)
        if closes:
            accept.start()
        with pytest.raises(AssertionError, match="no answer"):
            _send_http2(sender, random, 50)
        silent.shutdown(socket.SHUT_RDWR)


def _send_http2(sender: Sender, random: Random, count: int) -> None:
    for _ in range(count):
        sender._http2(http_request(random))


def _closes_all(silent: socket.socket) -> None:
    with suppress(OSError):
        while True:
            opened, _ = silent.accept()
            opened.recv(1 << 16)
            opened.shutdown(socket.SHUT_WR)


@pytest.mark.long
def test_what_comes_over_a_connection_does_not_make_the_server_fail(tmp_path: Path) -> None:
    with server_process(tmp_path) as (port, _):
        statuses = send_all(port, SEED, 400)
        assert is_well(port)
    assert statuses[200] > 0 and statuses[400] > 0 and statuses[404] > 0


@pytest.mark.slow
@pytest.mark.timeout(4 * 3600)
def test_many_requests_make_the_server_neither_fail_nor_grow(tmp_path: Path) -> None:
    count = int(os.environ.get(REQUESTS, "100000"))
    with server_process(tmp_path) as (port, process):
        send_all(port, SEED + 1, max(2_000, count // 10))
        before = rss_bytes(process)
        statuses = send_all(port, SEED + 2, count)
        growth = rss_bytes(process) - before
        assert is_well(port)
    print(f"{statuses.total():,} answers: {dict(statuses)}; the process grew by {growth >> 20} MB")
    assert growth < MOST_GROWTH_BYTES
