"""Servers that tests of several folders share. Each is started by the first test that asks for it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import settings

from hayase.testing.kafka_broker import KafkaBroker

# Shared and slow machines are no failure; a failing example is printed so that it can be run again.
settings.register_profile("hayase", deadline=None, print_blob=True)
settings.load_profile("hayase")


@pytest.fixture(scope="session")
def broker() -> Iterator[KafkaBroker]:
    """A running Kafka broker, shared by the session: tests use topics and application ids of their own."""
    with KafkaBroker() as running:
        yield running


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--slow` for `make test-slow`."""
    parser.addoption("--slow", action="store_true", help="run the tests marked slow as well")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Without `--slow` those tests are skipped, however they were chosen."""
    if not config.getoption("--slow"):
        for item in items:
            if item.get_closest_marker("slow") is not None:
                item.add_marker(pytest.mark.skip(reason="slow: pass --slow, or make test-slow"))
