"""The demo's topics: recreated for every run, filled, and read back for the check."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pyarrow as pa

from hayase.cli.demo.generator import Shop
from hayase.core.errors import LogError
from hayase.core.records import TopicPartition
from hayase.log.protocol import EpochWriter, Log

DEAD_LETTERS = "orders-dead-letters"
INPUTS = ("orders", "users", "products")
PARTITIONS = {"orders": 4, "users": 4, "products": 1, "enriched-orders": 4, "sales": 4, DEAD_LETTERS: 1}
SQL_PARTITIONS = {**PARTITIONS, "products": 4, "addressed-orders": 4}
"""Of the job in SQL, which has no global table, and a topic between its queries."""
CDC_PARTITIONS = {name: count for name, count in PARTITIONS.items() if name != DEAD_LETTERS}
"""Of the demo with a database."""
_OURS = "hayase-demo-topics"
"""A topic whose presence says that the others were made by a demo and may be deleted by the next."""
_CHUNK = 50_000


def make_topics(log: Log, partitions: Mapping[str, int] = PARTITIONS) -> None:
    """Make the topics, empty. Those of an earlier demo are deleted.

    Args:
        log: in which.
        partitions: of each topic.

    Raises:
        LogError: `TOPIC_EXISTS`: there is a topic of one of these names that no demo has made; nothing is changed.
    """
    present = log.describe([*partitions, _OURS])
    if _OURS not in present:
        if present:
            raise LogError(
                "TOPIC_EXISTS",
                f"{', '.join(sorted(present))} exist already and were not made by the demo, which leaves them alone; "
                "give it a broker of its own, for example that of `hayase dev kafka`",
            )
        log.create_topic(_OURS, 1)
    for name, count in partitions.items():
        if name in present:
            log.delete_topic(name)
        log.create_topic(name, count)


def fill_topics(writer: EpochWriter, shop: Shop, progress: Callable[[int], None]) -> None:
    """Write users and products with their changes, then the orders; `progress` gets the number of orders written."""
    writer.append([shop.users().batch(), shop.products().batch()])
    for start in range(0, shop.orders, _CHUNK):
        count = min(_CHUNK, shop.orders - start)
        writer.append([shop.orders_from(start, count).batch()])
        progress(start + count)


def read_topic(log: Log, topic: str) -> pa.Table:
    """All records of a topic.

    Partition, offset, timestamp_ms, key, value (both binary), in order of partition and offset.

    Raises:
        UnknownTopicError: there is no such topic.
    """
    info = log.describe([topic]).get(topic)
    partitions = [TopicPartition(topic, number) for number in range(info.partitions if info else 1)]
    starts, ends = log.start_offsets(partitions), log.end_offsets(partitions)
    reader = log.reader()
    try:
        batches = [
            pa.record_batch(
                [
                    pa.array([batch.partition] * len(batch), pa.int32()),
                    pa.array(batch.offsets),
                    pa.array(batch.timestamps_ms),
                    pa.array(batch.keys, pa.binary()),
                    pa.array(batch.values, pa.binary()),
                ],
                schema=_SCHEMA,
            )
            for partition in partitions
            for batch in reader.fetch(partition, starts[partition], ends[partition])
        ]
    finally:
        reader.close()
    return pa.Table.from_batches(batches, _SCHEMA)


_SCHEMA = pa.schema(
    {
        "partition": pa.int32(),
        "offset": pa.int64(),
        "timestamp_ms": pa.int64(),
        "key": pa.binary(),
        "value": pa.binary(),
    }
)
