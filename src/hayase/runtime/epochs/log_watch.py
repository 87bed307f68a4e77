"""Watch of the log for a shared runtime: one look at the ends of all partitions that any topology reads.

Topics that grow, or are gone, it sees, too, but looks for them less often. What it has seen within the last second,
topologies need not ask for themselves.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from hayase.core.errors import LogError
from hayase.core.records import TopicPartition
from hayase.log.protocol import Log, TopicInfo
from hayase.runtime.epochs.poll_pace import PollPace

_LOG = logging.getLogger("hayase.runtime")

Key = TypeVar("Key")
Value = TypeVar("Value")

_FAILED_POLL_S = 0.5
TOPICS_POLL_S = 5.0
"""So often it looks whether topics have grown, or are gone."""
_BUSY_TOPICS_POLL_S = 0.75
"""So often while anything moves, so that what it knows is never too old then."""
REST_POLL_S = 0.25
"""So often the log is looked at while no topology would do anything about what moves."""
_AHEAD_S = 0.003
"""So long before a topology begins an epoch, what it plans with is asked for."""
KNOWN_S = 1.0
"""So long what it has seen counts as known. Planners of an application ask for first offsets once a second, too."""


class Watch:
    """The part of one topology: set when one of its partitions may have moved, or `wake` was called.

    Args:
        partitions: of the topology.
        wanted: called when it is said again from when on what moves counts.

    Attributes:
        partitions: of the topology.
        wanted_s: from when on it counts, by the monotonic clock, that partitions have moved.
    """

    def __init__(self, partitions: Sequence[TopicPartition], wanted: Callable[[], None] = lambda: None) -> None:
        self.partitions = tuple(partitions)
        self.wanted_s = -math.inf
        self._wanted = wanted
        self._moved = threading.Event()

    def wake(self) -> None:
        """Have the topology look."""
        self._moved.set()

    def clear(self) -> None:
        """Forget what has moved: call it before the ends are asked for, so that nothing is missed."""
        self._moved.clear()

    def rest(self, until_s: float = math.inf) -> None:
        """Say that nothing is done about what moves until then, or until `wait` is called."""
        self.wanted_s = until_s
        if until_s != math.inf:
            self._wanted()

    def wait(self, timeout_s: float) -> bool:
        """Wait until something has moved; whether it has."""
        if self.wanted_s != -math.inf:
            self.wanted_s = -math.inf
            self._wanted()
        return self._moved.wait(timeout_s)


@dataclass(frozen=True, slots=True)
class _Ends:
    """Ends of partitions, as of one moment."""

    asked_s: float
    offsets: Mapping[TopicPartition, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Topics:
    """Topics and first offsets, as of one moment."""

    asked_s: float
    infos: Mapping[str, TopicInfo] = field(default_factory=dict)
    starts: Mapping[TopicPartition, int] = field(default_factory=dict)


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
        self._ends: Mapping[TopicPartition, int] = {}
        self._topics: Mapping[str, tuple[str, int]] = {}
        self._known_ends = _Ends(-math.inf)  # each is replaced as a whole: other threads read it
        self._known_topics = _Topics(-math.inf)
        self._wanted = threading.Event()
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name="hayase-log-watch", daemon=True)
        self._thread.start()

    def add(self, partitions: Sequence[TopicPartition]) -> Watch:
        """Watch partitions from now on."""
        watch = Watch(partitions, self._wanted.set)
        with self._lock:
            self._watches.append(watch)
        return watch

    def remove(self, watch: Watch) -> None:
        """Stop watching them, unless another topology reads them, too."""
        with self._lock:
            self._watches = [each for each in self._watches if each is not watch]

    def close(self) -> None:
        """Stop looking."""
        self._stopped = True
        self._wanted.set()
        self._thread.join(timeout=5)

    def known_ends(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int] | None:
        """Ends of the last look; `None` if it is too old, has failed, or did not include all of them."""
        known = self._known_ends
        return self._if_known(known.asked_s, known.offsets, partitions)

    def known_topics(self, topics: Iterable[str]) -> dict[str, TopicInfo] | None:
        """Those topics as last seen; `None` as `known_ends`, and if one is not there."""
        known = self._known_topics
        return self._if_known(known.asked_s, known.infos, topics)

    def known_starts(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int] | None:
        """First offsets as last seen; `None` as `known_ends`."""
        known = self._known_topics
        return self._if_known(known.asked_s, known.starts, partitions)

    def _if_known(self, asked_s: float, known: Mapping[Key, Value], wanted: Iterable[Key]) -> dict[Key, Value] | None:
        if self._monotonic() - asked_s > KNOWN_S:
            return None
        found = {key: known[key] for key in wanted if key in known}
        return found if all(key in found for key in wanted) else None

    def _run(self) -> None:
        pace = PollPace(monotonic=self._monotonic)
        pause_s = pace.pause_s
        topics_at = looked_at = self._monotonic()
        while self._pause(looked_at, pause_s):
            looked_at = self._monotonic()
            was_busy = pace.is_busy
            try:
                moved = self.look()
                due_s = _BUSY_TOPICS_POLL_S if was_busy and moved else TOPICS_POLL_S
                if self._monotonic() >= topics_at + due_s:
                    topics_at = self._monotonic()
                    self.look_at_topics()
            except LogError as error:  # each topology asks by itself, and says what is wrong
                _LOG.debug("the ends of topics are not known: %s", error)
                self._forget()
                self._wake_all()
                pause_s = _FAILED_POLL_S
                continue
            pace.looked(came=moved)
            pause_s = pace.pause_s

    def _pause(self, looked_at: float, pause_s: float) -> bool:
        """Wait until it is time to look; whether to."""
        while not self._stopped:
            self._wanted.clear()
            if (left_s := self.due_s(looked_at, pause_s) - self._monotonic()) <= 0:
                return True
            self._wanted.wait(left_s)
        return False

    def due_s(self, looked_at: float, pause_s: float) -> float:
        """When to look again after a look: later than the pause if no topology would do anything about what moves.

        That is so while all have epochs at work, or wait for the end of their commit interval.
        """
        wanted_s = min((watch.wanted_s for watch in self._all()), default=-math.inf)
        return max(looked_at + pause_s, min(wanted_s - _AHEAD_S, looked_at + REST_POLL_S))

    def look(self) -> bool:
        """Look once; wakes the topologies of which a partition has moved, and says whether any has."""
        wanted = sorted({partition for watch in self._all() for partition in watch.partitions})
        asked_s = self._monotonic()
        ends = self._log.end_offsets(wanted) if wanted else {}
        moved = {partition for partition, end in ends.items() if self._ends.get(partition, -1) != end}
        known = self._ends.keys() >= ends.keys()
        if any(ends[partition] < self._ends.get(partition, -1) for partition in moved):
            self._known_topics = _Topics(-math.inf)  # another topic of that name, perhaps
        self._ends = dict(ends)
        self._known_ends = _Ends(asked_s, self._ends)
        # Listed again behind that: a topology that is not in the list yet plans with these ends or later ones.
        for watch in self._all():
            if not moved.isdisjoint(watch.partitions):
                watch.wake()
        return bool(moved) and known

    def look_at_topics(self) -> None:
        """Look once; wakes the topologies that read a topic that has grown, is gone, or is another of that name."""
        partitions = {partition for watch in self._all() for partition in watch.partitions}
        wanted = sorted({partition.topic for partition in partitions})
        asked_s = self._monotonic()
        infos = self._log.describe(wanted) if wanted else {}
        there = sorted(p for p in partitions if p.topic in infos and p.partition < infos[p.topic].partitions)
        self._known_topics = _Topics(asked_s, infos, self._log.start_offsets(there) if there else {})
        found = {topic: (info.topic_id, info.partitions) for topic, info in infos.items()}
        changed = {topic for topic in wanted if self._topics.get(topic, found.get(topic, ())) != found.get(topic)}
        self._topics = found
        for watch in self._all():
            if any(partition.topic in changed for partition in watch.partitions):
                watch.wake()

    def _all(self) -> list[Watch]:
        with self._lock:
            return list(self._watches)

    def _forget(self) -> None:
        self._known_ends, self._known_topics = _Ends(-math.inf), _Topics(-math.inf)

    def _wake_all(self) -> None:
        for watch in self._all():
            watch.wake()
