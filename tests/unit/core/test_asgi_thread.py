"""The HTTP server of SQL, connectors and webhooks ends when it is told to, whatever its clients do."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import subprocess
import sys
import threading
import time
from typing import Any

import httpx2
import pytest

from hayase.core.asgi_thread import AsgiThread


def listening(port: int = 0) -> socket.socket:
    bound = socket.socket()
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    bound.bind(("127.0.0.1", port))
    return bound


class Slow:
    """Answers `/` at once, and anything else after an hour."""

    def __init__(self) -> None:
        self.ended: list[str] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        try:
            if scope["path"] != "/":
                await send({"type": "http.response.body", "body": b"begun", "more_body": True})
                await asyncio.sleep(3600)
        except asyncio.CancelledError:
            self.ended.append(scope["path"])
            raise
        await send({"type": "http.response.body", "body": b"done"})


@pytest.mark.long
@pytest.mark.parametrize("http2", [False, True], ids=["http1", "http2"])
def test_an_idle_connection_that_nobody_reads_does_not_hold_its_end_up(http2: bool) -> None:
    bound = listening()
    port = bound.getsockname()[1]
    server = AsgiThread(bound, "test", grace_s=20)
    server.start(Slow())
    with httpx2.Client(http1=not http2, http2=http2) as client:
        assert client.get(server.url).text == "done"
        begun = time.monotonic()
        server.close()
        assert time.monotonic() - begun < 10
        second = AsgiThread(listening(port), "test")
        second.start(Slow())
        assert httpx2.get(second.url).text == "done"
        second.close()


@pytest.mark.long
def test_a_request_at_work_is_ended_after_its_time() -> None:
    app = Slow()
    server = AsgiThread(listening(), "test", grace_s=0.2)
    server.start(app)
    with httpx2.stream("GET", f"{server.url}/slow") as answer:
        assert next(answer.iter_bytes()) == b"begun"
        server.close()
        assert app.ended == ["/slow"]
    assert not [each for each in threading.enumerate() if each.name == "test"]


_ENDS = """
import socket, time
from hayase.core.asgi_thread import AsgiThread

class Late:
    def __del__(self, sleep=time.sleep):
        sleep(0.5)  # while Python ends

async def app(scope, receive, send): ...

late, bound = Late(), socket.socket()
bound.bind(("127.0.0.1", 0))
server = AsgiThread(bound, "test")
server.start(app)
socket.create_connection(("127.0.0.1", int(server.url.rpartition(":")[2]))).close()
server.close()
"""


@pytest.mark.long
def test_a_process_whose_server_has_just_ended_ends_without_a_fault() -> None:
    processes = [subprocess.Popen([sys.executable, "-c", _ENDS], stderr=subprocess.PIPE) for _ in range(8)]
    assert [(each.wait(), each.communicate()[1]) for each in processes] == [(0, b"")] * 8


def test_hundreds_of_connections_that_ask_nothing_keep_no_request_waiting() -> None:
    server = AsgiThread(listening(), "test")
    server.start(Slow())
    host, port = "127.0.0.1", int(server.url.rpartition(":")[2])
    with contextlib.ExitStack() as idle:
        for number in range(400):
            connection = idle.enter_context(socket.create_connection((host, port), timeout=10))
            if number % 2:
                connection.sendall(b"GET / HTTP/1.1\r\nHo")
        assert httpx2.get(server.url, timeout=10).text == "done"
    server.close()
