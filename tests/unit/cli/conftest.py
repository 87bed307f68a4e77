"""The demo's results, made once."""

from __future__ import annotations

import pytest
from tests.unit.cli.demo_run import DemoRun, run_demo


@pytest.fixture(scope="session")
def demo() -> DemoRun:
    """A small demo that went through the test driver."""
    return run_demo(1_500)


@pytest.fixture(autouse=True)
def no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the person who runs the tests has in the environment does not matter."""
    monkeypatch.delenv("HAYASE_LOG_DIR", raising=False)
    monkeypatch.delenv("HAYASE_BOOTSTRAP_SERVERS", raising=False)
    monkeypatch.delenv("HAYASE_COMMAND_CONFIG", raising=False)
