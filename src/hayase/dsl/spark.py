"""Streaming Spark DataFrames as sources, Spark writers as sinks.

Both are joined to the topology by internal topics.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Literal

import polars as pl

from hayase.core.errors import TopologyError
from hayase.core.names import check_name
from hayase.core.windows import to_ms
from hayase.dsl import functions
from hayase.dsl.graph import Graph
from hayase.dsl.inference import infer, visible_columns
from hayase.dsl.options.options import Consumed, Produced
from hayase.dsl.stream_state import StreamState
from hayase.topology.nodes import SinkNode, SourceNode, SparkReader, SparkSink, SparkSource, SparkWriter

FROM_SUFFIX = "-from-spark"
TO_SUFFIX = "-to-spark"
_OUTPUT_MODES = ("append", "update")


def spark_source(
    graph: Graph,
    name: str,
    frame: SparkReader,
    options: Consumed[object, object],
    partitions: int | None,
    output_mode: Literal["append", "update"],
) -> SourceNode:
    """See `StreamsBuilder.from_spark`; the node that reads the internal topic."""
    function = functions.callable_of(frame, 1, "from_spark", "(spark)")
    if output_mode not in _OUTPUT_MODES:
        raise TopologyError(
            "INVALID_OPTION", f"from_spark takes the output mode 'append' or 'update', not {output_mode!r}"
        )
    if partitions is not None and (isinstance(partitions, bool) or not isinstance(partitions, int) or partitions < 1):
        raise TopologyError("INVALID_PARTITIONS", f"a topic has 1 partition or more, not {partitions!r}")
    if options.reset is not None:
        raise TopologyError(
            "INVALID_OPTION",
            f"from_spark {name!r} is read from its beginning; where the frame begins is an option of Spark's reader, "
            "such as startingOffsets",
        )
    topic = f"{check_name(name)}{FROM_SUFFIX}"
    graph.spark_source(SparkSource(name, topic, function, output_mode), partitions)
    return graph.stream_source((topic,), graph.names.name_or_next(options.name, "KSTREAM-SOURCE-"), options)


def spark_sink(
    state: StreamState,
    name: str,
    write: SparkWriter,
    options: Produced[object, object],
    interval: timedelta,
    max_records: int,
) -> None:
    """See `KStream.to_spark`."""
    function = functions.callable_of(write, 2, "to_spark", "(frame, number)")
    if isinstance(max_records, bool) or not isinstance(max_records, int) or max_records < 1:
        raise TopologyError("INVALID_OPTION", f"to_spark takes max_records of 1 or more, not {max_records!r}")
    if isinstance(options.partitioner, pl.Expr):
        infer(options.partitioner, visible_columns(state.key, state.value), "the partitioner")
    topic = f"{check_name(name)}{TO_SUFFIX}"
    graph = state.graph
    graph.spark_sink(SparkSink(name, topic, function, to_ms("interval", interval), max_records))
    graph.sink(
        SinkNode(
            graph.names.name_or_next(options.name, "KSTREAM-SINK-"),
            (state.node,),
            topic,
            options.key_serde or state.key.serde,
            options.value_serde or state.value.serde,
            None,
            options.partitioner,
        )
    )
