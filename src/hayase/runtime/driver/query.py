"""The one streaming query of an application: the source runs level 0, each shuffle feeds the next level."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming.query import StreamingQuery

from hayase.runtime.source import SOURCE_NAME
from hayase.runtime.wire.shuffle_rows import SUMMARY
from hayase.runtime.wire.shuffle_schema import SPARK_SCHEMA
from hayase.runtime.worker.worker import run_level_slot

_LOG = logging.getLogger("hayase.runtime")

SUMMARIES = "summaries"
"""Name of the observation that brings the bundles' summaries back."""


def build_frame(spark: SparkSession, options: Mapping[str, str], levels: int, slots: int) -> DataFrame:
    """The streaming frame: `source → repartitionById → mapInArrow → …`, observed."""
    frame = spark.readStream.format(SOURCE_NAME).options(**options).load()
    for level in range(1, levels):
        frame = frame.repartitionById(slots, sf.col("slot")).mapInArrow(_level(dict(options), level), SPARK_SCHEMA)
    summary = sf.when(sf.col("kind") == SUMMARY, sf.col("payload"))
    return frame.observe(SUMMARIES, sf.collect_list(summary).alias(SUMMARIES))


def _level(options: Mapping[str, str], level: int) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return run_level_slot(options, level, batches)

    return run


def wake_workers(spark: SparkSession, tasks: int) -> None:
    """Start the process that Python workers are forked from, while the query is still being planned.

    It takes seconds. On a cluster every executor has one: as many tasks as there are slots reach those that are up.
    """
    try:
        spark.range(tasks, numPartitions=tasks).mapInArrow(_as_they_are, "id long").write.format("noop").mode(
            "overwrite"
        ).save()
    except Exception as error:  # Spark may be stopped meanwhile; if something is wrong, the query says it better
        _LOG.debug("workers were not started ahead: %s", error)


def _as_they_are(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


def start_query(frame: DataFrame, name: str, spark_log: str, *, interval_ms: int, bounded: bool) -> StreamingQuery:
    """Start it: to the end of the input as it is now (`bounded`), or without end."""
    writer = frame.writeStream.format("noop").queryName(name).option("checkpointLocation", spark_log)
    if bounded:
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime=f"{interval_ms} milliseconds").start()
