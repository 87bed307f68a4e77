"""The topics of a topology as they are now: how many partitions they have, which are missing, and what does not fit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from hayase.cli.options import log_of
from hayase.compiler.build import sink_topics, source_topics
from hayase.compiler.partitions import partition_counts
from hayase.core.config import StreamsConfig
from hayase.core.errors import HayaseError
from hayase.log.embedded.store import FILES
from hayase.topology.resolve import has_patterns, resolve_patterns
from hayase.topology.topology import Topology


class DescribedTopics(NamedTuple):
    """The topics of a topology as they are now.

    Attributes:
        lines: one for each topic, and one for each thing that a start would refuse.
        missing: that a start would refuse to do without.
        unfit: what a start would refuse of their partitions; empty if they fit.
    """

    lines: list[str]
    missing: list[str] = []
    unfit: str = ""


def described_topics(topology: Topology, config: StreamsConfig) -> DescribedTopics:
    """The topics of a topology as they are now. Nothing is made.

    Args:
        topology: the topology.
        config: says where the topics are.
    """
    if config.embedded and not any((config.log_dir / name).exists() for name in FILES):
        return DescribedTopics([])
    lines = ["Topics:"]
    try:
        with log_of(config) as log:
            if has_patterns(topology):
                topology = resolve_patterns(topology, log.topics())
            read, written = source_topics(topology), sink_topics(topology)
            infos = log.describe(sorted({*read, *written}))
    except HayaseError as error:
        return DescribedTopics([*lines, f"  not known: {error}"])
    own = topology.internal_topics
    made = {*own, *_of_patterns(topology)}
    counts = {name: info.partitions for name, info in infos.items()}
    topics = list(dict.fromkeys([*read, *written]))
    for name in topics:
        use = " and ".join(word for word, names in (("read", read), ("written", written)) if name in names)
        missing = "not made yet; the first start makes it" if name in made else f"MISSING: hayase topics create {name}"
        lines.append(f"  {name}: {use}, {_shown(counts[name]) if name in counts else missing}")
    absent = [name for name in topics if name not in counts and name not in made]
    if any(name not in counts and name not in own for name in read):
        return DescribedTopics(lines, absent)
    try:
        internal = partition_counts(topology, {name: counts[name] for name in read if name in counts})
    except HayaseError as error:
        return DescribedTopics([*lines, f"  DOES NOT FIT: {error}"], absent, str(error))
    lines += [f"  {name}: between tasks, {_shown(internal[name])}" for name in topology.repartitions]
    return DescribedTopics(lines, absent)


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
