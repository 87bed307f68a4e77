"""The proof of `hayase demo --cdc`: a batch computation by PostgreSQL over its own audit table.

It knows the accepted orders without their amounts, and the versions of users and products that triggers have written
down. It shares no code with capture, application and sinks.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq

from hayase.cli.demo.cdc_input import Order

if TYPE_CHECKING:
    import psycopg

Row = tuple[Any, ...]
_SHOWN = 5
_ORDERS = """
CREATE TEMP TABLE accepted (
    id bigint, user_id text, product_id text, quantity bigint, card text, test boolean, at timestamptz
);
"""
_EXPECTED = """
CREATE TEMP TABLE expected_enriched AS
SELECT o.id, p.version->>'name' AS product, o.quantity, o.quantity * (p.version->>'price')::bigint AS amount,
       '**** ' || right(o.card, 4) AS card, (u.version->>'street') || ', ' || (u.version->>'city') AS address,
       u.version->>'region' AS region, o.at
FROM accepted o
CROSS JOIN LATERAL (
    SELECT version FROM audit WHERE table_name = 'users' AND id = o.user_id AND at <= o.at ORDER BY number DESC LIMIT 1
) u
CROSS JOIN LATERAL (
    SELECT version FROM audit WHERE table_name = 'products' AND id = o.product_id AND at <= o.at
    ORDER BY number DESC LIMIT 1
) p
WHERE NOT o.test;

CREATE TEMP TABLE expected_sales AS
SELECT product, region, date_bin('6 hours', at, timestamptz '1970-01-01 00:00:00+00') AS window_start,
       count(*) AS orders, sum(quantity)::bigint AS quantity, sum(amount)::bigint AS revenue
FROM expected_enriched GROUP BY 1, 2, 3;
"""
_SALES = "SELECT product, region, window_start, orders, quantity, revenue FROM {}"
_ENRICHED = ("id", "product", "quantity", "amount", "card", "address", "region")


@dataclass(frozen=True, slots=True)
class Difference:
    """One result compared with the batch computation, as bags of rows.

    Attributes:
        name: of the result.
        rows: how many the batch computation has.
        missing: rows that it has and the result has not.
        unexpected: rows that the result has and it has not.
    """

    name: str
    rows: int
    missing: Sequence[Row]
    unexpected: Sequence[Row]

    @property
    def equal(self) -> bool:
        """Whether both have the same rows, each as often."""
        return not self.missing and not self.unexpected

    def lines(self) -> list[str]:
        """What differs, the first rows of it."""
        counts = f"{len(self.missing):,} missing (-), {len(self.unexpected):,} unexpected (+)"
        shown = [("-", row) for row in self.missing[:_SHOWN]] + [("+", row) for row in self.unexpected[:_SHOWN]]
        return [f"{self.name}, {self.rows:,} rows: {counts}", *(f"  {sign} {row}" for sign, row in shown)]


def sales_rows(database: psycopg.Connection[Any]) -> list[dict[str, Any]]:
    """The table that the sink has written, as rows to show."""
    names = ("product", "region", "window_start_ms", "orders", "quantity", "revenue")
    return [
        dict(zip(names, (product, region, round(start.timestamp() * 1000), *sums), strict=True))
        for product, region, start, *sums in database.execute(_SALES.format("sales")).fetchall()
    ]


def prove(database: psycopg.Connection[Any], accepted: Sequence[Order], enriched: Path) -> list[Difference]:
    """Compare sales in PostgreSQL, and enriched orders in Parquet, with the batch computation.

    Args:
        database: a connection with autocommit.
        accepted: orders that the webhook has answered with 200.
        enriched: the folder of the Parquet files.
    """
    database.execute(_ORDERS)
    with database.cursor() as cursor, cursor.copy("COPY accepted FROM STDIN") as copy:
        for each in accepted:
            copy.write_row((each.id, each.user, each.product, each.quantity, each.card, each.test, each.at))
    database.execute(_EXPECTED)
    columns = ", ".join(_ENRICHED)
    sales, expected_sales = (_rows(database, _SALES.format(table)) for table in ("sales", "expected_sales"))
    expected_enriched = _rows(database, f"SELECT {columns} FROM expected_enriched")
    return [
        _compared("sales in PostgreSQL", expected_sales, sales),
        _compared("enriched orders in Parquet", expected_enriched, parquet_rows(enriched)),
    ]


def _rows(database: psycopg.Connection[Any], query: str) -> list[Row]:
    return database.execute(query).fetchall()


def parquet_rows(folder: Path) -> list[Row]:
    """The rows of the files that the manifests of the sink name."""
    manifests = [json.loads(each.read_text()) for each in sorted((folder / "_manifests").rglob("*.json"))]
    files = [folder / name for manifest in manifests for name in manifest["files"]]
    return [
        tuple(row[name] for name in _ENRICHED)
        for file in files
        for batch in pq.ParquetFile(file).iter_batches()
        for row in batch.to_pylist()
    ]


def _compared(name: str, expected: Sequence[Row], actual: Sequence[Row]) -> Difference:
    wanted, found = Counter(expected), Counter(actual)
    return Difference(name, len(expected), sorted((wanted - found).elements()), sorted((found - wanted).elements()))
