"""One Spark for all tests of this folder, and a place of its own for each: embedded log, state, checkpoint."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.spark.place import Place

from hayase.log.protocol import LogConfig
from hayase.testing.kafka_broker import KafkaBroker


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything in this folder needs Spark."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.spark)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory, aws_environment: None) -> Iterator[None]:
    """A session that every application finds and leaves running: starting a JVM takes longer than most tests.

    Its workers inherit the environment as it is now, with the credentials of the S3 server.
    """
    from hayase.runtime.driver.session import build_session

    session = build_session("tests", 2, {}, tmp_path_factory.mktemp("spark") / "spark.log")
    yield
    session.stop()


@pytest.fixture
def place(spark: None, tmp_path: Path) -> Iterator[Place]:
    """On an embedded log."""
    with Place(tmp_path, LogConfig("embedded", str(tmp_path / "log"), {"fsync": "false"})) as made:
        yield made


@pytest.fixture
def kafka_place(spark: None, tmp_path: Path, broker: KafkaBroker) -> Iterator[Place]:
    """On a real broker; topics get a prefix of their own."""
    with Place(tmp_path, LogConfig("kafka", broker.bootstrap_servers), prefix=f"{tmp_path.name}-") as made:
        yield made
