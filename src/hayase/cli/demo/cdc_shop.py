"""The shop of `hayase demo --cdc` while it runs: changes go into the database, orders to the webhook."""

from __future__ import annotations

import dataclasses
import json
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import TYPE_CHECKING, Any

from hayase.cli.demo.cdc_input import Order, Product, ShopDays, Step, User
from hayase.core.errors import LogError
from hayase.core.records import TopicPartition
from hayase.log.protocol import Log

if TYPE_CHECKING:
    import psycopg

CAPTURED: Mapping[str, type[User] | type[Product]] = {"users": User, "products": Product}
"""Tables that are captured, and topics of the same names."""
_SENDERS = 4
_SENT_TWICE_EVERY = 10
_PATIENCE_S = 120.0
_PAUSE_S = 0.02
_REFUSED_PAUSE_S = 0.2


class Shop(threading.Thread):
    """Carries out the steps one after the other.

    Args:
        days: what happens.
        database: a connection for this thread, with autocommit.
        log: where the connectors write.
        url: of the webhook.
        stopped: whether to end early.
    """

    def __init__(
        self, days: ShopDays, database: psycopg.Connection[Any], log: Log, url: str, stopped: Callable[[], bool]
    ) -> None:
        super().__init__(name="demo-shop", daemon=True)
        self._days = days
        self._database = database
        self._captured = _CapturedTables(log)
        self._url = url
        self._stopped = stopped
        self.accepted: list[Order] = []
        """Orders that the webhook has answered with 200."""
        self.repeats = 0
        """Requests that came a second time, and were recognized."""
        self.moves = 0
        """Users that have moved."""
        self.prices = 0
        """Prices that have changed."""
        self.now: datetime | None = None
        """The event time of the current step."""
        self.error: Exception | None = None
        """What ended it early."""

    def run(self) -> None:
        """Carry out all steps, unless it is stopped."""
        try:
            with ThreadPoolExecutor(_SENDERS, thread_name_prefix="demo-orders") as senders:
                self._wait_for(self._days.users, self._days.products)
                for step in self._days.steps():
                    if self._stopped():
                        return
                    self.now = step.at
                    self._change(step)
                    self.accepted += senders.map(self._send, step.orders)
        except Exception as error:  # raised again by the main thread
            self.error = error
        finally:
            self._captured.close()

    def _change(self, step: Step) -> None:
        """Commit the changes, and wait until they are in the topics: orders that follow must find them there."""
        for user in step.users:
            update(self._database, "users", user)
        for product in step.products:
            update(self._database, "products", product)
        self._wait_for(step.users, step.products)
        self.moves += len(step.users)
        self.prices += len(step.products)

    def _wait_for(self, users: Sequence[User], products: Sequence[Product]) -> None:
        wanted = {
            "users": {user.id: user.changed_at for user in users},
            "products": {product.id: product.changed_at for product in products},
        }
        deadline = time.monotonic() + _PATIENCE_S
        while not self._captured.have(wanted) and not self._stopped():
            if time.monotonic() > deadline:
                raise LogError("NOT_CAPTURED", f"changes of the database are not in its topics after {_PATIENCE_S:g} s")
            time.sleep(_PAUSE_S)

    def _send(self, order: Order) -> Order:
        """Send an order until it is accepted; some are sent again, as by a client that got no answer."""
        body = {**dataclasses.asdict(order), "at": order.at.isoformat()}
        headers = {"Content-Type": "application/json", "Idempotency-Key": f"order-{order.id}"}
        request = urllib.request.Request(self._url, json.dumps(body).encode(), headers, method="POST")
        self._ask(request)
        if order.id % _SENT_TWICE_EVERY == 0 and self._ask(request).get("repeated"):
            self.repeats += 1
        return order

    def _ask(self, request: urllib.request.Request) -> Mapping[str, Any]:
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            try:
                with urllib.request.urlopen(request, timeout=_PATIENCE_S) as answer:
                    answered: dict[str, Any] = json.loads(answer.read())
                    return answered
            except urllib.error.HTTPError as error:
                if error.code not in (429, 503) or time.monotonic() > deadline:
                    raise
            except OSError:  # the webhook is not there yet
                if time.monotonic() > deadline:
                    raise
            time.sleep(_REFUSED_PAUSE_S)


class _CapturedTables:
    """Reads the topics of the captured tables as they grow: the time of the last version of each row."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._reader = log.reader()
        infos = log.describe(list(CAPTURED))
        self._positions = {TopicPartition(name, n): 0 for name, info in infos.items() for n in range(info.partitions)}
        self._times: dict[str, dict[str, datetime]] = {name: {} for name in CAPTURED}

    def have(self, wanted: Mapping[str, Mapping[str, datetime]]) -> bool:
        """Whether the last version of each of these rows is of this time."""
        for partition, end in self._log.end_offsets(list(self._positions)).items():
            start, self._positions[partition] = self._positions[partition], end
            for batch in self._reader.fetch(partition, start, end):
                for key, value in zip(batch.keys, batch.values, strict=True):
                    changed_at = json.loads(value or b"{}")["changed_at"]
                    self._times[partition.topic][(key or b"").decode()] = datetime.fromisoformat(changed_at)
        return all(
            self._times[table].get(key) == changed_at
            for table, rows in wanted.items()
            for key, changed_at in rows.items()
        )

    def close(self) -> None:
        """Let go of the reader."""
        self._reader.close()


def fill(database: psycopg.Connection[Any], table: str, rows: Sequence[User] | Sequence[Product]) -> None:
    """Insert the first versions of rows."""
    names = [field.name for field in dataclasses.fields(CAPTURED[table])]
    with database.cursor() as cursor, cursor.copy(f"COPY {table} ({', '.join(names)}) FROM STDIN") as copy:
        for row in rows:
            copy.write_row(dataclasses.astuple(row))


def update(database: psycopg.Connection[Any], table: str, row: User | Product) -> None:
    """Write the next version of a row."""
    values = dataclasses.asdict(row)
    sets = ", ".join(f"{name} = %({name})s" for name in values if name != "id")
    database.execute(f"UPDATE {table} SET {sets} WHERE id = %(id)s", values)
