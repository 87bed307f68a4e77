"""The databases of the shop: read models in PostgreSQL or SQLite, and the PostgreSQL of the payment service."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hayase.cli.demo.shop_proof import Ledger
from hayase.core.errors import HayaseError
from hayase.patterns import outbox
from hayase.testing.postgres_server import PASSWORD, USER, PostgresServer

_DATABASE = "postgres"


@dataclass(frozen=True, slots=True)
class ShopDatabases:
    """Where they are.

    Attributes:
        read_models: a URL of PostgreSQL, or a file of SQLite.
        payments: a URL; `None`: payments are an application, and have no database.
        capture: how a connector reaches the database of payments.
    """

    read_models: str
    payments: str | None = None
    capture: Mapping[str, str] | None = None

    @classmethod
    def open(cls, stack: ExitStack, folder: Path, *, postgres: bool) -> ShopDatabases:
        """SQLite in the folder; or two servers of PostgreSQL, which end with the stack.

        Raises:
            MissingRequirementError: PostgreSQL cannot be downloaded.
            StorageError: it does not start.
        """
        if not postgres:
            return cls(str(folder / "shop.db"))
        import psycopg

        payments, read_models = stack.enter_context(PostgresServer()), stack.enter_context(PostgresServer())
        with psycopg.connect(_url(payments)) as connection:
            outbox.create_table(connection)  # before the connector that captures it
        return cls(_url(read_models), _url(payments), payments.connector_config(_DATABASE))

    def faults(self, ledger: Ledger) -> list[str]:
        """What rows are there and should not be, or are missing; none where a read model has no table yet."""
        wanted = [
            ("read model orders", self.read_models, "SELECT order_id, quantity, cents, state FROM orders",
             ledger.order_rows()),
            ("read model goods", self.read_models, "SELECT order_id, quantity, sold FROM goods", ledger.goods_rows()),
        ]  # fmt: skip
        if self.payments is not None:
            sql = "SELECT order_id, cents FROM payments WHERE cents <> 0"
            wanted.append(("database of payments", self.payments, sql, ledger.payment_rows()))
        found = []
        for name, place, sql, expected in wanted:
            try:
                rows = _rows(place, sql)
            except (HayaseError, sqlite3.Error) as error:
                found.append(f"{name}: {error}")
                continue
            if wrong := sorted(rows ^ expected, key=repr):
                found.append(f"{name}: {len(wrong)} rows are not those of the topics, such as {wrong[0]}")
        return found


def _url(server: PostgresServer) -> str:
    return f"postgresql://{USER}:{PASSWORD}@{server.host}:{server.port}/{_DATABASE}"


def _rows(place: str, sql: str) -> set[tuple[object, ...]]:
    if not place.startswith("postgresql:"):
        with closing(sqlite3.connect(f"file:{place}?mode=ro", uri=True)) as connection:
            return {tuple(row) for row in connection.execute(sql)}
    import psycopg

    try:
        with psycopg.connect(place) as opened:
            rows: Any = opened.execute(sql.encode())
            return {tuple(row) for row in rows}
    except psycopg.Error as error:
        raise HayaseError("DATABASE_UNREADABLE", str(error).strip()) from error
