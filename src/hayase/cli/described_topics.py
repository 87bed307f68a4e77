"""The topics of a topology as they are now: how many partitions they have, which are missing, and what does not fit."""

from __future__ import annotations

from collections.abc import Iterator

from hayase.cli.options import log_of
from hayase.compiler.build import sink_topics, source_topics
from hayase.compiler.partitions import partition_counts
from hayase.core.config import StreamsConfig
from hayase.core.errors import HayaseError
from hayase.log.embedded.store import FILES
from hayase.topology.resolve import has_patterns, resolve_patterns
from hayase.topology.topology import Topology


def described_topics(topology: Topology, config: StreamsConfig) -> Iterator[str]:
    """One line for each topic, and one for each thing that a start would refuse. Nothing is made.

    Args:
        topology: the topology.
        config: says where the topics are.
    """
    if config.embedded and not any((config.log_dir / name).exists() for name in FILES):
        return
    yield "Topics:"
    try:
        with log_of(config) as log:
            if has_patterns(topology):
                topology = resolve_patterns(topology, log.topics())
            read, written = source_topics(topology), sink_topics(topology)
            infos = log.describe(sorted({*read, *written}))
    except HayaseError as error:
        yield f"  not known: {error}"
        return
    own = topology.internal_topics
    made = {*own, *_of_patterns(topology)}
    counts = {name: info.partitions for name, info in infos.items()}
    for name in dict.fromkeys([*read, *written]):
        use = " and ".join(word for word, names in (("read", read), ("written", written)) if name in names)
        missing = "not made yet; the first start makes it" if name in made else f"MISSING: hayase topics create {name}"
        yield f"  {name}: {use}, {_shown(counts[name]) if name in counts else missing}"
    if any(name not in counts and name not in own for name in read):
        return
    try:
        internal = partition_counts(topology, {name: counts[name] for name in read if name in counts})
    except HayaseError as error:
        yield f"  DOES NOT FIT: {error}"
        return
    for name in topology.repartitions:
        yield f"  {name}: between tasks, {_shown(internal[name])}"


def _of_patterns(topology: Topology) -> Iterator[str]:
    """Topics of aggregates and sagas, which have settings of their own: the start makes them, not the user."""
    from hayase.patterns.event_sourced import EventSourced
    from hayase.patterns.relations import aggregates_of, sagas_of

    for aggregate in aggregates_of(topology).values():
        if isinstance(aggregate, EventSourced):
            yield from aggregate.topics
    for saga in sagas_of(topology).values():
        yield from saga.topics


def _shown(partitions: int) -> str:
    return f"{partitions} partition{'s' if partitions != 1 else ''}"
