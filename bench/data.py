"""The input: seeded orders as JSON, about 105 bytes each, and the users who made them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

I64 = npt.NDArray[np.int64]

REGIONS = ("eu", "us", "ap", "af")
STATUSES = ("paid", "open", "void")
CITIES = 1_000
PRODUCTS = 10_000
TIERS = 5
FIRST_TIMESTAMP_MS = 1_750_000_000_000
LATE_SHARE = 0.05
LATE_MS = 5_000
_CHUNK = 100_000


@dataclass(frozen=True, slots=True)
class Orders:
    """Orders as columns; row i is the order with id i. Numbers stand for names: user 7 is `u000007`.

    Attributes:
        user: 0 to `users` - 1, uniform.
        product: 0 to `products` - 1, uniform.
        region: index into `REGIONS`.
        amount: cents, 1 to 10,000, uniform.
        quantity: 1 to 9.
        status: index into `STATUSES`.
        timestamp_ms: a millisecond after the order before; one in twenty came up to five seconds late.
    """

    user: I64
    product: I64
    region: I64
    amount: I64
    quantity: I64
    status: I64
    timestamp_ms: I64

    def __len__(self) -> int:
        return len(self.user)

    def to_arrow(self) -> pa.Table:
        """The same with names for numbers: order_id, user, product, region, amount, quantity, status, timestamp_ms."""
        columns = {
            "order_id": pa.array(np.arange(len(self))),
            "user": pa.array(user_names(self.user)),
            "product": pa.array(product_names(self.product)),
            "region": _names(REGIONS, self.region),
            "amount": pa.array(self.amount),
            "quantity": pa.array(self.quantity),
            "status": _names(STATUSES, self.status),
            "timestamp_ms": pa.array(self.timestamp_ms),
        }
        return pa.table(columns)

    def records(self) -> Iterator[tuple[str, str, int]]:
        """Key (the user), value and timestamp of each order, in order of id."""
        for start in range(0, len(self), _CHUNK):
            rows = slice(start, start + _CHUNK)
            columns = zip(
                user_names(self.user[rows]),
                product_names(self.product[rows]),
                self.region[rows].tolist(),
                self.amount[rows].tolist(),
                self.quantity[rows].tolist(),
                self.status[rows].tolist(),
                self.timestamp_ms[rows].tolist(),
                strict=True,
            )
            for order_id, (user, product, region, amount, quantity, status, timestamp_ms) in enumerate(columns, start):
                value = (
                    f'{{"order_id":{order_id},"user":"{user}","product":"{product}","region":"{REGIONS[region]}",'
                    f'"amount":{amount},"quantity":{quantity},"status":"{STATUSES[status]}"}}'
                )
                yield user, value, timestamp_ms


@dataclass(frozen=True, slots=True)
class Users:
    """The table of users as columns; row i is user i. All of them are older than the first order.

    Attributes:
        city: 0 to `CITIES` - 1, uniform.
        tier: 0 to `TIERS` - 1, uniform.
    """

    city: I64
    tier: I64

    def __len__(self) -> int:
        return len(self.city)

    def to_arrow(self) -> pa.Table:
        """user, name, city and tier."""
        names = user_names(np.arange(len(self)))
        columns = {
            "user": pa.array(names),
            "name": pa.array([f"name of {name}" for name in names]),
            "city": pa.array([f"c{city:03d}" for city in self.city.tolist()]),
            "tier": pa.array(self.tier),
        }
        return pa.table(columns)

    def records(self) -> Iterator[tuple[str, str, int]]:
        """Key, value and timestamp of each row, in order of the user's number."""
        names = user_names(np.arange(len(self)))
        first_ms = FIRST_TIMESTAMP_MS - LATE_MS - len(self)
        rows = zip(names, self.city.tolist(), self.tier.tolist(), strict=True)
        for timestamp_ms, (name, city, tier) in enumerate(rows, first_ms):
            yield name, f'{{"user":"{name}","name":"name of {name}","city":"c{city:03d}","tier":{tier}}}', timestamp_ms


@dataclass(frozen=True, slots=True)
class Products:
    """The table of products: all of them before the first order, then each again, a few times, between the orders.

    Attributes:
        price: cents, by round and product.
        step_ms: between two rows of the later rounds.
    """

    price: I64
    step_ms: int

    def to_arrow(self) -> pa.Table:
        """Product and price, as they are in the end."""
        return pa.table({"product": pa.array(product_names(np.arange(self.price.shape[1]))), "price": self.price[-1]})

    def records(self) -> Iterator[tuple[str, str, int]]:
        """Key, value and timestamp of each row, round by round, in order of the product's number."""
        rounds, count = self.price.shape
        names = product_names(np.arange(count))
        first_ms = FIRST_TIMESTAMP_MS - LATE_MS - count
        for number in range(rounds):
            for at, (name, price) in enumerate(zip(names, self.price[number].tolist(), strict=True)):
                later_ms = FIRST_TIMESTAMP_MS + ((number - 1) * count + at + 1) * self.step_ms
                value = f'{{"product":"{name}","name":"name of {name}","price":{price}}}'
                yield name, value, later_ms if number else first_ms + at


def make_orders(records: int, *, users: int = 100_000, products: int = PRODUCTS, seed: int = 42) -> Orders:
    """Make orders that are the same for the same arguments, on every machine."""
    rng = np.random.default_rng(seed)
    return Orders(
        user=rng.integers(0, users, records),
        product=rng.integers(0, products, records),
        region=rng.integers(0, len(REGIONS), records),
        amount=rng.integers(1, 10_001, records),
        quantity=rng.integers(1, 10, records),
        status=rng.integers(0, len(STATUSES), records),
        timestamp_ms=FIRST_TIMESTAMP_MS + np.arange(records) - _lateness(records, rng),
    )


def make_users(users: int, *, seed: int = 42) -> Users:
    """Make the table of users; the same for the same arguments, on every machine."""
    rng = np.random.default_rng(seed + 1)
    return Users(city=rng.integers(0, CITIES, users), tier=rng.integers(0, TIERS, users))


def make_products(products: int, orders: int, *, rounds: int = 4, seed: int = 42) -> Products:
    """Make the table of products, later rounds spread over so many orders.

    The same for the same arguments, on every machine.
    """
    rng = np.random.default_rng(seed + 2)
    return Products(rng.integers(1, 10_001, (rounds, products)), max(1, orders // ((rounds - 1) * products)))


def user_names(numbers: I64) -> list[str]:
    """The keys of the input topic."""
    return [f"u{number:06d}" for number in numbers.tolist()]


def product_names(numbers: I64) -> list[str]:
    """The values of the field `product`."""
    return [f"p{number:05d}" for number in numbers.tolist()]


def _lateness(records: int, rng: np.random.Generator) -> I64:
    late_ms = rng.integers(1, LATE_MS + 1, records)
    return np.where(rng.random(records) < LATE_SHARE, late_ms, 0)


def _names(names: tuple[str, ...], numbers: I64) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(numbers), pa.array(names)).cast(pa.string())
