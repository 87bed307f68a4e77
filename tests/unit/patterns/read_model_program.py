"""A program with a read model, as commands load it; `READ_MODEL_TARGET` says where its rows go."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from tests.unit.patterns.shop import Expired, Paid, Placed, order_aggregate

from hayase import StreamsBuilder
from hayase.patterns import Delete, PostgresTable, ReadModel, RecordedEvent, SqliteTable, Upsert

order = order_aggregate()


@dataclass
class OrderRow:
    """A row of an order."""

    order_id: str
    item: str | None
    cents: int | None = 0


def project(recorded: RecordedEvent[Any]) -> object:
    """The rows of an event."""
    match recorded.event:
        case Placed(item):
            return OrderRow(recorded.aggregate_id, item)
        case Paid(cents):
            return Upsert(order_id=recorded.aggregate_id, cents=cents)
        case Expired():
            return Delete(order_id=recorded.aggregate_id)


_PLACE = os.environ.get("READ_MODEL_TARGET", "shop.db")
target = (
    PostgresTable(OrderRow, "order_id", _PLACE)
    if _PLACE.startswith("postgresql:")
    else SqliteTable(OrderRow, "order_id", _PLACE)
)
orders = ReadModel("orders", order, project, target, version=int(os.environ.get("READ_MODEL_VERSION", "1")))
builder = StreamsBuilder()
order.add_to(builder)
topology = builder.build()
