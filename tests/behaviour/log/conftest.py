"""Every test of this folder runs on both implementations of the log."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hayase.log.open import open_log
from hayase.log.protocol import Log, LogConfig


@pytest.fixture(params=["embedded", pytest.param("kafka", marks=pytest.mark.kafka)])
def log_config(request: pytest.FixtureRequest, tmp_path: Path) -> LogConfig:
    """The configuration of an empty embedded log, or of the session's broker."""
    if request.param == "kafka":
        return LogConfig("kafka", request.getfixturevalue("broker").bootstrap_servers)
    return LogConfig("embedded", str(tmp_path / "log"))


@pytest.fixture
def log(log_config: LogConfig) -> Iterator[Log]:
    """An open log."""
    opened = open_log(log_config)
    yield opened
    opened.close()


@pytest.fixture
def new_name() -> Callable[[], str]:
    """Makes names that no other test uses on a shared broker."""
    return lambda: f"t-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def topic(log: Log, new_name: Callable[[], str]) -> str:
    """A topic with one partition."""
    return log.create_topic(new_name(), 1).name


@pytest.fixture
def four(log: Log, new_name: Callable[[], str]) -> str:
    """A topic with four partitions."""
    return log.create_topic(new_name(), 4).name
