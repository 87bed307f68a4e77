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
