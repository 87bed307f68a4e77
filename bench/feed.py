"""Records at a steady rate into topics of a broker, what comes out of others, and how long that took."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
from confluent_kafka import Consumer, Message, Producer, TopicPartition

from bench.data import make_orders

_TICK_S = 0.005
_POLL_S = 0.02
_FLUSH_S = 30.0
_ORDERS = 100_000


def endless_orders(users: int, seed: int) -> Iterator[tuple[str, str]]:
    """Key and value of one order after the other."""
    while True:
        yield from ((key, value) for key, value, _ in make_orders(_ORDERS, users=users, seed=seed).records())
        seed += 1


class Feeder:
    """Writes records at a steady rate, each with the time at which it is handed to the client. A context manager.

    When a record is written within its interval is random: records that come at intervals of an application's own
    would all meet it at the same moment of its epoch.

    Args:
        bootstrap: address of the broker.
        records: topic, key and value of each.
        rate: records per second.
    """

    def __init__(self, bootstrap: str, records: Iterator[tuple[str, str, str]], rate: float) -> None:
        self._records = records
        self._rate = rate
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._feed, name="feeder", daemon=True)
        self._settings = {
            "bootstrap.servers": bootstrap,
            "partitioner": "murmur2_random",
            "linger.ms": 0,
            "log_level": 3,
        }

    def __enter__(self) -> Feeder:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _feed(self) -> None:
        producer = Producer(self._settings)
        moments = random.Random(42)
        began, sent = time.monotonic(), 0
        due_s = began + moments.random() / self._rate
        while not self._stop.wait(_TICK_S):
            while due_s <= time.monotonic():
                topic, key, value = next(self._records)
                producer.produce(topic, value, key, timestamp=time.time_ns() // 1_000_000)
                sent += 1
                due_s = began + (sent + moments.random()) / self._rate
            producer.poll(0)
        producer.flush(_FLUSH_S)


class Outputs:
    """The committed records of partitions, from the beginning on; iterating gives those since the last look, endlessly.

    Args:
        bootstrap: address of the broker.
        partitions: what is looked at.
    """

    def __init__(self, bootstrap: str, partitions: Sequence[TopicPartition]) -> None:
        self._partitions = [TopicPartition(each.topic, each.partition) for each in partitions]
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "bench-latency",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
                "fetch.wait.max.ms": 20,
                "log_level": 3,
            }
        )
        self._consumer.assign([TopicPartition(each.topic, each.partition, 0) for each in partitions])

    def __iter__(self) -> Iterator[list[Message]]:
        while True:
            yield self.look()

    def look(self) -> list[Message]:
        """The records that have come since the last look; waits a little."""
        # The first record is waited for, the others are there: consume() alone would wait until it has all it may take.
        first = self._consumer.poll(_POLL_S)
        messages = [] if first is None else [first, *self._consumer.consume(10_000, timeout=0)]
        return [message for message in messages if message.error() is None]

    @contextmanager
    def resting(self) -> Iterator[None]:
        """Ask the broker for nothing meanwhile: else it answers 50 requests a second, each of all partitions."""
        self._consumer.pause(self._partitions)
        try:
            yield
        finally:
            self._consumer.resume(self._partitions)

    def close(self) -> None:
        """Let go of the broker."""
        self._consumer.close()


def percentiles(values: Sequence[float]) -> dict[str, float]:
    """p50, p90, p99 and max."""
    return {f"p{percent}": round(float(np.percentile(values, percent)), 1) for percent in (50, 90, 99)} | {
        "max": round(float(np.max(values)), 1)
    }
