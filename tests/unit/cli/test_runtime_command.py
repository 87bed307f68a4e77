"""`hayase runtime run`: what it does before Spark starts."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from hayase import StreamsRuntime
from hayase.cli.main import run_cli
from hayase.core.errors import ConfigError
from hayase.log.open import open_log
from hayase.log.protocol import LogConfig

PROGRAM = Path(__file__).parents[1] / "patterns" / "local_orders.py"


@pytest.fixture
def arguments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    def start(self: StreamsRuntime) -> None:
        raise ConfigError("NOT_STARTED", "Spark would start now")

    monkeypatch.setattr(StreamsRuntime, "start", start)
    state = f"state.dir={tmp_path / 'state'}"
    return ["runtime", "run", f"orders={PROGRAM}:topology", "--log-dir", str(tmp_path / "log"), "-c", state]


def test_topics_of_aggregates_are_made_with_settings_that_keep_events(arguments: list[str], tmp_path: Path) -> None:
    assert run_cli(arguments) == 1
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
    said = capsys.readouterr().err
    assert "EVENTS_WOULD_BE_LOST" in said and "NOT_STARTED" not in said
