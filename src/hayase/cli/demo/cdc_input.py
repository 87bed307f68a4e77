"""What happens in the shop of `hayase demo --cdc`: users move, prices change, orders come; the same for the same seed.

Event time goes on in steps. The changes of a step are in its first half and its orders in the second, so that an order
has the address and the prices of the changes before it if the steps are carried out one after the other.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from hayase.cli.demo.generator import (
    CITIES,
    FIRST_ORDER_MS,
    HOUR_MS,
    MINUTE_MS,
    SPAN_MS,
    STREETS,
    product_name,
    user_name,
)

STEP_MS = 30 * MINUTE_MS
"""Less than the grace of the windows, so no order is late."""
_STEPS = SPAN_MS // STEP_MS
_PRODUCTS = 24
_USERS_MAX = 2_000
_TEST_SHARE = 0.02
_SEED = 7


@dataclass(frozen=True, slots=True)
class User:
    """A version of a user, as in the table."""

    id: str
    name: str
    street: str
    city: str
    region: str
    changed_at: datetime


@dataclass(frozen=True, slots=True)
class Product:
    """A version of a product, as in the table; the price is in cents."""

    id: str
    name: str
    price: int
    changed_at: datetime


@dataclass(frozen=True, slots=True)
class Order:
    """An order, as the webhook gets it; the amount is in cents."""

    id: int
    user: str
    product: str
    quantity: int
    amount: int
    card: str
    test: bool
    at: datetime


@dataclass(frozen=True, slots=True)
class Step:
    """What happens in one step of time.

    Attributes:
        at: its start.
        users: those that have moved.
        products: whose price has changed.
        orders: that follow these changes.
    """

    at: datetime
    users: list[User]
    products: list[Product]
    orders: list[Order]


class ShopDays:
    """Three days of the shop.

    Args:
        orders: how many there are.
    """

    def __init__(self, orders: int) -> None:
        self._orders = orders
        self._random = random.Random(_SEED)
        self._users = min(max(orders // 10, 20), _USERS_MAX)
        before = _time(FIRST_ORDER_MS - HOUR_MS)
        self.users = [self._user(number, before) for number in range(self._users)]
        """As they are before the first order."""
        self.products = [self._product(number, before) for number in range(_PRODUCTS)]
        """As they are before the first order."""

    def steps(self) -> Iterator[Step]:
        """The steps in which something happens, in order."""
        prices = {product.id: product.price for product in self.products}
        for step in range(_STEPS):
            first, end = (self._orders * each // _STEPS for each in (step, step + 1))
            start_ms = FIRST_ORDER_MS + step * STEP_MS
            if first == end:
                continue
            users = [self._user(number, self._within(start_ms)) for number in self._some(self._users)]
            products = [self._product(number, self._within(start_ms)) for number in self._some(_PRODUCTS)]
            prices |= {product.id: product.price for product in products}
            times = sorted(self._within(start_ms + STEP_MS // 2) for _ in range(first, end))
            orders = [self._order(number, at, prices) for number, at in zip(range(first, end), times, strict=True)]
            yield Step(_time(start_ms), users, products, orders)

    def _within(self, start_ms: int) -> datetime:
        """A time in the half of a step that begins there."""
        return _time(start_ms + self._random.randrange(STEP_MS // 2))

    def _some(self, count: int) -> list[int]:
        """The numbers of those that change in a step: none to three."""
        return sorted(self._random.sample(range(count), self._random.randint(0, 3)))

    def _user(self, number: int, at: datetime) -> User:
        city, region = self._random.choice(CITIES)
        street = f"{self._random.randint(1, 200)} {self._random.choice(STREETS)}"
        return User(f"u{number:06d}", user_name(number), street, city, region, at)

    def _product(self, number: int, at: datetime) -> Product:
        return Product(f"p{number:03d}", product_name(number), self._random.randint(500, 50_000), at)

    def _order(self, number: int, at: datetime, prices: dict[str, int]) -> Order:
        product = self._random.choice(self.products).id
        quantity = self._random.randint(1, 5)
        return Order(
            id=number,
            user=f"u{self._random.randrange(self._users):06d}",
            product=product,
            quantity=quantity,
            amount=quantity * prices[product],
            card=str(self._random.randrange(4 * 10**15, 5 * 10**15)),
            test=self._random.random() < _TEST_SHARE,
            at=at,
        )


def _time(time_ms: int) -> datetime:
    return datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=time_ms)
