"""An embedded log for each test, and connectors that have forgotten everything."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.connect import connectors

from hayase.log.open import open_log
from hayase.log.protocol import Log, LogConfig


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    opened = open_log(LogConfig("embedded", str(tmp_path / "log"), {"fsync": "false", "cleaner.interval.ms": "0"}))
    yield opened
    opened.close()


@pytest.fixture(autouse=True)
def forgotten() -> None:
    connectors.reset()
