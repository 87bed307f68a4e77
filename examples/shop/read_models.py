"""What the shop shows: rows of a database that follow the events of orders and of the stock.

`hayase read-models run examples/shop/read_models.py` fills `SHOP_DATABASE`: a URL of PostgreSQL, or a file of SQLite.
"""

import os

from msgspec import Struct
from orders import Cancelled, Placed, Shipped, order, topology
from stock import Released, Reserved, Sold, stock

from hayase.patterns import Delete, PostgresTable, ReadModel, RecordedEvent, SqliteTable, Upsert

__all__ = ["models", "topology"]  # the program that the read models belong to


class OrderRow(Struct):
    order_id: str
    item: str | None
    quantity: int = 0
    cents: int = 0
    state: str | None = None


class GoodsRow(Struct):
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


DATABASE = os.environ.get("SHOP_DATABASE", "shop.db")
Table = PostgresTable if DATABASE.startswith("postgresql:") else SqliteTable
models = [
    ReadModel("orders", order, order_row, Table(OrderRow, "order_id", DATABASE)),
    ReadModel("goods", stock, goods_row, Table(GoodsRow, "order_id", DATABASE)),
]
