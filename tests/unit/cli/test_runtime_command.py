"""`hayase runtime run`, without Spark: planner and slots are threads of this process."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
from tests.unit.app.query_in_process import QueryInProcess

from hayase.cli.main import run_cli
from hayase.log.open import open_log
from hayase.log.protocol import LogConfig
from hayase.runtime.driver import shared_query

PROGRAM = Path(__file__).parents[1] / "patterns" / "local_orders.py"


@pytest.fixture
def arguments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setattr(shared_query, "SharedQuery", QueryInProcess)
    state = f"state.dir={tmp_path / 'state'}"
    return ["runtime", "run", f"orders={PROGRAM}:topology", "--log-dir", str(tmp_path / "log"), "-c", state, "--to-end"]


def test_topics_of_aggregates_are_made_with_settings_that_keep_events(arguments: list[str], tmp_path: Path) -> None:
    assert run_cli(arguments) == 0
    with closing(open_log(LogConfig("embedded", str(tmp_path / "log")))) as log:
        assert {"order-commands", "order-events", "order-replies"} <= set(log.topics())
        assert log.topic_config("order-events")["retention.ms"] == "-1"


def test_an_aggregate_whose_events_would_expire_is_refused(
    arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with closing(open_log(LogConfig("embedded", str(tmp_path / "log")))) as log:
        for name in ("order-commands", "order-events", "order-replies"):
            log.create_topic(name, 1, {"retention.ms": "1000"})
    assert run_cli(arguments) == 1
    assert "EVENTS_WOULD_BE_LOST" in capsys.readouterr().err
