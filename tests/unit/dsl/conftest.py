"""What tests of streams share."""

from __future__ import annotations

import pytest
from tests.unit.dsl.orders import ORDERS

from hayase.dsl import StreamsBuilder


@pytest.fixture
def builder():
    return StreamsBuilder()


@pytest.fixture
def orders(builder):
    return builder.stream("orders", ORDERS)
