"""Positions of a sink in its consumer group, as tools show them."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from hayase.connect.contracts import SinkPartition
from hayase.core.errors import LogError
from hayase.core.records import TopicPartition
from hayase.core.time import Clock
from hayase.log.protocol import Log

_LOG = logging.getLogger(__name__)


class GroupOffsets:
    """Reads and commits offsets of a group.

    Args:
        log: of the topics.
        group: its id, `connect-` and the connector's name unless configured.
        clock: for the interval.
        interval_ms: how often `show` commits (`offset.flush.interval.ms`).
    """

    def __init__(self, log: Log, group: str, clock: Clock, interval_ms: int) -> None:
        self._log = log
        self._group = group
        self._clock = clock
        self._interval_ms = interval_ms
        self._committed_ms = clock.now_ms()
        self._committed: dict[SinkPartition, int] = {}

    def load(self, partitions: Sequence[SinkPartition]) -> dict[SinkPartition, int]:
        """What is committed, of those that have an offset."""
        offsets = self._log.group_offsets(self._group)
        wanted = {each: TopicPartition(each.topic, each.partition) for each in partitions}
        return {each: offsets[where] for each, where in wanted.items() if where in offsets}

    def due(self) -> bool:
        """Whether the interval is over."""
        return self._clock.now_ms() - self._committed_ms >= self._interval_ms

    def show(self, positions: Mapping[SinkPartition, int]) -> None:
        """Commit if the interval is over; a failure is logged, since nothing depends on it."""
        if self.due():
            self.commit(positions)

    def commit(self, positions: Mapping[SinkPartition, int]) -> None:
        """Commit; a failure is logged."""
        try:
            self.commit_or_fail(positions)
        except LogError as error:
            _LOG.warning("offsets of the group %s are not committed: %s", self._group, error)

    def commit_or_fail(self, positions: Mapping[SinkPartition, int]) -> None:
        """Commit; raises LogError."""
        self._committed_ms = self._clock.now_ms()
        changed = {each: offset for each, offset in positions.items() if self._committed.get(each) != offset}
        if changed:
            self._log.commit_group_offsets(
                self._group, {TopicPartition(each.topic, each.partition): offset for each, offset in changed.items()}
            )
            self._committed |= changed
