"""The input: seeded orders as JSON, about 105 bytes each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from confluent_kafka import Producer

REGIONS = ("eu", "us", "ap", "af")
STATUSES = ("paid", "open", "void")
FIRST_TIMESTAMP_MS = 1_750_000_000_000
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
    """

    user: npt.NDArray[np.int64]
    product: npt.NDArray[np.int64]
    region: npt.NDArray[np.int64]
    amount: npt.NDArray[np.int64]
    quantity: npt.NDArray[np.int64]
    status: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.user)

    def to_arrow(self) -> pa.Table:
        """The same with names for numbers: order_id, user, product, region, amount, quantity, status."""
        columns = {
            "order_id": pa.array(np.arange(len(self))),
            "user": pa.array(user_names(self.user)),
            "product": pa.array(product_names(self.product)),
            "region": pa.array([REGIONS[i] for i in self.region.tolist()]),
            "amount": pa.array(self.amount),
            "quantity": pa.array(self.quantity),
            "status": pa.array([STATUSES[i] for i in self.status.tolist()]),
        }
        return pa.table(columns)


def make_orders(records: int, *, users: int = 100_000, products: int = 10_000, seed: int = 42) -> Orders:
    """Make orders that are the same for the same arguments, on every machine."""
    rng = np.random.default_rng(seed)
    return Orders(
        user=rng.integers(0, users, records),
        product=rng.integers(0, products, records),
        region=rng.integers(0, len(REGIONS), records),
        amount=rng.integers(1, 10_001, records),
        quantity=rng.integers(1, 10, records),
        status=rng.integers(0, len(STATUSES), records),
    )


def user_names(numbers: npt.NDArray[np.int64]) -> list[str]:
    """The keys of the input topic."""
    return [f"u{number:06d}" for number in numbers.tolist()]


def product_names(numbers: npt.NDArray[np.int64]) -> list[str]:
    """The values of the field `product`."""
    return [f"p{number:05d}" for number in numbers.tolist()]


def load(orders: Orders, bootstrap: str, topic: str) -> None:
    """Write the orders to a topic, keyed by user and partitioned as Kafka's Java clients do.

    Timestamps rise by one millisecond per order. Returns when the broker has acknowledged all.
    """
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "log_level": 3,
            "partitioner": "murmur2_random",
            "compression.type": "lz4",
            "linger.ms": 50,
            "batch.size": 512 * 1024,
            "queue.buffering.max.messages": 1_000_000,
            "enable.idempotence": True,
        }
    )
    for timestamp, (key, value) in enumerate(_records(orders), FIRST_TIMESTAMP_MS):
        while True:
            try:
                producer.produce(topic, value, key, timestamp=timestamp)
                break
            except BufferError:
                producer.poll(0.1)
    left = producer.flush(120)
    if left:
        raise TimeoutError(f"the broker did not acknowledge {left} orders within 120 s")


def _records(orders: Orders) -> Iterator[tuple[str, str]]:
    """Keys and values of the topic, in order of id."""
    for start in range(0, len(orders), _CHUNK):
        rows = slice(start, start + _CHUNK)
        columns = zip(
            user_names(orders.user[rows]),
            product_names(orders.product[rows]),
            orders.region[rows].tolist(),
            orders.amount[rows].tolist(),
            orders.quantity[rows].tolist(),
            orders.status[rows].tolist(),
            strict=True,
        )
        for order_id, (user, product, region, amount, quantity, status) in enumerate(columns, start):
            value = (
                f'{{"order_id":{order_id},"user":"{user}","product":"{product}","region":"{REGIONS[region]}",'
                f'"amount":{amount},"quantity":{quantity},"status":"{STATUSES[status]}"}}'
            )
            yield user, value
