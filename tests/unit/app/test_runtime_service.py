"""What a running shared runtime answers to requests of other processes."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from hayase.app.runtime_requests import RequestFolder, RuntimeRequest
from hayase.app.runtime_service import RuntimeService
from hayase.app.states import State
from hayase.runtime.wire.driver_control import DriverControl


def service(folder: Path, state: State, asked: list[tuple[str, str]]) -> RuntimeService:
    """Of a runtime with one topology in that state."""
    runtime: Any = SimpleNamespace(
        topologies={"revenue": SimpleNamespace(name="revenue", state=state)},
        pause=lambda name: asked.append(("pause", name)),
        resume=lambda name: asked.append(("resume", name)),
        restart=lambda name: asked.append(("restart", name)),
        state=State.RUNNING,
        metrics_url="",
    )
    return RuntimeService(runtime, folder, lambda _: (_ for _ in ()).throw(AssertionError))


@pytest.mark.parametrize(("action", "then"), [("pause", "it will be paused"), ("resume", "it will run")])
def test_who_pauses_or_resumes_a_topology_that_has_failed_is_told_so(tmp_path: Path, action: Any, then: str) -> None:
    asked: list[tuple[str, str]] = []
    (line,) = service(tmp_path, State.ERROR, asked)._carry_out(RuntimeRequest(action, "revenue"))
    assert "revenue is in state ERROR" in line and then in line
    assert asked == [(action, "revenue")]


@pytest.mark.parametrize("action", ["pause", "resume"])
def test_of_a_topology_that_runs_nothing_more_is_said(tmp_path: Path, action: Any) -> None:
    assert service(tmp_path, State.RUNNING, [])._carry_out(RuntimeRequest(action, "revenue")) == []


@pytest.mark.parametrize("said", ['{"action":"drain","name":"revenue"}', "{", "[]", ""])
def test_a_request_of_another_release_is_answered_and_holds_nothing_up(tmp_path: Path, said: str) -> None:
    asked: list[tuple[str, str]] = []
    served = service(tmp_path, State.RUNNING, asked)
    served._runtime.topologies.clear()
    requests = RequestFolder(tmp_path)
    for name in ("0", "2"):
        (tmp_path / "requests" / f"{name}.json").write_bytes(
            msgspec.json.encode(RuntimeRequest("restart", f"topology {name}"))
        )
    (tmp_path / "requests" / "1.json").write_text(said)
    served.serve()
    deadline = time.monotonic() + 10
    while len(asked) < 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert sorted(asked) == [("restart", "topology 0"), ("restart", "topology 2")]
    assert list((tmp_path / "requests").iterdir()) == []
    answer = (tmp_path / "answers" / "1").read_text()
    assert "REQUEST_NOT_UNDERSTOOD" in answer and "another release" in answer
    assert DriverControl(tmp_path).run() is not None, "the status is published"
    assert list(requests.take()) == []


def test_a_request_that_cannot_be_read_now_waits_and_holds_nothing_up(tmp_path: Path) -> None:
    asked: list[tuple[str, str]] = []
    served = service(tmp_path, State.RUNNING, asked)
    served._runtime.topologies.clear()
    (tmp_path / "requests" / "0.json").mkdir()
    (tmp_path / "requests" / "1.json").write_bytes(msgspec.json.encode(RuntimeRequest("restart", "revenue")))
    served.serve()
    deadline = time.monotonic() + 10
    while not asked and time.monotonic() < deadline:
        time.sleep(0.01)
    assert asked == [("restart", "revenue")]
    assert DriverControl(tmp_path).run() is not None, "the status is published"
