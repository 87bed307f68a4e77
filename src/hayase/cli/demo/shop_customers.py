"""Customers of the shop: random orders for scarce goods, some with bad cards or no address, some cancelled; by HTTP."""

from __future__ import annotations

import json
import threading
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from random import Random
from typing import NamedTuple

from hayase.core.errors import HayaseError

ITEMS = ("book", "globe", "lamp", "pen")
_AT_ONCE = 10
_TIMEOUT_S = 30.0
_PAUSE_S = 0.5
_ANSWERED = (200, 409, 422)
"""Accepted, in conflict, rejected: there is nothing to repeat."""


class Wish(NamedTuple):
    """A command of a customer, or of the supplier: for which order or item, its type and its fields."""

    key: str
    type: str
    fields: dict[str, object]


def goods(orders: int) -> Iterator[Wish]:
    """The stock at first: not enough of the first item, and plenty of the last."""
    for number, item in enumerate(ITEMS, 1):
        yield Wish(item, "Restock", {"quantity": orders * number // 6 + 1})


def wishes(seed: int, orders: int) -> Iterator[Wish]:
    """Orders, and cancellations a little later."""
    random = Random(seed)
    cancellations: list[str] = []
    for number in range(1, orders + 1):
        quantity = random.randint(1, 3)
        card = random.choices(["good", "expired", "stolen"], [8, 1, 1])[0]
        address = random.choices(["Main Street 1", ""], [9, 1])[0]
        item, cents = random.choice(ITEMS), random.randint(100, 9_000) * quantity
        fields = {"item": item, "quantity": quantity, "cents": cents, "card": card, "address": address}
        yield Wish(str(number), "Place", fields)
        if random.random() < 0.15:
            cancellations.append(str(number))
        if cancellations and random.random() < 0.3:
            yield _cancel(cancellations.pop(0))
    yield from map(_cancel, cancellations)


def _cancel(order: str) -> Wish:
    return Wish(order, "Cancel", {"reason": "changed my mind"})


class Customers(threading.Thread):
    """Sends the goods, then orders and cancellations, some at a time, each until it is answered.

    Args:
        stock_url, orders_url: of the connectors that take the commands.
        orders: how many.
        seed: of what is wished.
        ended: whether to send nothing more.
    """

    def __init__(self, stock_url: str, orders_url: str, orders: int, seed: int, ended: Callable[[], bool]) -> None:
        super().__init__(name="demo-customers", daemon=True)
        self._urls = stock_url, orders_url
        self._orders, self._seed = orders, seed
        self._ended = ended
        self.repeated = 0
        """How many requests were sent again, because there was no answer."""
        self.error: Exception | None = None

    def run(self) -> None:
        """Send all of it, unless there is a request to stop."""
        try:
            stock, orders = self._urls
            with ThreadPoolExecutor(_AT_ONCE, "demo-customer") as threads:
                self._send(threads, stock, goods(self._orders))
                self._send(threads, orders, wishes(self._seed, self._orders))
        except Exception as error:  # raised again by the main thread
            self.error = error

    def _send(self, threads: ThreadPoolExecutor, url: str, sent: Iterable[Wish]) -> None:
        for _ in threads.map(lambda wish: self._send_one(url, wish), sent):
            pass

    def _send_one(self, url: str, wish: Wish) -> None:
        command_id = str(uuid.uuid4())
        while not self._ended():
            status, answer = post(f"{url}/{wish.key}/{wish.type}", wish.fields, command_id)
            if status in _ANSWERED:
                return
            if status == 400:
                raise HayaseError("COMMAND_REFUSED", f"{wish.type} for {wish.key} is no command: {answer}")
            self.repeated += 1
            time.sleep(_PAUSE_S)


def post(url: str, fields: dict[str, object], command_id: str) -> tuple[int, str]:
    """Send a command; status and text of the answer, and 0 if there is none."""
    request = urllib.request.Request(
        url,
        json.dumps(fields).encode(),
        {"Content-Type": "application/json", "Idempotency-Key": command_id, "ce-source": "/customers"},
    )
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as answer:
            return answer.status, answer.read().decode(errors="replace")
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode(errors="replace")
    except OSError as error:
        return 0, str(error)
