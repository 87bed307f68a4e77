"""Connectors as sources and sinks of a program, joined to the topology by internal topics."""

from __future__ import annotations

import json
from collections.abc import Mapping

import polars as pl

from hayase.core.call_site import users_line
from hayase.core.errors import TopologyError
from hayase.core.names import check_name
from hayase.dsl.graph import Graph
from hayase.dsl.inference import infer, visible_columns
from hayase.dsl.options.options import Consumed, Produced
from hayase.dsl.stream_state import StreamState
from hayase.topology.nodes import ProgramConnector, SinkNode, SourceNode

FROM_SUFFIX = "-from-connector"
TO_SUFFIX = "-to-connector"
_OF_THE_PROGRAM = ("name", "topics", "topics.regex")


def connector_source(
    graph: Graph,
    name: str,
    config: Mapping[str, object],
    options: Consumed[object, object],
    partitions: int | None,
) -> SourceNode:
    """See `StreamsBuilder.from_connector`; the node that reads the internal topic."""
    if partitions is not None and (isinstance(partitions, bool) or not isinstance(partitions, int) or partitions < 1):
        raise TopologyError("INVALID_PARTITIONS", f"a topic has 1 partition or more, not {partitions!r}")
    if options.reset is not None:
        raise TopologyError(
            "INVALID_OPTION",
            f"from_connector {name!r} is read from its beginning; where a connector begins is a setting of its own",
        )
    topic = f"{check_name(name)}{FROM_SUFFIX}"
    graph.connector(ProgramConnector(name, topic, _texts(name, config), source=True, line=users_line()), partitions)
    return graph.stream_source((topic,), graph.names.name_or_next(options.name, "KSTREAM-SOURCE-"), options)


def connector_sink(
    state: StreamState, name: str, config: Mapping[str, object], options: Produced[object, object]
) -> None:
    """See `KStream.to_connector`."""
    if isinstance(options.partitioner, pl.Expr):
        infer(options.partitioner, visible_columns(state.key, state.value), "the partitioner")
    topic = f"{check_name(name)}{TO_SUFFIX}"
    graph = state.graph
    graph.connector(ProgramConnector(name, topic, _texts(name, config), source=False, line=users_line()), None)
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


def _texts(name: str, config: Mapping[str, object]) -> dict[str, str]:
    """The configuration as Kafka Connect has it: texts; numbers, booleans and objects are written as JSON."""
    if not isinstance(config, Mapping) or not all(isinstance(key, str) for key in config):
        raise TopologyError("INVALID_OPTION", f"the configuration of a connector is a dict of texts, not {config!r}")
    if "connector.class" not in config:
        raise TopologyError("INVALID_OPTION", f"the configuration of the connector {name!r} names no connector.class")
    for key in _OF_THE_PROGRAM:
        if key in config:
            raise TopologyError(
                "INVALID_OPTION", f"{key} of the connector {name!r} is set by the program; leave it out"
            )
    return {key: value if isinstance(value, str) else json.dumps(value) for key, value in config.items()}
