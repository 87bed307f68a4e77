"""What the shop shows: rows of a database that follow the events of orders and of the stock.

`hayase read-models run examples/shop/read_models.py` fills them. `SHOP_DATABASE` says where: a URL of PostgreSQL, or a
file of SQLite.
"""

import os
from dataclasses import dataclass

from orders import Cancelled, Placed, Shipped, order, topology
from stock import Released, Reserved, Sold, stock

from hayase.patterns import Delete, PostgresTable, ReadModel, RecordedEvent, SqliteTable, Upsert

DATABASE = os.environ.get("SHOP_DATABASE", "shop.db")
__all__ = ["models", "topology"]  # the program that the read models belong to


@dataclass
class OrderRow:
    """How far an order is."""

    order_id: str
    item: str | None
    quantity: int = 0
    cents: int = 0
    state: str | None = None


@dataclass
class GoodsRow:
    """What is reserved for an order, or sold."""

    order_id: str
    item: str | None
    quantity: int = 0
    sold: bool = False


def order_row(recorded: RecordedEvent) -> OrderRow | Upsert | None:
    match recorded.event:
        case Placed(wish):
            return OrderRow(recorded.aggregate_id, wish.item, wish.quantity, wish.cents, "placed")
        case Cancelled():
            return Upsert(order_id=recorded.aggregate_id, state="cancelled")
        case Shipped():
            return Upsert(order_id=recorded.aggregate_id, state="shipped")
    return None


def goods_row(recorded: RecordedEvent) -> GoodsRow | Upsert | Delete | None:
    match recorded.event:
        case Reserved(order, quantity):
            return GoodsRow(order, recorded.aggregate_id, quantity)
        case Released(order):
            return Delete(order_id=order)
        case Sold(order):
            return Upsert(order_id=order, sold=True)
    return None


def table(row: type) -> PostgresTable | SqliteTable:
    kind = PostgresTable if DATABASE.startswith("postgresql:") else SqliteTable
    return kind(row, "order_id", DATABASE)


models = [
    ReadModel("orders", order, order_row, table(OrderRow)),
    ReadModel("goods", stock, goods_row, table(GoodsRow)),
]
