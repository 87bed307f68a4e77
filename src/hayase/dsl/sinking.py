"""Where a stream is written to: topics, and writers of Spark's."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, Generic

import polars as pl

from hayase.core.errors import TopologyError
from hayase.core.records import RecordContext
from hayase.core.type_variables import K, V
from hayase.dsl import functions
from hayase.dsl.inference import infer, visible_columns
from hayase.dsl.options.options import Produced
from hayase.dsl.spark import spark_sink
from hayase.dsl.stream_state import StreamState, check_option
from hayase.topology.nodes import SinkNode


class Sinking(Generic[K, V]):
    """What `KStream` has to do with sinks."""

    _state: StreamState

    def to(
        self,
        topic: str | Callable[[K, V, RecordContext], str] | pl.Expr,
        produced: Produced[K, V] | None = None,
    ) -> None:
        """Write the records to a topic, or each to a topic of its own choice; topics must exist.

        Instead of a name `topic` may be `(key, value, record_context) -> name` (Kafka Streams' `TopicNameExtractor`)
        or an expression that gives the name. A record for a topic that does not exist stops the application; a null or
        empty name is a processing error.

        Serdes that `produced` does not give are those of the stream; after a mapping the settings
        `default.key.serde` and `default.value.serde`, and without these each value is written by its type.

        Example:
            orders.to(lambda key, order, record_context: f"orders-{order['region']}")
        """
        options, state = check_option(produced, Produced, "to"), self._state
        fixed, extractor = (topic, None) if isinstance(topic, str) else (None, functions.topic_extractor(topic))
        if fixed == "":
            raise TopologyError("INVALID_TOPIC", "to takes the name of a topic, which must not be empty")
        if isinstance(extractor, pl.Expr):
            infer(extractor, visible_columns(state.key, state.value), "to")
        if isinstance(options.partitioner, pl.Expr):
            infer(options.partitioner, visible_columns(state.key, state.value), "the partitioner")
        state.graph.sink(
            SinkNode(
                state.graph.names.name_or_next(options.name, "KSTREAM-SINK-"),
                (state.node,),
                fixed,
                options.key_serde or state.key.serde,
                options.value_serde or state.value.serde,
                extractor,
                options.partitioner,
            )
        )

    def to_spark(
        self,
        name: str,
        write: Callable[[Any, int], Any],
        produced: Produced[K, V] | None = None,
        *,
        interval: timedelta = timedelta(seconds=1),
        max_records: int = 1_000_000,
    ) -> None:
        """Hand the records to any writer of Spark's (Parquet, Delta, Iceberg, JDBC), in numbered ranges.

        The records go to the internal topic `<application.id>-<name>-to-spark`. A thread of the application takes
        ranges of it, 0, 1, 2, …, one after the other, and calls `write(frame, number)` for each with an ordinary (not
        streaming) DataFrame. What range n covers is recorded before it is written; after a failure or crash the same
        records are written again under the same number. So the writer is what decides: one that takes a number only
        once (Delta's `txnVersion`, a folder or partition n that is overwritten, a table of numbers in the same JDBC
        transaction) gets every record exactly once, any other at least once. A number is never used for other records
        while the checkpoint lives.

        Columns: `key` and `value` (where the serde has a schema: its type, a struct for records of fields; else
        binary), `timestamp` (timestamp), `partition` (int), `offset` (bigint), `headers`
        (`array<struct<key:string,value:binary>>`). Rows of a partition are in the order of their offsets. A null value,
        a delete, is a null. The frame reads the topic each time it is used; it must not be used after `write` returned.
        `frame.sparkSession` has the time zone UTC.

        `run_to_end` and `close` wait for the write at work; `run_to_end` writes everything. In the test driver
        `create_output_topic(name, …)` reads it.

        Args:
            name: of the sink; its progress is kept under it.
            write: `(frame, number)`; what it raises fails the application, or has the range tried again
                (`set_uncaught_exception_handler`).
            produced: serdes and partitioner of the internal topic, and the name of the node.
            interval: from the beginning of a write to that of the next, at least.
            max_records: of one range.

        Raises:
            TopologyError: the name is taken, or an argument is not allowed. When the application starts:
                `INVALID_SPARK_FRAME` if the serde's schema has a type that Spark does not have.

        Example:
            totals.to_spark("totals", lambda frame, n: frame.write.mode("overwrite").parquet(f"totals/n={n}"))
        """
        spark_sink(self._state, name, write, check_option(produced, Produced, "to_spark"), interval, max_records)
