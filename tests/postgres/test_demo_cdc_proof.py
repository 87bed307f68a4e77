"""The proof of `hayase demo --cdc`: it finds what is missing, and what is wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hayase.cli.demo.cdc_input import Order, ShopDays
from hayase.cli.demo.cdc_proof import prove
from hayase.cli.demo.cdc_shop import fill, update
from hayase.cli.demo.example import example_file
from hayase.testing.postgres_server import PostgresServer

pytestmark = pytest.mark.postgres


def _orders_and_their_sales(
    database: psycopg.Connection[Any], days: ShopDays, enriched: Path
) -> tuple[list[Order], list[str]]:
    """Carry out the days, and write what the application would."""
    database.execute(example_file("cdc/shop.sql").read_text("utf-8"))
    fill(database, "users", days.users)
    fill(database, "products", days.products)
    users = {user.id: user for user in days.users}
    names = {product.id: product.name for product in days.products}
    accepted: list[Order] = []
    rows: list[dict[str, object]] = []
    for step in days.steps():
        for user in step.users:
            update(database, "users", user)
            users[user.id] = user
        for product in step.products:
            update(database, "products", product)
        accepted += step.orders
        for order in step.orders:
            if not order.test:
                user, card = users[order.user], f"**** {order.card[-4:]}"
                named = {"id": order.id, "product": names[order.product], "quantity": order.quantity}
                address = f"{user.street}, {user.city}"
                rows.append({**named, "amount": order.amount, "card": card, "address": address, "region": user.region})
                sums = (named["product"], user.region, order.at, order.quantity, order.amount)
                database.execute(
                    "INSERT INTO sales VALUES (%s, %s, date_bin('6 hours', %s, 'epoch'), 1, %s, %s) "
                    "ON CONFLICT (product, region, window_start) DO UPDATE SET orders = sales.orders + 1, "
                    "quantity = sales.quantity + excluded.quantity, revenue = sales.revenue + excluded.revenue",
                    sums,
                )
    (enriched / "_manifests" / "enriched").mkdir(parents=True)
    (enriched / "_manifests" / "enriched" / "1.json").write_text('{"files": ["1.parquet"]}')
    pq.write_table(pa.Table.from_pylist(rows), enriched / "1.parquet")
    pq.write_table(pa.Table.from_pylist(rows[:1]), enriched / "of-no-manifest.parquet")
    return accepted, sorted({str(row["product"]) for row in rows})


def test_the_proof_holds_for_what_the_orders_make_and_not_for_a_changed_sum(
    postgres_server: PostgresServer, database: str, tmp_path: Path
) -> None:
    with postgres_server.connect(database) as connection:
        accepted, products = _orders_and_their_sales(connection, ShopDays(120), tmp_path)
    with postgres_server.connect(database) as connection:
        assert [each.equal for each in prove(connection, accepted, tmp_path)] == [True, True]
        assert len(products) > 10
    with postgres_server.connect(database) as connection:
        connection.execute("UPDATE sales SET revenue = revenue + 1 WHERE ctid = (SELECT min(ctid) FROM sales)")
        sales, enriched = prove(connection, accepted[:-1], tmp_path)
        assert not sales.equal and sales.unexpected and sales.missing
        assert len(enriched.unexpected) == 1 and not enriched.missing
        assert "unexpected (+)" in sales.lines()[0]
