"""What tests of planners and slots share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.runtime.planner_scene import Scene

from hayase.core.socket_folder import socket_folder
from hayase.runtime.epochs.slot_pool import SlotPool
from hayase.runtime.wire.endpoints import RunEndpoints


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    made = Scene(tmp_path)
    yield made
    made.close()


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[SlotPool]:
    folder = socket_folder("hayase-test-")
    opened = SlotPool(2, RunEndpoints(str(tmp_path), str(folder)))
    yield opened
    opened.close()
