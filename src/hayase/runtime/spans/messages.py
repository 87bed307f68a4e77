"""What slots and the planner of epochs say to each other during a span."""

from __future__ import annotations

import msgspec

from hayase.state.journal import EdgeRow


class Come(msgspec.Struct, frozen=True):
    """A slot's task is here, for the span of that epoch. An attempt that comes later takes the place of the one before."""

    slot: int
    first_epoch: int


class Step(msgspec.Struct, frozen=True):
    """What a slot is to do next: its bundles of one level, for one epoch.

    Attributes:
        record: the epoch record.
        level: of the bundles.
        rows: what bundles of lower levels sent to them.
    """

    record: bytes
    level: int
    rows: list[EdgeRow]


class Through(msgspec.Struct, frozen=True):
    """A slot has done its step.

    Attributes:
        rows: for bundles of higher levels; none if they are too large.
        summaries: of the bundles.
        too_large: the rows are more than a span carries.
    """

    epoch: int
    level: int
    rows: list[EdgeRow]
    summaries: list[bytes]
    too_large: bool = False


OVER = b""
"""Instead of a step: there is no more to do, the task may end."""
ALONE = b"alone"
"""Instead of the first step: there is no span; the task does what Spark asks it for, and ends."""


class Told(msgspec.Struct, frozen=True):
    """What the planner tells the driver of an epoch that came through in a span.

    Attributes:
        total_ms: from the beginning of its planning to the end of its last bundle.
        planning_ms: of that, what passed before its record was there.
        summaries: of all bundles.
    """

    epoch: int
    total_ms: float
    planning_ms: float
    summaries: list[bytes]
