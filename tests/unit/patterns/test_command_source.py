"""Commands by HTTP: the reply of the aggregate is the answer."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests.unit.patterns.local_orders import LocalOrders

from hayase.connect.worker import ConnectWorker
from hayase.core.errors import ConfigError
from hayase.log.open import open_log
from hayase.log.protocol import LogConfig
from hayase.patterns.command_source import CommandSourceTask, command_source
from hayase.patterns.tracing import find, topics_of_patterns
from hayase.storage.lmdb_env import close_environment
from hayase.testing.connect import ConnectorTestDriver


class OrdersByHttp:
    """A connector that is stepped by a thread, as in a worker, beside an application with orders."""

    def __init__(self, folder: Path, **props: str) -> None:
        self.orders = LocalOrders(folder)
        more = {key.replace("_", "."): value for key, value in props.items()}
        config = command_source("order", {"name": "shop", "webhook.port": "0", **more})
        self.driver = ConnectorTestDriver(config, log=self.orders.app.log)
        self.driver.start()
        task = self.driver._tasks[0].task
        assert isinstance(task, CommandSourceTask)
        self.url = task.url.rstrip("/")
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        while not self._ended.is_set():
            self.driver.step()

    def __enter__(self) -> OrdersByHttp:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        self._thread.join()
        self.driver.close()

    def post(self, path: str, body: object, **headers: str) -> tuple[int, dict[str, Any]]:
        sent = {key.replace("_", "-"): value for key, value in headers.items()}
        answer = httpx2.post(f"{self.url}{path}", json=body, headers=sent, timeout=60)
        return answer.status_code, answer.json()


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[OrdersByHttp]:
    with OrdersByHttp(tmp_path) as opened:
        opened.orders.start()
        yield opened
        opened.orders.stop()
    opened.orders.app.close()
    for data in tmp_path.rglob("data.mdb"):
        close_environment(data.parent)


@pytest.mark.long
def test_the_reply_of_the_aggregate_is_the_answer(shop: OrdersByHttp) -> None:
    status, reply = shop.post("/17/Place", {"item": "book"}, idempotency_key="a", ce_expectedversion="0")
    assert (status, reply["status"], reply["version"], reply["command_id"]) == (200, "accepted", 1, "a")
    topic, partition, offset, topic_id = reply["position"]
    records = shop.driver.records("order-events")
    assert topic_id == shop.orders.app.log.describe(["order-events"])["order-events"].topic_id
    assert (topic, partition, offset) == ("order-events", records[0].partition, 1)

    status, reply = shop.post("/17/Place", {"item": "pen"})
    assert (status, reply["status"]) == (422, "rejected") and reply["reason"]
    status, reply = shop.post("/17/Pay", {"cents": 5}, ce_expectedversion="7")
    assert (status, reply["status"], reply["version"]) == (409, "conflict", 1)
    status, reply = shop.post("/17/Sing", {})
    assert (status, reply["code"]) == (400, "UNKNOWN_TYPE")
    status, reply = shop.post("/17/Pay", {"cents": "many"})
    assert (status, reply["code"]) == (400, "MALFORMED")


@pytest.mark.long
def test_types_that_are_not_allowed_are_refused_and_the_allowed_ones_named(tmp_path: Path) -> None:
    with OrdersByHttp(tmp_path, allowed_types="Place, Cancel") as shop:
        shop.orders.start()
        assert shop.post("/17/Place", {"item": "book"})[0] == 200
        for path, headers in (("/17/Pay", {}), ("/17/place", {}), ("", {"ce_subject": "17", "ce_type": "Pay"})):
            status, answer = shop.post(path, {"cents": 5}, **headers)
            assert (status, answer["status"]) == (403, "refused")
            assert "are not taken here; allowed are Place, Cancel" in answer["message"]
        shop.orders.stop()
    assert [dict(record.headers)["ce_type"] for record in shop.driver.records("order-commands")] == [b"Place"]
    shop.orders.app.close()


@pytest.mark.long
def test_a_repeated_command_counts_once_and_gets_the_same_reply(shop: OrdersByHttp) -> None:
    shop.post("/17/Place", {"item": "book"})
    first = shop.post("/17/Pay", {"cents": 4}, idempotency_key="pay-1")
    assert shop.post("/17/Pay", {"cents": 4}, idempotency_key="pay-1") == first
    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(lambda _: shop.post("/17/Pay", {"cents": 2}, idempotency_key="pay-2"), range(8)))
    assert answers == [answers[0]] * 8 and answers[0][0] == 200
    assert answers[0][1]["version"] == first[1]["version"] + answers[0][1]["events"]


@pytest.mark.long
def test_the_id_of_another_command_is_refused(shop: OrdersByHttp) -> None:
    shop.post("/17/Place", {"item": "book"}, idempotency_key="a")
    status, answer = shop.post("/17/Pay", {"cents": 4}, idempotency_key="a")
    assert (status, answer["status"]) == (422, "refused") and "'a' is that of another Place" in answer["message"]
    assert shop.post("/17/Place", {"item": "pen"}, idempotency_key="a")[0] == 422
    assert [dict(record.headers)["ce_type"] for record in shop.driver.records("order-events")] == [b"Placed"]


@pytest.mark.long
def test_a_repeat_may_be_written_in_another_way(shop: OrdersByHttp) -> None:
    first = shop.post("/17/Place", {"item": "book"}, idempotency_key="a")
    written = httpx2.post(f"{shop.url}/17/Place", content=b' { "item":\t"book" }', headers={"ce-id": "a"}, timeout=60)
    assert (written.status_code, written.json()) == first


@pytest.mark.long
def test_a_cloud_event_is_a_command_and_keeps_what_it_belongs_to(shop: OrdersByHttp) -> None:
    event = {
        "ce_id": "c-1", "ce_type": "Place", "ce_subject": "gr%C3%BCn", "ce_source": "/till",
        "ce_correlationid": "visit", "ce_undoes": "x", "ce_replypartition": "1",
    }  # fmt: skip
    status, reply = shop.post("", {"item": "book"}, **event)
    assert (status, reply["aggregate_id"]) == (200, "grün")
    found = find(shop.orders.app.log, "visit", topics_of_patterns(shop.orders.app.log))
    assert [record.kind for record in found] == ["command", "event", "reply"]
    (command,) = shop.driver.records("order-commands")
    headers = dict(command.headers)
    assert headers["ce_source"] == b"/till" and headers["ce_replypartition"] == b"0" and "ce_undoes" not in headers


@pytest.mark.long
def test_ids_that_no_reply_could_carry_are_answered_and_make_no_record(shop: OrdersByHttp) -> None:
    too_long = "x" * 20_001
    for headers in ({"Idempotency-Key": too_long}, {"ce_correlationid": too_long}, {"ce_source": too_long}):
        status, answer = shop.post("/17/Place", {"item": "book"}, **headers)
        assert status == 400 and "20000 bytes" in str(answer), answer
    assert shop.post(f"/{'1' * 4_001}/Place", {"item": "book"})[0] == 400
    assert shop.driver.records("order-commands") == []


@pytest.mark.long
def test_a_request_cannot_get_ahead_of_a_saga_by_the_id_of_a_step(shop: OrdersByHttp) -> None:
    for headers in ({"Idempotency-Key": "checkout:17:pay:action:1"}, {"ce_id": "checkout:17:pay%3Aundo:2"}):
        status, answer = shop.post("/17/Place", {"item": "book"}, **headers)
        assert status == 400 and "are those of sagas" in str(answer), answer
    assert shop.driver.records("order-commands") == []
    assert shop.post("/17/Place", {"item": "book"}, **{"Idempotency-Key": "action:1"})[0] == 200


@pytest.mark.long
def test_a_request_that_is_no_command_is_answered_and_makes_no_record(shop: OrdersByHttp) -> None:
    assert shop.post("", {})[1]["message"].startswith("the request does not say for which aggregate it is")
    assert shop.post("", {}, ce_subject="17")[1]["message"].startswith("the request does not say what type")
    assert httpx2.post(f"{shop.url}/17/Place", content=b"{").status_code == 400
    deep = b"[" * 200_000 + b"]" * 200_000
    assert httpx2.post(f"{shop.url}/17/Place", content=deep).status_code == 400
    assert shop.post("/17/Place", {}, ce_id="a%00b")[0] == 400
    assert shop.driver.records("order-commands") == []
    assert shop.driver.metrics()["requests-refused"] == 5


@pytest.mark.long
def test_without_a_reply_in_time_the_outcome_is_unknown_and_a_repeat_gets_it(tmp_path: Path) -> None:
    with OrdersByHttp(tmp_path, answer_timeout_ms="300", queue_max="1") as shop:
        with ThreadPoolExecutor(2) as threads:
            both = list(threads.map(lambda n: shop.post(f"/{n}/Place", {"item": "pen"}, idempotency_key="a"), range(2)))
        assert {status for status, _ in both} in ({504, 429}, {504})
        for _ in range(3):
            shop.orders.epoch()
        status, reply = 504, dict[str, Any]()
        with ThreadPoolExecutor(1) as threads:
            while status in (429, 504):  # on a busy machine 300 ms are short
                answer = threads.submit(shop.post, "/0/Place", {"item": "pen"}, idempotency_key="a")
                while not answer.done():
                    shop.orders.epoch()
                status, reply = answer.result()
        assert (status, reply["version"]) == (200, 1)
    shop.orders.app.close()


def test_converters_that_would_change_commands_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"value\.converter is JsonConverter; commands need"):
        OrdersByHttp(tmp_path, value_converter="JsonConverter")


def test_it_waits_for_the_application_to_make_the_topics(tmp_path: Path) -> None:
    config = LogConfig("embedded", str(tmp_path / "log"), {"fsync": "false"})
    with ConnectWorker(config, {"listeners": "http://127.0.0.1:0"}) as worker:
        worker.herder.put_config("shop", command_source("order", {"webhook.port": "0"}))
        _wait_for(lambda: _task(worker)["state"] == "UNASSIGNED" and "trace" in _task(worker))
        trace = str(_task(worker)["trace"])
        assert "waiting" in trace and "topic 'order-commands' does not exist yet" in trace
        with contextlib.closing(open_log(config)) as log:
            for topic in ("order-commands", "order-replies", "order-events"):
                log.create_topic(topic, 1)
        _wait_for(lambda: _task(worker)["state"] == "RUNNING")


def _task(worker: ConnectWorker) -> dict[str, object]:
    tasks: Any = worker.herder.status("shop")["tasks"]
    return tasks[0] if tasks else {"state": "none"}


def _wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.long
def test_a_signature_covers_all_that_a_command_is_made_of(tmp_path: Path) -> None:
    with OrdersByHttp(tmp_path, hmac_secret="secret", webhook_path="/in") as shop:
        shop.orders.start()
        body, stamp = b'{"item":"book"}', str(int(time.time()))
        lines = [stamp, "POST", "/gr%C3%BCn/Place", "ce-source:/till", "idempotency-key:a", "", ""]
        signature = hmac.new(b"secret", "\n".join(lines).encode() + body, hashlib.sha256).hexdigest()
        signed = {"Idempotency-Key": "a", "ce-source": "/till", "X-Timestamp": stamp, "X-Signature": signature}

        def status(path: str = "/gr%C3%BCn/Place", content: bytes = body, method: str = "POST", **other: str) -> int:
            headers = {**signed, **{name.replace("_", "-"): value for name, value in other.items()}}
            return httpx2.request(method, f"{shop.url}{path}", content=content, headers=headers, timeout=60).status_code

        assert status("/17/Place") == status("/gr%C3%BCn/Pay") == status("") == 401
        assert status(content=b'{"item":"pen"}') == status(method="PUT") == 401
        assert status(Idempotency_Key="b") == status(ce_id="b") == status(ce_expectedversion="0") == 401
        assert status(X_Timestamp=str(int(stamp) - 1)) == 401
        assert status() == status() == 200
        shop.orders.stop()
    assert len(shop.driver.records("order-commands")) == 2  # it is a repeat, that has the same id
    shop.orders.app.close()


def test_a_signed_command_needs_an_id(tmp_path: Path) -> None:
    with OrdersByHttp(tmp_path, hmac_secret="secret") as shop:
        stamp = str(int(time.time()))
        signature = hmac.new(b"secret", f"{stamp}\nPOST\n/17/Place\n\n{{}}".encode(), hashlib.sha256).hexdigest()
        status, answer = shop.post("/17/Place", {}, X_Timestamp=stamp, X_Signature=signature)
        assert status == 400 and "a signed command needs an id" in answer["message"]
    shop.orders.app.close()
