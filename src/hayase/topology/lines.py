"""Errors that come after the call that is to blame for them name its line all the same."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from hayase.core.errors import TopologyError
from hayase.topology.topology import Topology


@contextmanager
def naming_lines(topology: Topology) -> Iterator[None]:
    """Give a TopologyError the line that made the node or store in its context."""
    try:
        yield
    except TopologyError as error:
        named = (str(error.context.get(kind)) for kind in ("node", "store", "owner"))
        error.line = next((topology.lines[name] for name in named if name in topology.lines), error.line)
        raise
