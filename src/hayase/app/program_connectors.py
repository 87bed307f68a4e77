"""The connectors of an application, checked before anything is started."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hayase.compiler.compile import compile_subtopologies
from hayase.compiler.endpoints import written_serdes
from hayase.compiler.options import compile_options
from hayase.core.config import StreamsConfig
from hayase.log.config import log_config
from hayase.topology.nodes import SourceNode
from hayase.topology.topology import Topology

if TYPE_CHECKING:
    from hayase.connect.program import ProgramConnectors, Serdes


def connectors_of(topology: Topology, config: StreamsConfig) -> ProgramConnectors | None:
    """The connectors of a program; `None` if it has none.

    Args:
        topology: with the serdes of the settings.
        config: the settings.

    Raises:
        TopologyError: `INVALID_CONNECTOR`, with every error and the line.
    """
    if not topology.connectors:
        return None
    from hayase.connect.program import ProgramConnectors

    return ProgramConnectors(
        topology.connectors,
        _serdes(topology, config),
        log_config(config),
        config.application_id,
        config.repartition_purge_interval_ms,
    )


def _serdes(topology: Topology, config: StreamsConfig) -> Serdes:
    """Of keys and values of the connectors' topics."""
    compiled = compile_subtopologies(topology, compile_options(config))
    topics = {node.name: node.first_topic for node in topology.nodes if isinstance(node, SourceNode) and node.topics}
    read = {
        topics[source.name]: (source.key_serde, source.value_serde)
        for subtopology in compiled.values()
        for source in subtopology.sources
        if source.name in topics
    }
    return {
        each.topic: read[each.topic] if each.source else written_serdes(compiled, each.topic)
        for each in topology.connectors
    }
