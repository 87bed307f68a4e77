"""A disk that is full for a while: the run waits, and goes on where it was when there is room."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.small_disk import fill, mounted
from tests.spark.place import Place, until
from tests.spark.topologies import amounts, expected, totals

from hayase import State, StreamsApp

pytestmark = [pytest.mark.timeout(600), pytest.mark.long]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 24 MB."""
    with mounted(tmp_path / "small", 24) as folder:
        yield folder


@pytest.mark.parametrize("full", ["state", "checkpoint"])
def test_a_run_goes_on_when_there_is_room_on_the_disk_again(
    place: Place, small_disk: Path, full: str, caplog: pytest.LogCaptureFixture
) -> None:
    place.topic("in"), place.topic("out")
    place.put("in", amounts(0, 10))
    setting = {"state": "state.dir", "checkpoint": "checkpoint.dir"}[full]
    other = {"checkpoint.dir": str(place.folder / "checkpoint")} if full == "state" else {}
    settings = {**place.settings(), **other, setting: str(small_disk / full)}
    with StreamsApp(totals(), settings) as app:
        app.start()
        until(lambda: place.last("out") == expected(10), app, 240)
        filler = fill(small_disk)
        place.put("in", amounts(10, 400))
        until(lambda: app.state is State.REBALANCING, app, 120)
        time.sleep(3)
        assert place.last("out") == expected(10)
        filler.unlink()
        until(lambda: place.last("out") == expected(400), app, 240)
    said = [line for line in caplog.messages if "the query is started again" in line]
    assert said and all("DISK_FULL" in line and str(small_disk) in line for line in said)
