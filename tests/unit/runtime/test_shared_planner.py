"""The planner of a shared runtime and topologies that it cannot open."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from hayase.core.errors import CheckpointError
from hayase.core.socket_folder import socket_folder
from hayase.log.protocol import LogConfig
from hayase.runtime.epochs import shared_planner
from hayase.runtime.epochs.shared_planner import SharedPlanner
from hayase.runtime.wire.driver_control import DriverControl
from hayase.runtime.wire.shared_options import SharedOptions
from hayase.runtime.wire.topology_list import ListedTopology, TopologyList

START, WAIT_S = 7, 10.0


@pytest.fixture
def planner(tmp_path: Path) -> Iterator[SharedPlanner]:
    run = tmp_path / "run"
    run.mkdir()
    sockets = str(socket_folder("hayase-test-"))
    checkpoint = str(tmp_path / "runtime")
    opened = SharedPlanner(
        SharedOptions(str(run), 1, 10.0, sockets, "", "", "", "WARNING", "runtime", checkpoint, False, 0)
    )
    yield opened
    opened.close()


@pytest.mark.parametrize("spoilt", [False, True])
def test_what_cannot_be_opened_has_failed_and_counts_as_released(
    planner: SharedPlanner, tmp_path: Path, spoilt: bool
) -> None:
    control = tmp_path / "control"
    control.mkdir()
    digest = "0" * 32
    if spoilt:
        (tmp_path / "checkpoint").write_bytes(b"no folder")
    options = {"control": str(control), "checkpoint": str(tmp_path / "checkpoint"), "fsync": "false", "digest": digest}
    TopologyList(tmp_path / "run").write({"shop": ListedTopology(options, START, bounded=False)})
    driver = DriverControl(control)
    deadline = time.monotonic() + WAIT_S
    while driver.released() < START and time.monotonic() < deadline:
        time.sleep(0.02)
    assert driver.released() == START and driver.failure()


class Loop:
    """A loop that does nothing."""

    places: ClassVar[dict[str, object]] = {}

    def __init__(self, planner: Any, *_: object, places: object, **__: object) -> None:
        self.places[planner.app.application_id] = places

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def look_for_requests(self) -> None: ...


class Places:
    """Assignments; a topology that is called `lost` gets none."""

    def __init__(self) -> None:
        self.started: list[list[str]] = []

    def place(self, topologies: Mapping[str, object], started: Sequence[str]) -> None:
        self.started.append(sorted(started))
        if "lost" in topologies:
            raise CheckpointError("RUNTIME_CHECKPOINT_MISSING", "gone")

    def of(self, application_id: str) -> dict[str, str]:
        return {"0-0": application_id}

    def close(self) -> None: ...


def test_a_topology_that_gets_no_place_fails_alone(
    planner: SharedPlanner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def opened(options: Mapping[str, str], _: object) -> tuple[Any, Any]:
        app = SimpleNamespace(application_id=options["name"], exactly_once=True, log=LogConfig("kafka", "away:1"))
        return SimpleNamespace(app=app), None

    places = Places()
    monkeypatch.setattr(planner, "_open", opened)
    monkeypatch.setattr(planner, "_open_places", lambda _: places)
    monkeypatch.setattr(shared_planner, "TopologyLoop", Loop)
    monkeypatch.setattr(shared_planner.PlacedTopology, "of", lambda app: app)
    listed, drivers = {}, {}
    for name in ("good", "lost", "other"):
        control = tmp_path / name
        control.mkdir()
        listed[name] = ListedTopology({"name": name, "control": str(control), "digest": "d"}, START, bounded=False)
        drivers[name] = DriverControl(control)
    TopologyList(tmp_path / "run").write(listed)
    deadline = time.monotonic() + WAIT_S
    while len(Loop.places) < 2 and time.monotonic() < deadline:
        time.sleep(0.02)
    assert Loop.places == {"good": {"0-0": "good"}, "other": {"0-0": "other"}}
    assert "RUNTIME_CHECKPOINT_MISSING" in (drivers["lost"].failure() or "")
    assert drivers["lost"].released() == START and drivers["good"].failure() is None
    assert places.started == [["good", "lost", "other"], ["good"], ["lost"], ["other"]]


class StoppedLoop(Loop):
    """A loop that says that it was started and stopped."""

    running: ClassVar[set[str]] = set()

    def __init__(self, planner: Any, *rest: object, **named: Any) -> None:
        super().__init__(planner, *rest, **named)
        self._name = planner.app.application_id

    def start(self) -> None:
        self.running.add(self._name)

    def stop(self) -> None:
        self.running.discard(self._name)

    def join(self, _: float) -> None: ...


def test_a_topology_whose_brokers_do_not_answer_holds_up_no_stop_of_another_and_is_not_started_once_it_is_removed(
    planner: SharedPlanner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, answer = threading.Event(), threading.Event()

    def opened(options: Mapping[str, str], _: object) -> tuple[Any, Any]:
        if options["name"] == "away":
            asked.set()
            assert answer.wait(WAIT_S)
        return SimpleNamespace(app=SimpleNamespace(application_id=options["name"], exactly_once=False)), None

    monkeypatch.setattr(planner, "_open", opened)
    monkeypatch.setattr(shared_planner, "TopologyLoop", StoppedLoop)
    entries, drivers = {}, {}
    for name in ("good", "away"):
        (tmp_path / name).mkdir()
        options = {"name": name, "control": str(tmp_path / name), "digest": "d"}
        entries[name] = ListedTopology(options, START, bounded=False)
        drivers[name] = DriverControl(tmp_path / name)
    listed = TopologyList(tmp_path / "run")
    listed.write({"good": entries["good"]})
    until(lambda: StoppedLoop.running == {"good"})
    listed.write(entries)
    assert asked.wait(WAIT_S)
    listed.write({"away": entries["away"]})
    until(lambda: drivers["good"].released() == START)
    assert StoppedLoop.running == set() and drivers["away"].released() < START
    listed.write({})
    until(lambda: not planner.begin_job(1) > 1)  # it has seen the list
    answer.set()
    until(lambda: drivers["away"].released() == START)
    assert StoppedLoop.running == set()


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)
