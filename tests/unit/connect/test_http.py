"""Requests as records, and records as requests."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import ClassVar

import httpx2
import pytest

from hayase.connect.contracts import SourceTask
from hayase.connect.exceptions import ConnectError
from hayase.connect.http.webhook_source import WebhookSourceTask
from hayase.log.protocol import Log
from hayase.testing.connect import ConnectorTestDriver

PLAIN = {"key.converter.schemas.enable": "false", "value.converter.schemas.enable": "false"}


class Webhook:
    """A connector that is stepped by a thread, as in a worker."""

    def __init__(self, log: Log, **props: str) -> None:
        given = {"connector.class": "WebhookSource", "name": "hook", "topic": "hooks", "webhook.port": "0"}
        more = {key.replace("_", "."): value for key, value in props.items()}
        self.driver = ConnectorTestDriver({**given, **more}, worker=PLAIN, log=log)
        self.driver.start()
        task = self.driver._tasks[0].task
        assert isinstance(task, SourceTask) and isinstance(task, WebhookSourceTask)
        self.url = task.url
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Webhook:
        self._thread.start()
        return self

    def _run(self) -> None:
        while not self._ended.is_set():
            self.driver.step()

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        self._thread.join()
        self.driver.close()

    def values(self) -> list[object]:
        return [json.loads(record.value or b"null") for record in self.driver.records("hooks")]


@pytest.mark.long
def test_a_request_is_answered_when_its_record_is_durable(log: Log) -> None:
    with Webhook(log, key_field="id") as hook:
        answer = httpx2.post(hook.url, json={"id": 7})
        assert (answer.status_code, answer.json()) == (200, {"status": "accepted"})
        (record,) = hook.driver.records("hooks")
        assert (record.key, record.value) == (b"7", b'{"id":7}')


@pytest.mark.long
def test_a_request_that_comes_again_makes_no_record(log: Log) -> None:
    named = {"Idempotency-Key": "a-1"}
    with Webhook(log) as hook:
        httpx2.post(hook.url, json=1, headers=named)
        assert httpx2.post(hook.url, json=1, headers=named).json()["repeated"]
        assert hook.values() == [1]


@pytest.mark.long
@pytest.mark.parametrize("header", ["Idempotency-Key", "ce-id"])
def test_a_request_whose_name_is_empty_is_refused(log: Log, header: str) -> None:
    with Webhook(log) as hook:
        for _ in range(2):
            answer = httpx2.post(hook.url, json=1, headers={header: ""})
            assert answer.status_code == 400
            assert "is empty" in answer.json()["message"]
        assert hook.values() == []


@pytest.mark.long
def test_the_name_of_a_request_survives_a_crash(log: Log) -> None:
    event = {"ce-id": "1", "ce-source": "/shop"}
    with Webhook(log) as hook:
        httpx2.post(hook.url, json=1, headers=event)
    with Webhook(log) as hook:
        assert httpx2.post(hook.url, json=1, headers=event).json()["repeated"]
        assert hook.values() == [1]


@pytest.mark.long
def test_a_name_is_forgotten_after_its_window(log: Log) -> None:
    with Webhook(log, idempotency_window_ms="1") as hook:
        httpx2.post(hook.url, json=1, headers={"Idempotency-Key": "a"})
        deadline = time.monotonic() + 20
        while any("request" in each["partition"] for each in hook.driver.offsets()):  # type: ignore[operator]
            assert time.monotonic() < deadline
            time.sleep(0.05)


@pytest.mark.long
def test_a_request_without_a_right_signature_is_refused(log: Log) -> None:
    with Webhook(log, hmac_secret="open sesame") as hook:
        body, now = b'{"id":7}', str(int(time.time()))
        sign = hmac.new(b"open sesame", now.encode() + b"." + body, hashlib.sha256).hexdigest()
        right = {"X-Signature": sign, "X-Timestamp": now}
        assert httpx2.post(hook.url, content=body, headers=right).status_code == 200
        assert httpx2.post(hook.url, content=b'{"id":8}', headers=right).status_code == 401
        for stamp in ("1", "9" * 400, "9" * 5_000):  # the last ones have no conversion
            assert httpx2.post(hook.url, content=body, headers={**right, "X-Timestamp": stamp}).status_code == 401
        assert httpx2.post(hook.url, content=body).status_code == 401
        assert hook.values() == [{"id": 7}]


@pytest.mark.long
def test_a_body_that_is_no_json_or_too_large_is_refused(log: Log) -> None:
    with Webhook(log, body_max_bytes="10") as hook:
        assert httpx2.post(hook.url, content=b"{").status_code == 400
        assert httpx2.post(hook.url, content=b"1" * 11).status_code == 413


@pytest.mark.long
@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'{"name": "\\uD83D"}', "half of a surrogate pair"),
        (b'{"name": "\xed\xa0\x80"}', "the body is no JSON"),
        (b"[" * 900 + b"]" * 900, "nested more deeply than 100 levels"),
        (b"[" * 200_000 + b"]" * 200_000, "the body is no JSON"),
    ],
)
def test_a_body_that_no_converter_can_write_is_refused_and_the_task_goes_on(
    log: Log, body: bytes, message: str
) -> None:
    with Webhook(log, answer_timeout_ms="3000") as hook:
        answer = httpx2.post(hook.url, content=body, timeout=30)
        assert answer.status_code == 400 and message in answer.json()["message"]
        assert httpx2.post(hook.url, content=b'{"name": "\\ud83d\\ude00"}', timeout=30).status_code == 200
        assert hook.values() == [{"name": "\U0001f600"}]


@pytest.mark.long
@pytest.mark.parametrize(
    "body",
    [
        b'"' + b"x" * ((1 << 20) - 2) + b'"',
        b"[" + b"1e15," * 100_000 + b"0]",  # longer as it is written to the topic
        b'{"id": "' + b"x" * 600_000 + b'"}',  # as the key, too
    ],
    ids=["as large as a message", "numbers that grow", "a large key"],
)
def test_a_body_whose_record_the_topic_would_refuse_is_refused_and_the_task_goes_on(log: Log, body: bytes) -> None:
    with Webhook(log, key_field="id", answer_timeout_ms="3000") as hook:
        assert httpx2.post(hook.url, content=body, timeout=30).status_code == 413
        assert httpx2.post(hook.url, json={"id": 1}, timeout=30).status_code == 200
        assert hook.values() == [{"id": 1}]


@pytest.mark.long
def test_requests_that_do_not_fit_in_the_queue_are_turned_away(log: Log) -> None:
    hook = Webhook(log, queue_max="1", answer_timeout_ms="300")  # nothing polls
    first = threading.Thread(target=httpx2.post, args=(hook.url,), kwargs={"json": 1})
    first.start()
    time.sleep(0.1)
    assert httpx2.post(hook.url, json=2).status_code in (429, 503)
    assert httpx2.post(hook.url, json=3).status_code == 429
    first.join()
    hook.driver.close()


class Server(BaseHTTPRequestHandler):
    got: ClassVar[list[tuple[str | None, bytes]]] = []
    headers_got: ClassVar[list[dict[str, str]]] = []
    answers: ClassVar[list[int]] = []
    retry_after: ClassVar[str | None] = None
    answer_bytes: ClassVar[int] = 0
    byte_pause_s: ClassVar[float] = 0.0

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        status = Server.answers.pop(0) if Server.answers else 200
        if status == 200:
            Server.got.append((self.headers["Idempotency-Key"], body))
            Server.headers_got.append({name.lower(): value for name, value in self.headers.items()})
        self.send_response(status)
        self.send_header("Content-Length", str(Server.answer_bytes))
        if Server.retry_after is not None:
            self.send_header("Retry-After", Server.retry_after)
        self.end_headers()
        with contextlib.suppress(OSError):
            for _ in range(Server.answer_bytes if Server.byte_pause_s else 0):
                self.wfile.write(b"x")
                self.wfile.flush()
                time.sleep(Server.byte_pause_s)
            if not Server.byte_pause_s:
                self.wfile.write(b"x" * Server.answer_bytes)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Nothing."""


@pytest.fixture
def url() -> Iterator[str]:
    Server.got, Server.answers, Server.headers_got = [], [], []
    Server.retry_after, Server.answer_bytes, Server.byte_pause_s = None, 0, 0.0
    server = HTTPServer(("127.0.0.1", 0), Server)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/in"
    server.shutdown()
    server.server_close()


def sink(log: Log, url: str, **props: str) -> ConnectorTestDriver:
    given = {"connector.class": "HttpSink", "topics": "out", "http.url": url, "key.converter": "StringConverter"}
    more = {key.replace("_", "."): value for key, value in props.items()}
    connector = ConnectorTestDriver({**given, **more}, worker=PLAIN, log=log)
    for number in range(3):
        connector.produce("out", None, f'{{"n":{number}}}'.encode())
    return connector


@pytest.mark.long
def test_each_record_is_a_request_with_its_name(log: Log, url: str) -> None:
    with sink(log, url) as connector:
        connector.run_to_end()
    assert Server.got == [(f"out/0/{number}", f'{{"n": {number}}}'.encode()) for number in range(3)]


@pytest.mark.long
def test_a_server_that_is_busy_is_asked_again(log: Log, url: str) -> None:
    Server.answers.extend([503, 429])
    with sink(log, url, batch_size="5") as connector:
        connector.run_to_end()
    assert Server.got == [("out/0/0-2", b'[{"n": 0},{"n": 1},{"n": 2}]')]


@pytest.mark.long
def test_records_that_were_answered_are_not_sent_again_when_a_later_one_has_to_be(log: Log, url: str) -> None:
    Server.answers.extend([200, 503] * 3 + [200, 500])
    with sink(log, url) as connector:
        for number in range(3, 8):
            connector.produce("out", None, f'{{"n":{number}}}'.encode())
        connector.run_to_end()
    assert [name for name, _ in Server.got] == [f"out/0/{number}" for number in range(8)]
    assert Server.answers == []


@pytest.mark.long
def test_the_pauses_of_one_request_do_not_grow_with_those_of_others(log: Log, url: str) -> None:
    Server.answers.extend([503, 200] * 8 + [503, 503, 503, 200])
    with sink(log, url) as connector:
        for number in range(3, 9):
            connector.produce("out", None, f'{{"n":{number}}}'.encode())
        connector.start()
        pauses: list[float] = []
        vars(connector._tasks[0].loop)["_sleep"] = pauses.append
        connector.run_to_end()
    assert pauses == [0.1] * 8 + [0.1, 0.2, 0.4]


@pytest.mark.long
def test_a_request_that_is_refused_fails_the_task_or_becomes_a_dead_letter(log: Log, url: str) -> None:
    Server.answers.append(422)
    with sink(log, url) as connector, pytest.raises(ConnectError, match="422"):
        connector.step()


@pytest.mark.long
def test_a_cloud_event_is_sent_as_one_and_named_by_its_id(log: Log, url: str) -> None:
    text = "org.apache.kafka.connect.storage.StringConverter"
    with sink(log, url, cloudevents="true", value_converter=text, header_converter=text) as connector:
        for _ in range(2):  # a command that is sent again under its id
            headers = (("ce_id", b"1"), ("ce_subject", "gr\u00fcn \u0022".encode()), ("ce_none", None), ("other", b"x"))
            connector.produce("out", b"k", b'{"n":7}', headers=headers)
        connector.run_to_end()
    assert Server.got[2:] == [("out/0/2", b'{"n":2}'), ("1", b'{"n":7}'), ("1", b'{"n":7}')]
    attributes = {name: value for name, value in Server.headers_got[-1].items() if name.startswith("ce-")}
    assert attributes == {"ce-id": "1", "ce-subject": "gr%C3%BCn%20%22"}


@pytest.mark.long
def test_a_request_is_one_cloud_event(log: Log, url: str) -> None:
    connector = sink(log, url, cloudevents="true", batch_size="5")
    with connector, pytest.raises(ConnectError, match="a request is one event"):
        connector.run_to_end()


@pytest.mark.long
@pytest.mark.parametrize("asked", ["99999999999", "9" * 5_000], ids=["centuries", "no number"])
def test_a_server_that_asks_for_a_long_pause_is_asked_again_after_an_hour(log: Log, url: str, asked: str) -> None:
    Server.answers.append(503)
    Server.retry_after = asked
    with sink(log, url) as connector:
        connector.start()
        pauses: list[float] = []
        vars(connector._tasks[0].loop)["_sleep"] = pauses.append
        connector.run_to_end()
    assert pauses == [3600.0]


@pytest.mark.long
def test_of_a_long_answer_the_beginning_is_read(log: Log, url: str) -> None:
    Server.answer_bytes, Server.byte_pause_s = 70_000, 0.0
    with sink(log, url) as connector:
        connector.start()
        task = connector._tasks[0].task
        read: list[int] = []
        whole = vars(type(task))["_read"]
        vars(task)["_read"] = lambda answer: read.append(len(whole(task, answer))) or b""
        connector.run_to_end()
    assert read == [1 << 16] * 3
    assert [name for name, _ in Server.got] == [f"out/0/{number}" for number in range(3)]


@pytest.mark.long
def test_an_answer_that_does_not_come_to_its_end_is_a_server_that_is_away(log: Log, url: str) -> None:
    Server.answer_bytes, Server.byte_pause_s = 100, 0.05
    with sink(log, url, http_timeout_ms="300") as connector:
        connector.start()

        def give_up(_: float) -> None:
            raise ConnectError("GIVEN_UP", "after the first attempt")

        vars(connector._tasks[0].loop)["_sleep"] = give_up
        begun = time.monotonic()
        with pytest.raises(ConnectError, match="after the first attempt"):
            connector.run_to_end()
        assert time.monotonic() - begun < 4
