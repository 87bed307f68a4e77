"""`hayase connectors …` against a worker."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from hayase.cli.main import run_cli
from hayase.connect.exceptions import ConnectError
from hayase.connect.rest_client import RestClient, RestError
from hayase.connect.worker import ConnectWorker
from hayase.log.open import open_log
from hayase.log.protocol import LogConfig, Marker
from hayase.state.lease_holder import Holder

pytestmark = pytest.mark.long


ASKED = '''
from hayase.connect.files.file_stream_source import FileStreamSourceConnector


class AskedSource(FileStreamSourceConnector):
    """Reads lines, and signals."""

    def signal_topic(self, props):
        return "asked-signal", b"asked"
'''


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("worker")
    (folder / "plugins").mkdir()
    (folder / "plugins" / "asked.py").write_text(ASKED)
    props = {
        "listeners": "http://127.0.0.1:0", "value.converter": "StringConverter", "plugin.path": str(folder / "plugins")
    }  # fmt: skip
    with ConnectWorker(LogConfig("embedded", str(folder / "log"), {"fsync": "false"}), props) as worker:
        yield worker.urls[0]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "lines.txt").write_text("one\n")
    config = {"connector.class": "FileStreamSource", "file": str(tmp_path / "lines.txt"), "topic": "lines"}
    path = tmp_path / "lines.json"
    path.write_text(json.dumps({"name": "lines", "config": config}))
    return path


def test_a_connector_is_made_listed_stopped_and_deleted(
    url: str, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_cli(["connectors", "create", str(file), "--wait", "-u", url]) == 0
    assert run_cli(["connectors", "list", "-u", url]) == 0
    assert "RUNNING" in capsys.readouterr().out
    assert run_cli(["connectors", "status", "lines", "--json", "-u", url]) == 0
    assert json.loads(capsys.readouterr().out)["tasks"][0]["state"] == "RUNNING"
    assert run_cli(["connectors", "pause", "lines", "--wait", "-u", url]) == 0
    assert run_cli(["connectors", "resume", "lines", "--wait", "-u", url]) == 0
    assert run_cli(["connectors", "restart", "lines", "-u", url]) == 0
    assert run_cli(["connectors", "stop", "lines", "--wait", "-u", url]) == 0
    capsys.readouterr()
    assert run_cli(["connectors", "offsets", "lines", "--json", "-u", url]) == 0
    assert json.loads(capsys.readouterr().out)["offsets"][0]["offset"] == {"position": 4}
    assert run_cli(["connectors", "offsets", "lines", "--reset", "-u", url]) == 0
    assert run_cli(["connectors", "delete", "lines", "--yes", "-u", url]) == 0
    assert run_cli(["connectors", "status", "lines", "-u", url]) == 1
    assert "No status found for connector lines" in capsys.readouterr().err


def test_a_connector_that_has_no_status_yet_is_waited_for(
    url: str, file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ask, refused = RestClient.ask, [404, 404]

    def as_kafka_connect(self: RestClient, method: str, path: str, body: object = None) -> object:
        if path.endswith("/status") and refused:
            raise RestError("REST_REFUSED", "No status found for connector lines", status=refused.pop())
        return ask(self, method, path, body)

    monkeypatch.setattr(RestClient, "ask", as_kafka_connect)
    assert run_cli(["connectors", "create", str(file), "--wait", "-u", url]) == 0
    assert "lines: RUNNING" in capsys.readouterr().out
    refused.append(500)
    assert run_cli(["connectors", "create", str(file), "--wait", "-u", url]) == 1
    monkeypatch.undo()
    assert run_cli(["connectors", "delete", "lines", "--yes", "-u", url]) == 0


def test_a_failed_connector_that_gets_a_right_configuration_is_waited_for(
    url: str, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ask = RestClient.ask
    stale: list[dict[str, str]] = []
    failed = {"state": "FAILED", "trace": "Traceback\nOSError: of before"}

    def slow_to_start(self: RestClient, method: str, path: str, body: object = None) -> object:
        if path.endswith("/status") and stale:
            return {"connector": {"state": "RUNNING"}, "tasks": [stale.pop()]}
        return ask(self, method, path, body)

    assert run_cli(["connectors", "create", str(file), "--wait", "-u", url]) == 0
    monkeypatch.setattr(RestClient, "ask", slow_to_start)
    stale += [failed] * 3
    assert run_cli(["connectors", "create", str(file), "--wait", "-u", url]) == 0
    assert "lines: RUNNING" in capsys.readouterr().out
    stale += [{"state": "FAILED", "trace": "Traceback\nOSError: of now"}, failed]
    assert run_cli(["connectors", "create", str(file), "--wait", "-u", url]) == 1
    assert "lines failed: OSError: of now" in capsys.readouterr().err
    monkeypatch.undo()
    assert run_cli(["connectors", "delete", "lines", "--yes", "-u", url]) == 0


def test_a_wrong_configuration_is_shown_key_by_key(url: str, file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text(json.dumps({"name": "lines", "connector.class": "FileStreamSource"}))
    assert run_cli(["connectors", "validate", str(file), "-u", url]) == 1
    assert "topic: Missing required configuration" in capsys.readouterr().out
    assert run_cli(["connectors", "create", str(file), "-u", url]) == 1
    assert "contains the following 1 error(s)" in capsys.readouterr().err


def test_a_worker_that_is_not_there_is_said_to_be_away(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(["connectors", "list", "-u", "http://127.0.0.1:1"]) == 1
    assert "hayase connect" in capsys.readouterr().err


def test_the_plugins_of_a_worker_are_listed(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(["connectors", "plugins", "-u", url]) == 0
    assert "TRANSACTIONAL" in capsys.readouterr().out


def test_the_command_connect_runs_connectors_until_it_is_told_to_stop(tmp_path: Path, file: Path) -> None:
    command = [sys.executable, "-m", "hayase", "connect", str(file), "--log-dir", str(tmp_path / "log")]
    options = ["--listen", "http://127.0.0.1:0", "-c", "value.converter=StringConverter"]
    with subprocess.Popen([*command, *options], stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        url = next(line.split("REST at ")[1].split()[0] for line in process.stderr if "REST at" in line)
        assert run_cli(["connectors", "create", str(file), "--wait", "-u", url]) == 0
        process.send_signal(signal.SIGTERM)
        process.stderr.read()
        assert process.wait(240) == 0


def test_a_worker_in_the_background_of_a_script_ignores_ctrl_c_and_ends_cleanly_at_sigterm(tmp_path: Path) -> None:
    worker = f"{sys.executable} -m hayase connect --listen http://127.0.0.1:0 --log-dir {tmp_path / 'log'}"
    script = f"{worker} & echo pid $! >&2; wait $!; echo status $? >&2"
    with subprocess.Popen(["/bin/sh", "-c", script], stderr=subprocess.PIPE, text=True) as shell:
        assert shell.stderr is not None
        pid = int(shell.stderr.readline().removeprefix("pid "))
        url = next(line.split("REST at ")[1].split()[0] for line in shell.stderr if "REST at" in line)
        os.kill(pid, signal.SIGINT)
        with pytest.raises(subprocess.TimeoutExpired):
            shell.wait(1)
        assert run_cli(["connectors", "list", "-u", url]) == 0
        os.kill(pid, signal.SIGTERM)
        assert shell.stderr.read().splitlines()[-1] == "status 0"


def test_a_worker_whose_terminal_is_closed_ends_cleanly(tmp_path: Path) -> None:
    with running_worker(tmp_path / "log") as process:
        process.send_signal(signal.SIGHUP)
        assert process.wait(240) == 0


@contextlib.contextmanager
def running_worker(folder: Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "hayase", "connect", "--listen", "http://127.0.0.1:0", "--log-dir", str(folder)]
    # Under nohup SIGHUP is ignored, which would stay so in the worker.
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    try:
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    finally:
        signal.signal(signal.SIGHUP, before)
    with process:
        assert process.stderr is not None
        assert any("REST at" in line for line in process.stderr)
        yield process
        process.send_signal(signal.SIGTERM)


def test_a_second_worker_of_the_same_group_is_refused_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with running_worker(tmp_path / "log") as first:
        assert run_cli(["connect", "--listen", "http://127.0.0.1:0", "--log-dir", str(tmp_path / "log")]) == 1
        (line,) = capsys.readouterr().err.splitlines()
        assert f"(pid {first.pid} on" in line
        assert "[LEASE_HELD]" in line


def test_a_worker_whose_group_another_one_has_taken_over_ends_and_says_so(tmp_path: Path) -> None:
    with running_worker(tmp_path / "log") as process:
        log = open_log(LogConfig("embedded", str(tmp_path / "log")))
        held = log.markers("connect-cluster")["worker"]
        digest = msgspec.json.encode(Holder("theirs", "another machine", "far", 1, 1.0)).decode()
        log.writer().publish_epoch("connect-cluster", "worker", Marker(held.checkpoint_id, held.epoch + 9, digest), [])
        log.close()
        assert process.wait(60) == 1
        assert process.stderr is not None
        assert "pid 1 on far" in process.stderr.read()


def test_a_snapshot_is_asked_for_by_a_signal(url: str, file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = json.loads(file.read_text())["config"] | {"connector.class": "AskedSource"}
    file.write_text(json.dumps({"name": "asked", "config": config}))
    assert run_cli(["connectors", "create", str(file), "-u", url]) == 0
    asked = ["connectors", "snapshot", "asked", "--table", "public.t", "-u", url]
    capsys.readouterr()
    assert run_cli([*asked, "--where", "id > 1"]) == 0
    assert run_cli([*asked, "--stop"]) == 0
    assert capsys.readouterr().out == "sent execute-snapshot to asked-signal\nsent stop-snapshot to asked-signal\n"
    assert run_cli([*asked, "--stop", "--where", "id > 1"]) == 1
    assert "exclude each other" in capsys.readouterr().err


def test_a_connector_that_reads_no_signals_says_so(url: str, file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(["connectors", "create", str(file), "-u", url]) == 0
    capsys.readouterr()
    assert run_cli(["connectors", "snapshot", "lines", "--table", "public.t", "-u", url]) == 1
    assert "signal.enabled.channels=source,kafka" in capsys.readouterr().err


def completed(line: str, **environment: str) -> list[str]:
    """What a shell offers at the end of a line."""
    asked = {"COMP_WORDS": line, "COMP_CWORD": str(line.count(" ")), "_HAYASE_COMPLETE": "complete_bash"}
    command = [str(Path(sys.executable).with_name("hayase"))]
    done = subprocess.run(
        command, env={**os.environ, **asked, **environment}, capture_output=True, text=True, timeout=60, check=True
    )
    return done.stdout.split()


def test_shells_complete_commands_and_the_names_of_connectors(url: str, file: Path) -> None:
    assert run_cli(["connectors", "create", str(file), "--wait", "-u", url]) == 0
    assert completed("hayase connectors st") == ["status", "stop"]
    assert completed("hayase connectors pause li", HAYASE_CONNECT_URL=url) == ["lines"]
    assert "lines" in completed("hayase connectors pause ", HAYASE_CONNECT_URL=url)
    assert completed("hayase connectors pause other", HAYASE_CONNECT_URL=url) == []
    assert completed("hayase connectors pause ", HAYASE_CONNECT_URL="http://127.0.0.1:9") == [], "no worker, no trace"
    assert run_cli(["connectors", "delete", "lines", "--yes", "-u", url]) == 0


def test_a_worker_does_not_run_the_connectors_of_another_group(tmp_path: Path, file: Path) -> None:
    log = LogConfig("embedded", str(tmp_path / "log"), {"fsync": "false"})
    props = {"listeners": "http://127.0.0.1:0", "group.id": "one"}
    with ConnectWorker(log, props):
        pass
    with pytest.raises(ConnectError, match=r"are those of group\.id=one, .* start it as one") as refused:
        ConnectWorker(log, {**props, "group.id": "two"}).start()
    assert refused.value.condition == "CONFIGS_OF_ANOTHER_GROUP"
    with ConnectWorker(log, {**props, "group.id": "two", "config.storage.topic": "two-configs"}):
        pass
    with ConnectWorker(log, props) as again:
        assert again.herder.connectors() == []


def test_the_command_says_in_one_line_that_connectors_are_of_another_group(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with ConnectWorker(LogConfig("embedded", str(tmp_path / "log"), {}), {"listeners": "http://127.0.0.1:0"}):
        pass
    (tmp_path / "two.properties").write_text("group.id=two\nlisteners=http://127.0.0.1:0\n")
    command = ["connect", "--config-file", str(tmp_path / "two.properties"), "--log-dir", str(tmp_path / "log")]
    assert run_cli(command) == 1
    assert "CONFIGS_OF_ANOTHER_GROUP" in capsys.readouterr().err
