"""Watch of the log for a shared runtime: one look at the ends of all partitions that any topology reads.

Topics that grow, or are gone, it sees, too, but looks for them less often.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence

from hayase.core.errors import LogError
from hayase.core.records import TopicPartition
from hayase.log.protocol import Log

_LOG = logging.getLogger("hayase.runtime")

BUSY_POLL_S = 0.01
IDLE_POLL_S = 0.05
_BUSY_S = 1.0
"""After something has moved, the log is looked at often for so long."""
_FAILED_POLL_S = 0.5
TOPICS_POLL_S = 5.0
"""So often it looks whether topics have grown, or are gone."""


class Watch:
    """The part of one topology: set when one of its partitions may have moved, or `wake` was called."""

    def __init__(self, partitions: Sequence[TopicPartition]) -> None:
        self.partitions = tuple(partitions)
        self._moved = threading.Event()

    def wake(self) -> None:
        """Have the topology look."""
        self._moved.set()

    def clear(self) -> None:
        """Forget what has moved: call it before the ends are asked for, so that nothing is missed."""
        self._moved.clear()

    def wait(self, timeout_s: float) -> bool:
        """Wait until something has moved; whether it has."""
        return self._moved.wait(timeout_s)


class LogWatch:
    """Looks at the log for all topologies, in a thread of its own: often while anything moves, else less so.

    Args:
        log: the log; used by this thread alone.
        monotonic: the clock for intervals, in seconds.
    """

    def __init__(self, log: Log, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._log = log
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._watches: list[Watch] = []
        self._ends: dict[TopicPartition, int] = {}
        self._topics: dict[str, tuple[str, int]] = {}
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="hayase-log-watch", daemon=True)
        self._thread.start()

    def add(self, partitions: Sequence[TopicPartition]) -> Watch:
        """Watch partitions from now on."""
        watch = Watch(partitions)
        with self._lock:
            self._watches.append(watch)
        return watch

    def remove(self, watch: Watch) -> None:
        """Stop watching them, unless another topology reads them, too."""
        with self._lock:
            self._watches = [each for each in self._watches if each is not watch]

    def close(self) -> None:
        """Stop looking."""
        self._stopped.set()
        self._thread.join(timeout=5)

    def _run(self) -> None:
        pause_s, moved_at = IDLE_POLL_S, self._monotonic() - _BUSY_S
        topics_at = self._monotonic() + TOPICS_POLL_S
        while not self._stopped.wait(pause_s):
            try:
                moved = self.look()
                if self._monotonic() >= topics_at:
                    topics_at = self._monotonic() + TOPICS_POLL_S
                    self.look_at_topics()
            except LogError as error:  # each topology asks by itself, and says what is wrong
                _LOG.debug("the ends of topics are not known: %s", error)
                self._wake_all()
                pause_s = _FAILED_POLL_S
                continue
            now = self._monotonic()
            moved_at = now if moved else moved_at
            pause_s = BUSY_POLL_S if now - moved_at < _BUSY_S else min(IDLE_POLL_S, pause_s + BUSY_POLL_S)

    def look(self) -> bool:
        """Look once; wakes the topologies of which a partition has moved, and says whether any has."""
        with self._lock:
            watches = list(self._watches)
        wanted = sorted({partition for watch in watches for partition in watch.partitions})
        ends = self._log.end_offsets(wanted) if wanted else {}
        moved = {partition for partition, end in ends.items() if self._ends.get(partition, -1) != end}
        known = self._ends.keys() >= ends.keys()
        self._ends = dict(ends)
        for watch in watches:
            if not moved.isdisjoint(watch.partitions):
                watch.wake()
        return bool(moved) and known

    def look_at_topics(self) -> None:
        """Look once; wakes the topologies that read a topic that has grown, is gone, or is another of that name."""
        with self._lock:
            watches = list(self._watches)
        wanted = sorted({partition.topic for watch in watches for partition in watch.partitions})
        infos = self._log.describe(wanted) if wanted else {}
        found = {topic: (info.topic_id, info.partitions) for topic, info in infos.items()}
        changed = {topic for topic in wanted if self._topics.get(topic, found.get(topic, ())) != found.get(topic)}
        self._topics = found
        for watch in watches:
            if any(partition.topic in changed for partition in watch.partitions):
                watch.wake()

    def _wake_all(self) -> None:
        with self._lock:
            watches = list(self._watches)
        for watch in watches:
            watch.wake()
