"""Messages between the tasks of a span and the epoch planner."""

from __future__ import annotations

import msgspec

from hayase.state.delta.journal import EdgeRow


class JoinSpan(msgspec.Struct, frozen=True):
    """Request of a slot's task to join the span that begins with an epoch.

    A later attempt of the slot replaces the earlier one.
    """

    slot: int
    first_epoch: int


class LevelRequest(msgspec.Struct, frozen=True):
    """Work for a slot: its bundles of one level, for one epoch.

    Attributes:
        record: the epoch record.
        level: of the bundles.
        rows: rows that bundles of lower levels sent to these bundles.
    """

    record: bytes
    level: int
    rows: list[EdgeRow]


class LevelResult(msgspec.Struct, frozen=True):
    """Result of a LevelRequest.

    Attributes:
        rows: rows for bundles of higher levels; empty if `too_large`.
        summaries: of the bundles.
        too_large: the rows exceed what a span carries.
    """

    epoch: int
    level: int
    rows: list[EdgeRow]
    summaries: list[bytes]
    too_large: bool = False


SPAN_ENDED = b""
"""Sent instead of a LevelRequest: the span has ended, the task returns."""
NO_SPAN = b"alone"
"""Sent instead of the first LevelRequest: there is no span, the task runs only the epoch that Spark asked for."""


class EpochReport(msgspec.Struct, frozen=True):
    """Report of the planner to the driver about an epoch that a span has completed.

    Attributes:
        total_ms: time from the start of planning to the end of the last bundle.
        planning_ms: the part of it before the epoch record existed.
        summaries: summaries of all bundles.
    """

    epoch: int
    total_ms: float
    planning_ms: float
    summaries: list[bytes]
