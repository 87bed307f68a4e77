"""Requests to `/webhooks/NAME` of a worker reach the connector, wherever its task listens now."""

from __future__ import annotations

import hashlib
import hmac
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx2
import pytest

from hayase.connect.contracts import Props
from hayase.connect.files.file_stream_source import FileStreamSourceConnector
from hayase.connect.rest import webhooks
from hayase.connect.worker import ConnectWorker
from hayase.core.records import TopicPartition
from hayase.log.open import open_log
from hayase.log.protocol import LogConfig
from hayase.patterns.command_source import command_source

pytestmark = pytest.mark.long
HOOK = {"connector.class": "WebhookSource", "topic": "hooks", "key.field": "user"}
PLAIN = {"value.converter.schemas.enable": "false", "key.converter": "StringConverter"}


@pytest.fixture
def config_of_log(tmp_path: Path) -> LogConfig:
    return LogConfig("embedded", str(tmp_path / "log"), {"fsync": "false"})


@pytest.fixture
def worker(config_of_log: LogConfig) -> Iterator[ConnectWorker]:
    with ConnectWorker(config_of_log, {"listeners": "http://127.0.0.1:0", **PLAIN}) as running:
        yield running


def hooks(config_of_log: LogConfig) -> list[bytes | None]:
    log = open_log(config_of_log)
    where = TopicPartition("hooks", 0)
    found = [value for batch in log.reader().fetch(where, 0, log.end_offsets([where])[where]) for value in batch.values]
    log.close()
    return found


def test_the_address_stays_while_the_task_moves_to_another_port(
    worker: ConnectWorker, config_of_log: LogConfig
) -> None:
    worker.herder.put_config("hook", HOOK)
    url = f"{worker.urls[0]}/webhooks/hook"
    named = {"Idempotency-Key": "1"}
    assert httpx2.post(url, content='{"user":"ada"}', headers=named, timeout=30).json() == {"status": "accepted"}
    before = worker.herder.runner("hook").address()
    worker.herder.restart("hook", include_tasks=True, only_failed=False)
    assert httpx2.put(url, content='{"user":"bob"}', timeout=30).status_code == 200
    repeated = httpx2.post(url, content='{"user":"ada"}', headers=named, timeout=30)
    assert repeated.json() == {"status": "accepted", "repeated": True}
    assert worker.herder.runner("hook").address() != before
    assert hooks(config_of_log) == [b'{"user":"ada"}', b'{"user":"bob"}']


def test_the_connector_answers_for_itself(worker: ConnectWorker) -> None:
    worker.herder.put_config("hook", HOOK)
    answer = httpx2.post(f"{worker.urls[0]}/webhooks/hook", content="no JSON", timeout=30)
    assert (answer.status_code, answer.json()["message"]) == (400, "the body is no JSON")


def test_a_connector_that_is_not_there_or_takes_no_requests_is_named(
    worker: ConnectWorker, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(webhooks, "_PATIENCE_S", 0.2)
    missing = httpx2.post(f"{worker.urls[0]}/webhooks/nope", content="1")
    assert (missing.status_code, missing.json()["message"]) == (404, "Connector nope not found")
    (tmp_path / "lines.txt").touch()
    lines = {"connector.class": "FileStreamSource", "file": str(tmp_path / "lines.txt"), "topic": "lines"}
    worker.herder.put_config("lines", lines)
    away = httpx2.post(f"{worker.urls[0]}/webhooks/lines", content="1")
    assert (away.status_code, away.headers["retry-after"]) == (503, "5")
    assert "the connector lines does not take requests now" in away.json()["message"]


def test_a_signed_request_needs_no_password_of_the_worker_and_any_other_does(
    config_of_log: LogConfig, tmp_path: Path
) -> None:
    (tmp_path / "users.properties").write_text("ada=open sesame\n")
    props = {"listeners": "http://127.0.0.1:0", "rest.basic.auth.file": str(tmp_path / "users.properties"), **PLAIN}
    with ConnectWorker(config_of_log, props) as worker:
        worker.herder.put_config("signed", {**HOOK, "hmac.secret": "secret"})
        worker.herder.put_config("open", HOOK)
        (tmp_path / "lines.txt").touch()
        lines = {"connector.class": "FileStreamSource", "file": str(tmp_path / "lines.txt"), "topic": "lines"}
        worker.herder.put_config("lines", {**lines, "hmac.secret": "of no use to it"})
        worker.herder.put_config("commands", {**command_source("order", {}), "hmac.secret": "secret"})
        assert worker.herder.checks_signatures("commands")
        url, stamp = f"{worker.urls[0]}/webhooks", str(int(time.time()))
        signature = hmac.new(b"secret", f"{stamp}.1".encode(), hashlib.sha256).hexdigest()
        headers = {"X-Timestamp": stamp, "X-Signature": signature}
        assert httpx2.post(f"{url}/signed", content="1", headers=headers, timeout=30).status_code == 200
        assert "signature" in httpx2.post(f"{url}/signed", content="2", timeout=30).json()["message"]
        assert httpx2.post(f"{url}/open", content="1").status_code == 401
        assert httpx2.post(f"{url}/lines", content="1", headers=headers).status_code == 401
        assert httpx2.post(f"{url}/open", content="1", auth=("ada", "open sesame"), timeout=30).status_code == 200


class WebhookSource(FileStreamSourceConnector):
    """A connector of a user that has the name of ours and checks no signatures."""


class SigningSource(FileStreamSourceConnector):
    """A connector of a user that checks signatures."""

    def checks_signatures(self, props: Props) -> bool:
        return "hmac.secret" in props


def test_a_connector_says_itself_whether_it_checks_signatures(worker: ConnectWorker, tmp_path: Path) -> None:
    (tmp_path / "lines.txt").touch()
    lines = {"file": str(tmp_path / "lines.txt"), "topic": "lines", "hmac.secret": "secret"}
    for name, cls in (("namesake", WebhookSource), ("signing", SigningSource)):
        worker.herder.put_config(name, {**lines, "connector.class": worker.herder.env.plugins.add_class(cls)})
    assert not worker.herder.checks_signatures("namesake")
    assert worker.herder.checks_signatures("signing")
    assert not worker.herder.checks_signatures("not there")


def test_what_is_behind_the_name_goes_to_the_connector_too(
    worker: ConnectWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    class Target(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked.append(self.path)
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

    with ThreadingHTTPServer(("127.0.0.1", 0), Target) as target:
        threading.Thread(target=target.serve_forever, daemon=True).start()
        worker.herder.put_config("hook", HOOK)
        address = f"http://127.0.0.1:{target.server_port}/in/"
        monkeypatch.setattr(type(worker.herder.runner("hook")), "address", lambda _: address)
        for behind in ("", "/17/Place", "/gr%C3%BCn/Place"):
            assert httpx2.post(f"{worker.urls[0]}/webhooks/hook{behind}", content="1", timeout=30).status_code == 200
        target.shutdown()
    assert asked == ["/in/", "/in/17/Place", "/in/gr%C3%BCn/Place"]
