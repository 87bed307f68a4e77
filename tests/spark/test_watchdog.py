"""A worker that hangs in the user's code is ended, and its task tried again."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from tests.spark.place import Place, error_of
from tests.spark.topologies import JSON, TEXT, WRITTEN

from hayase import Consumed, StreamsBuilder, Topology
from hayase.core.errors import ProcessingError

INTERVAL_MS = 1_500


def hanging(token: Path, *, always: bool) -> Topology:
    """Hangs on the record that says so: the first time, or always."""

    def pass_on(value: dict[str, Any]) -> dict[str, Any]:
        if value.get("hang") and (always or not token.exists()):
            token.touch()
            time.sleep(600)
        return value

    builder = StreamsBuilder()
    builder.stream("in", Consumed.with_(TEXT, JSON)).map_values(pass_on).to("out", WRITTEN)
    return builder.build()


def put(place: Place) -> None:
    place.topic("in", 1), place.topic("out", 1)
    place.put("in", [("a", {"n": 1}, 0), ("b", {"hang": True}, 1), ("c", {"n": 2}, 2)])


def test_a_worker_that_hangs_once_is_ended_and_its_task_tried_again(place: Place, tmp_path: Path) -> None:
    put(place)
    began = time.monotonic()
    place.run(hanging(tmp_path / "hung", always=False), max_poll_interval_ms=INTERVAL_MS)
    assert (tmp_path / "hung").exists()
    assert [row.key for row in place.rows("out")] == ["a", "b", "c"]
    assert time.monotonic() - began < 60


def test_one_that_hangs_again_and_again_ends_the_application_and_the_error_says_where(
    place: Place, tmp_path: Path
) -> None:
    put(place)
    app = place.app(hanging(tmp_path / "hung", always=True), max_poll_interval_ms=INTERVAL_MS)
    error = error_of(app.run_to_end)
    assert isinstance(error, ProcessingError)
    assert error.condition == "STEP_HUNG"
    found = {"bundle": "0-0", "epoch": "0", "topic": "in", "partition": "0", "offset": "1"}
    assert found.items() <= dict(error.context).items()
    assert error.context["node"].startswith("KSTREAM-MAPVALUES")
    assert "test_watchdog.py:" in error.message
    assert "in pass_on" in error.message
    assert place.rows("out") == []
