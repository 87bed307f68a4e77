"""Names that the builder made up, which change when operators are added before them (KIP-1111)."""

from __future__ import annotations

import re

from hayase.core.errors import TopologyError
from hayase.topology.topology import Topology

_GENERATED = re.compile(r"(K(STREAM|TABLE)|.*-STATE-STORE)-(.*-)?\d{10}(-store|-repartition|-topic)?")
"""Kafka Streams' prefixes and the builder's counter; a name of the user may end in digits."""


def check_explicit_names(topology: Topology) -> None:
    """Refuse a topology in which what lasts beyond a run, a store or an internal topic, has a generated name.

    Raises:
        TopologyError: `GENERATED_NAMES`, with all of them and the calls that name them.
    """
    stores = sorted(name for name in topology.stores if _GENERATED.fullmatch(name))
    topics = sorted(name for name in (*topology.repartitions, *topology.internal_topics) if _GENERATED.fullmatch(name))
    if not stores and not topics:
        return
    unnamed = [f"stores {', '.join(stores)} (Materialized.as_)"] if stores else []
    if topics:
        unnamed.append(f"repartitions {', '.join(topics)} (Grouped, Joined, Repartitioned or TableJoined with a name)")
    raise TopologyError(
        "GENERATED_NAMES",
        "ensure.explicit.internal.resource.naming is on, and these have names that change when operators are added "
        f"before them: {'; '.join(unnamed)}",
    )
