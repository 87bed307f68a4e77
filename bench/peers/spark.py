"""Plain Structured Streaming: Kafka source and sink, DataFrame functions, RocksDB state."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, TopicPartition
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from bench.peers.arguments import LARGE_AMOUNT, LINE, WORKERS, parse

_ORDER = "order_id BIGINT, user STRING, product STRING, region STRING, amount BIGINT, quantity BIGINT, status STRING"
_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_LOOK_S = 0.2


def main() -> None:
    given = parse()
    jars = ",".join(str(jar) for jar in sorted(Path(given.jars).glob("*.jar")))
    spark = (
        SparkSession.builder.master(f"local[{WORKERS}]")
        .config("spark.jars", jars)
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", WORKERS)
        .config("spark.sql.streaming.stateStore.providerClass", _ROCKSDB)
        .getOrCreate()
    )
    source = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", given.bootstrap)
        .option("subscribe", given.input)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", 500_000)
        .load()
    )
    orders = source.select(
        f.col("key").cast("string").alias("key"), f.from_json(f.col("value").cast("string"), _ORDER).alias("order")
    )
    query = (
        _topology(given.application, orders)
        .writeStream.format("kafka")
        .option("kafka.bootstrap.servers", given.bootstrap)
        .option("kafka.compression.type", "lz4")
        .option("topic", given.output)
        .option("checkpointLocation", f"{given.state_dir}/checkpoint")
        .outputMode("append" if given.application == "filter" else "update")
        .start()
    )
    signal.signal(signal.SIGTERM, lambda *_: query.stop())
    committed = _Committed(given.bootstrap, given.application_id)
    while query.isActive:
        query.awaitTermination(_LOOK_S)
        committed.take(query.lastProgress)


def _topology(application: str, orders: DataFrame) -> DataFrame:
    if application == "filter":
        kept = orders.filter(f.col("order.amount") > LARGE_AMOUNT)
        return kept.select("key", f.to_json(f.struct(*(f"order.{name}" for name in LINE))).alias("value"))
    totals = orders.groupBy("key").agg(f.count("*").alias("n"), f.sum("order.amount").alias("total"))
    return totals.select("key", f.to_json(f.struct("n", "total")).alias("value"))


class _Committed:
    """Spark keeps its offsets to itself; this puts them where the harness looks for everybody's."""

    def __init__(self, bootstrap: str, group: str) -> None:
        settings = {"bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": False, "log_level": 3}
        self._consumer = Consumer(settings)
        self._last: Any = None

    def take(self, progress: Any) -> None:
        """Commit what the last batch read, once."""
        end = None if progress is None else progress["sources"][0]["endOffset"]
        if end is None or end == self._last:
            return
        self._last = end
        topics = json.loads(end) if isinstance(end, str) else end
        offsets = [
            TopicPartition(topic, int(partition), int(offset))
            for topic, partitions in topics.items()
            for partition, offset in partitions.items()
        ]
        self._consumer.commit(offsets=offsets, asynchronous=False)


if __name__ == "__main__":
    main()
