"""A server that is killed at any step of a command has, after a restart, what it would have had."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.crash.server_under_test import STATEMENTS

from hayase.core.failpoints import SERVER_NAMES, VARIABLE

ROOT = Path(__file__).resolve().parents[2]
TIMEOUT_S = 120
pytestmark = pytest.mark.crash


def run(folder: Path, failpoint: str | None = None, command: int | None = None) -> subprocess.CompletedProcess[str]:
    """The server, killed when a command reaches a failpoint."""
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
    if failpoint is not None:
        token = folder / "token"
        entry = {"name": failpoint, "epoch": command, "action": "kill_worker", "token": str(token)}
        environment[VARIABLE] = json.dumps([entry])
    return subprocess.run(
        [sys.executable, "-m", "tests.crash.server_under_test", str(folder)],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> object:
    """What a server has that nothing happened to."""
    ended = run(tmp_path_factory.mktemp("undisturbed"))
    assert ended.returncode == 0, ended.stderr
    state = json.loads(ended.stdout)
    assert state["problem"] is None
    assert state["last"] == len(STATEMENTS) - 1
    return state


@pytest.mark.parametrize(
    "command",
    [
        command if command in {1, 4} else pytest.param(command, marks=pytest.mark.slow)
        for command in range(len(STATEMENTS))
    ],
)
@pytest.mark.parametrize("failpoint", SERVER_NAMES)
def test_a_killed_server_goes_on(tmp_path: Path, undisturbed: object, failpoint: str, command: int) -> None:
    killed = run(tmp_path, failpoint, command)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    ended = run(tmp_path)
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout) == undisturbed
