"""Compares an output topic with the result of a batch computation over the same orders."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping
from typing import Any

import duckdb
import msgspec
from confluent_kafka import Consumer, KafkaError, TopicPartition

from bench.data import Orders
from bench.scenarios import Scenario

Result = Mapping[Any, Any]
"""A table: key -> value. Otherwise: (key, value) -> how often."""

_SHOWN = 5
_READ_TIMEOUT_S = 60.0
_CONSUME_S = 0.5


def expected_result(scenario: Scenario, orders: Orders) -> Result:
    """What the scenario must produce, computed by DuckDB."""
    with duckdb.connect() as connection:
        connection.register("orders", orders.to_arrow())
        rows = connection.execute(scenario.expected_sql).fetchall()
    pairs = ((row[0], scenario.value_type(*row[1:])) for row in rows)
    return dict(pairs) if scenario.table else Counter(pairs)


def produced_result(scenario: Scenario, bootstrap: str, topic: str) -> Result:
    """What lies in the output topic for a `read_committed` reader.

    Raises:
        msgspec.ValidationError: a value is not of the scenario's type.
    """
    decode = msgspec.json.Decoder(scenario.value_type).decode
    if not scenario.table:
        return Counter((key.decode(), decode(value)) for key, value in _read(bootstrap, topic) if value is not None)
    table: dict[Hashable, Any] = {}
    for key, value in _read(bootstrap, topic):
        if value is None:
            table.pop(key.decode(), None)
        else:
            table[key.decode()] = decode(value)
    return table


def difference(expected: Result, produced: Result) -> str | None:
    """The first differences, or None if both are equal."""
    if expected == produced:
        return None
    keys = [key for key in expected.keys() | produced.keys() if expected.get(key) != produced.get(key)]
    shown = "; ".join(
        f"{key}: expected {expected.get(key)}, got {produced.get(key)}" for key in sorted(keys, key=str)[:_SHOWN]
    )
    return f"{len(keys)} of {len(expected)} entries differ: {shown}"


def _read(bootstrap: str, topic: str) -> Iterator[tuple[bytes, bytes | None]]:
    """All committed records of a topic, each partition in order of offsets."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "log_level": 3,
            "group.id": "bench-check",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "queued.max.messages.kbytes": 32 * 1024,
        }
    )
    try:
        partitions = consumer.list_topics(topic, timeout=30).topics[topic].partitions
        consumer.assign([TopicPartition(topic, partition, 0) for partition in partitions])
        unfinished = set(partitions)
        quiet_s = 0.0
        while unfinished:
            messages = consumer.consume(10_000, timeout=_CONSUME_S)  # waits for that many or that long
            quiet_s = 0.0 if messages else quiet_s + _CONSUME_S
            if quiet_s >= _READ_TIMEOUT_S:
                raise TimeoutError(f"no record of {topic} within {_READ_TIMEOUT_S:g} s")
            for message in messages:
                if (error := message.error()) is None:
                    yield message.key() or b"", message.value()
                elif error.code() == KafkaError._PARTITION_EOF:
                    unfinished.discard(message.partition())
                else:
                    raise RuntimeError(str(error))
    finally:
        consumer.close()
