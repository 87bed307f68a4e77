"""The connection for questions to the cluster, when several threads use it: the topologies of a shared runtime."""

from __future__ import annotations

import gc
import threading
import time
import weakref
from concurrent.futures import Future
from typing import Any

import pytest

from hayase.log.kafka import admin
from hayase.log.kafka.admin import KafkaAdmin
from hayase.log.protocol import LogConfig

WAIT_S = 10.0


class Client:
    """Answers a question when it is told to, unless it has been freed by then, as the real one."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self.pending: list[Future[dict[str, Any]]] = []

    def describe_topics(self, topics: object, request_timeout: float) -> dict[str, Future[Any]]:
        future: Future[Any] = Future()
        self.pending.append(future)
        self.asked.set()
        return {"numbers": future}


def test_threads_that_ask_for_the_client_at_once_get_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    def open_slowly(config: LogConfig) -> Client:
        time.sleep(0.1)
        return Client()

    monkeypatch.setattr(admin, "open_admin", open_slowly)
    asked = KafkaAdmin(LogConfig("kafka", "localhost:1"))
    clients: list[object] = []
    threads = [threading.Thread(target=lambda: clients.append(asked.client)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_S)
    assert len(set(map(id, clients))) == 1


@pytest.mark.long
def test_a_client_that_another_thread_replaces_is_kept_until_it_has_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[weakref.ref[Client]] = []
    waiting = threading.Event()

    def open_client(config: LogConfig) -> Client:
        client = Client()
        opened.append(weakref.ref(client))
        waiting.set()
        return client

    monkeypatch.setattr(admin, "open_admin", open_client)
    asked = KafkaAdmin(LogConfig("kafka", "localhost:1"))
    thread = threading.Thread(target=lambda: asked._descriptions(["numbers"]), daemon=True)
    thread.start()
    assert waiting.wait(WAIT_S)
    client = opened[0]()
    assert client is not None and client.asked.wait(WAIT_S)
    future = client.pending[0]
    del client
    asked.close()
    gc.collect()
    assert opened[0]() is not None, "freed, so what it was asked is never answered"
    future.set_result({})
    thread.join(WAIT_S)
    assert not thread.is_alive()
    gc.collect()
    assert opened[0]() is None
