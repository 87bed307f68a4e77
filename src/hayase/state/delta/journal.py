"""What an epoch of a bundle sends: records for topics, and rows for the next level."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from hayase.log.protocol import OutputBatch

_ROW_BYTES = 300
"""What a row costs in memory beside its payload."""


class EdgeRow(NamedTuple):
    """A row for the next level: a batch of records of one edge.

    Attributes:
        task: the id of the task it goes to.
        edge: the edge's name in the plan.
        origin: the id of the task it comes from.
        seq: its place among the rows of that origin on that edge.
        payload: an Arrow IPC stream.
    """

    task: str
    edge: str
    origin: str
    seq: int
    payload: bytes

    @property
    def size_bytes(self) -> int:
        """About how much memory it takes."""
        return len(self.payload) + _ROW_BYTES


@dataclass(slots=True)
class Journal:
    """What an epoch sends: enough to send it again without running user code.

    Attributes:
        outputs: records for topics, in order.
        rows: rows for the next level, in order.
        summary: what the bundle reports to the driver.
    """

    outputs: list[OutputBatch] = field(default_factory=list)
    rows: list[EdgeRow] = field(default_factory=list)
    summary: bytes = b""
