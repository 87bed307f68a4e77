"""Deletes records of a program's topics that its sinks have written durably."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping

from hayase.connect.contracts import SinkPartition
from hayase.core.errors import HayaseError
from hayase.core.records import TopicPartition
from hayase.log.protocol import Log

_LOG = logging.getLogger(__name__)

Positions = Mapping[str, Mapping[SinkPartition, int]]
"""Where sinks are, by their consumer groups."""


def purge_written(log: Log, positions: Positions) -> None:
    """Delete the records before the offsets that are committed for the groups.

    For each kind of sink what is committed is complete in its target, and a restart reads nothing before it. A position
    bounds it as well, since the topic may be another one than when the offset was committed.

    Raises:
        LogError: the log could not be reached; the next call does it.
    """
    before: dict[TopicPartition, int] = {}
    for group, offsets in positions.items():
        committed = log.group_offsets(group)
        for partition, offset in offsets.items():
            where = TopicPartition(partition.topic, partition.partition)
            if where in committed:
                before[where] = min(offset, committed[where])
    if before:
        log.delete_records(before)


class PurgeThread:
    """Deletes such records again and again, until `close`.

    Args:
        open_log: a log for the thread alone.
        close_log: lets go of it.
        positions: asked for each time.
        interval_ms: between two times.
    """

    def __init__(
        self,
        open_log: Callable[[], Log],
        close_log: Callable[[Log], None],
        positions: Callable[[], Positions],
        interval_ms: int,
    ) -> None:
        self._open_log, self._close_log = open_log, close_log
        self._positions = positions
        self._interval_s = interval_ms / 1000
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="connector-purge", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End."""
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        log = self._open_log()
        try:
            while not self._ended.wait(self._interval_s):
                try:
                    purge_written(log, self._positions())
                except Exception as error:  # the next time does it; without this thread topics grow without end
                    unexpected = not isinstance(error, HayaseError)
                    _LOG.warning("topics of connectors were not purged: %s", error, exc_info=unexpected)
        finally:
            self._close_log(log)
