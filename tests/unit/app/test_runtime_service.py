"""What a running shared runtime answers to requests of other processes."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hayase.app.runtime_requests import RuntimeRequest
from hayase.app.runtime_service import RuntimeService
from hayase.app.states import State


def service(folder: Path, state: State, asked: list[tuple[str, str]]) -> RuntimeService:
    """Of a runtime with one topology in that state."""
    runtime: Any = SimpleNamespace(
        topologies={"revenue": SimpleNamespace(name="revenue", state=state)},
        pause=lambda name: asked.append(("pause", name)),
        resume=lambda name: asked.append(("resume", name)),
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
