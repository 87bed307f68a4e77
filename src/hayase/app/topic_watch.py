"""Finds topics that a pattern matches and that were made after the application has started."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable

from hayase.log.open import open_log
from hayase.log.protocol import Log, LogConfig
from hayase.topology.nodes import SourceNode
from hayase.topology.resolve import candidates
from hayase.topology.topology import Topology

_LOG = logging.getLogger("hayase.app")


class TopicWatch:
    """Lists the log's topics again and again, in a thread of its own.

    A log that does not answer is asked again next time.

    Args:
        topology: as it was given, with its patterns.
        log: where topics are.
        interval_ms: from one look to the next.
        known: topics that are read already.
        seen: called with topics that were not there at the look before, at once; what it raises makes the look count
            for nothing.
    """

    def __init__(
        self,
        topology: Topology,
        log: LogConfig,
        interval_ms: int,
        known: Iterable[str],
        seen: Callable[[Log, frozenset[str]], None],
    ) -> None:
        self._seen = seen
        self._topology = topology
        self._config = log
        self._interval_s = interval_ms / 1000
        self._known = frozenset(known)
        self._new: frozenset[str] = frozenset()
        self._ended = threading.Event()
        threading.Thread(target=self._look_until_the_end, name="hayase-topics", daemon=True).start()

    def new(self) -> frozenset[str]:
        """Topics that are not read yet, as of the last look."""
        return self._new - self._known

    def take(self, known: Iterable[str]) -> None:
        """Topics that are read now."""
        self._known = frozenset(known)

    def close(self) -> None:
        """Stop looking."""
        self._ended.set()

    def _look_until_the_end(self) -> None:
        log: Log | None = None
        try:
            while not self._ended.wait(self._interval_s):
                try:
                    log = log or open_log(self._config)
                    matching = matched(self._topology, log.topics())
                    if new := matching - self._known - self._new:
                        self._seen(log, new)
                    self._new = matching
                except Exception as error:  # in a thread it would not be seen; what is wrong, an epoch says better
                    _LOG.debug("topics were not listed: %s", error)
        finally:
            if log is not None:
                log.close()


def matched(topology: Topology, there: Iterable[str]) -> frozenset[str]:
    """The topics that the patterns of a topology match."""
    patterns = [node.pattern for node in topology.nodes if isinstance(node, SourceNode) and node.pattern is not None]
    return frozenset(
        name for name in candidates(topology, there) if any(pattern.fullmatch(name) for pattern in patterns)
    )
