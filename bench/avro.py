"""Orders of twenty fields in Avro: the input and the output of `sql_avro_twenty_fields`."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import fastavro
import msgspec

from bench.data import Orders

SCHEMA = Path(__file__).parent / "kafka-streams/src/main/resources/twenty.avsc"
"""Both sides read and write by it."""
SCHEMA_ID = 1
_HEADER = b"\0" + SCHEMA_ID.to_bytes(4, "big")
_PARSED: Any = fastavro.parse_schema(msgspec.json.decode(SCHEMA.read_bytes()))
_CHUNK = 100_000
FIELDS_SQL = """
    order_id, user, product, region, amount, quantity, status, amount / 100, status = 'paid',
    (amount % 7)::INT, amount // 5, quantity * 0.25::DOUBLE, 'w' || amount % 10, quantity = 1, (quantity % 3)::INT,
    timestamp_ms, timestamp_ms + amount, region || '-' || status, CASE WHEN amount % 2 = 0 THEN 'even' END,
    amount * quantity"""
"""The fields as expressions of DuckDB over the orders."""


class Twenty(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="upper"):
    """A value of the input, and of the output."""

    order_id: int
    user_name: str
    product: str
    region: str
    amount: int
    quantity: int
    status: str
    price: float
    paid: bool
    discount: int
    tax: int
    weight: float
    warehouse: str
    gift: bool
    priority: int
    created_ms: int
    updated_ms: int
    channel: str
    note: str | None
    points: int


def avro_records(orders: Orders) -> Iterator[tuple[str, bytes, int]]:
    """Key (the user), value and timestamp of each order, in order of id."""
    names = Twenty.__struct_encode_fields__
    with duckdb.connect() as connection:
        connection.register("orders", orders.to_arrow())
        rows = connection.execute(f"SELECT {FIELDS_SQL} FROM orders ORDER BY order_id")
        while some := rows.fetchmany(_CHUNK):
            for row in some:
                out = io.BytesIO()
                out.write(_HEADER)
                fastavro.schemaless_writer(out, _PARSED, dict(zip(names, row, strict=True)))
                yield row[1], out.getvalue(), row[15]


def decode_avro(value: bytes) -> Twenty:
    """A value of the output: each side has an id of its own, and the same fields."""
    found = fastavro.schemaless_reader(io.BytesIO(value[len(_HEADER) :]), _PARSED, None)
    return msgspec.convert(found, Twenty)
