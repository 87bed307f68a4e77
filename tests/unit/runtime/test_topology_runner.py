"""The runner of a topology in a shared runtime, while several threads close it."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tests.unit.runtime.planner_scene import Scene

from hayase.core.secrets import Vault
from hayase.runtime.driver.topology_runner import TopologyRunner
from hayase.runtime.wire.driver_control import DriverControl
from hayase.storage.posix_blobs import PosixBlobs


def test_a_topology_that_another_thread_has_just_closed_is_stopped(tmp_path: Path) -> None:
    app = Scene(tmp_path / "scene").app
    folder = tmp_path / "run"
    folder.mkdir(mode=0o700)
    vault = Vault()
    run: Any = SimpleNamespace(control=DriverControl(folder), vault=vault)
    shared: Any = SimpleNamespace(error=None)
    runner = TopologyRunner(run, app, PosixBlobs(tmp_path / "c", fsync=False), shared, bounded=False)
    vault.close()
    shutil.rmtree(folder)
    began = time.monotonic()
    assert runner.stop(60)
    assert time.monotonic() - began < 30
