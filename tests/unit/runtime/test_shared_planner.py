"""The planner of a shared runtime and topologies that it cannot open."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hayase.runtime.epochs.shared_planner import SharedPlanner
from hayase.runtime.wire.driver_control import DriverControl
from hayase.runtime.wire.log_relay import socket_folder
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
