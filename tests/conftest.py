"""Servers that tests of several folders share. Each is started by the first test that asks for it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from hayase.testing.kafka_broker import KafkaBroker


@pytest.fixture(scope="session")
def broker() -> Iterator[KafkaBroker]:
    """A running Kafka broker, shared by the session: tests use topics and application ids of their own."""
    with KafkaBroker() as running:
        yield running
