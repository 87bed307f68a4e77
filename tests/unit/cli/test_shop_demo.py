"""Parts of the shop's demo that need no Spark: customers by HTTP, and what the databases have to hold."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest

from hayase.cli.demo.shop_customers import Customers, goods, wishes
from hayase.cli.demo.shop_databases import ShopDatabases
from hayase.cli.demo.shop_proof import Fact, Ledger
from hayase.core.errors import HayaseError


class Shop(BaseHTTPRequestHandler):
    """Answers a request only when it comes for the second time."""

    asked: ClassVar[Counter[tuple[str, str]]] = Counter()
    refuses: ClassVar[bool] = False
    lock: ClassVar[threading.Lock] = threading.Lock()

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        assert json.loads(body)
        with Shop.lock:
            name = self.path, self.headers["Idempotency-Key"]
            Shop.asked[name] += 1
            status = 400 if Shop.refuses else 200 if Shop.asked[name] == 2 else 504
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Nothing."""


@pytest.fixture
def url() -> Iterator[str]:
    Shop.asked, Shop.refuses = Counter(), False
    server = ThreadingHTTPServer(("127.0.0.1", 0), Shop)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.mark.long
def test_customers_send_each_command_under_its_id_until_it_is_answered(url: str) -> None:
    customers = Customers(f"{url}/stock", f"{url}/order", orders=4, seed=1, ended=lambda: False)
    customers.run()
    assert customers.error is None
    wanted = Counter(f"/stock/{wish.key}/{wish.type}" for wish in goods(4))
    wanted.update(f"/order/{wish.key}/{wish.type}" for wish in wishes(1, 4))
    assert Counter(path for path, _ in Shop.asked) == wanted
    assert set(Shop.asked.values()) == {2} and customers.repeated == wanted.total()


@pytest.mark.long
def test_what_is_no_command_ends_the_customers(url: str) -> None:
    Shop.refuses = True
    customers = Customers(f"{url}/stock", f"{url}/order", orders=4, seed=1, ended=lambda: False)
    customers.run()
    assert isinstance(customers.error, HayaseError) and customers.error.condition == "COMMAND_REFUSED"


def ledger_of_two_orders() -> Ledger:
    ledger = Ledger()
    for topic, key, kind, fields in [
        ("order-events", "1", "Placed", {"wish": {"cents": 7, "quantity": 2}}),
        ("stock-events", "pen", "Reserved", {"order": "1", "quantity": 2}),
        ("payment-events", "1", "Captured", {"cents": 7}),
        ("stock-events", "pen", "Sold", {"order": "1", "quantity": 2}),
        ("order-events", "1", "Shipped", {}),
        ("order-events", "2", "Placed", {"wish": {"cents": 5, "quantity": 1}}),
        ("stock-events", "pen", "Reserved", {"order": "2", "quantity": 1}),
        ("stock-events", "pen", "Released", {"order": "2", "quantity": 1}),
        ("order-events", "2", "Cancelled", {}),
    ]:
        ledger.add([Fact(topic, key, kind, fields)])
    return ledger


def test_rows_that_the_topics_do_not_have_are_found(tmp_path: Path) -> None:
    databases = ShopDatabases.open(ExitStack(), tmp_path, postgres=False)
    ledger = ledger_of_two_orders()
    assert [fault.partition(":")[0] for fault in databases.faults(ledger)] == ["read model orders", "read model goods"]
    with sqlite3.connect(databases.read_models) as connection:
        connection.execute("CREATE TABLE orders (order_id text, quantity int, cents int, state text)")
        connection.execute("CREATE TABLE goods (order_id text, quantity int, sold bool)")
        connection.execute("INSERT INTO orders VALUES ('1', 2, 7, 'shipped'), ('2', 1, 5, 'cancelled')")
        connection.execute("INSERT INTO goods VALUES ('1', 2, 1)")
    assert databases.faults(ledger) == []
    assert ledger.payment_rows() == {("1", 7)}
    with sqlite3.connect(databases.read_models) as connection:
        connection.execute("UPDATE orders SET state = 'placed' WHERE order_id = '2'")
    (fault,) = databases.faults(ledger)
    assert fault.startswith("read model orders: 2 rows are not those of the topics, such as ('2', 1, 5,")
