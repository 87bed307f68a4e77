"""Queues of a slot pool: what waits for a slot, which process works on it, and what that process is at."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass, field
from multiprocessing.connection import Connection

from hayase.runtime.wire.slot_messages import TopologyResult

TOGETHER_MAX = 32
"""A task that has joined gets no more requests at once."""
ROUND_BYTES_MAX = 32 << 20
"""A round takes no more than this along to a slot, but one request in any case; Spark sends at most 128 MiB."""


@dataclass(slots=True, eq=False)
class Work:
    """Requests for slots that are waited for together: one level of one epoch.

    Attributes:
        application_id: of the topology.
        requests: for each slot, encoded.
        releases: its one request has all processes release the topology, whatever their slot.
        results: of the slots that have completed.
        died: worker processes that died while they were at it.
        hung: what the watchdog of the last one that it hung in said; empty: none hung.
        alone: it is sent with no others, since a process that was at several has died.
        cancelled: none waits for it any more.
        busy_s: how long the slot that needed longest was at it; waiting does not count.
        slow_in: slots whose process it has kept for long while others waited.
        moving: slots where its bundles are given other places while they are at work.
        moved: those where they have got them, and that may refuse the request for the old ones.
        refused: those of `moving` that have done so.
    """

    application_id: str
    requests: dict[int, bytes]
    releases: bool = False
    waiting: set[int] = field(init=False)
    results: list[TopologyResult] = field(default_factory=list)
    died: int = 0
    hung: str = ""
    alone: bool = False
    cancelled: bool = False
    busy_s: float = 0.0
    slow_in: set[int] = field(default_factory=set)
    moving: set[int] = field(default_factory=set)
    moved: set[int] = field(default_factory=set)
    refused: set[int] = field(default_factory=set)
    done: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.waiting = set(self.requests)


@dataclass(slots=True, eq=False)
class PoolWorker:
    """A process that has joined: a Spark task, or a spare process.

    Attributes:
        task: whether it is a Spark task.
        machine: see `OfferSpares`.
        account: see `JoinPool`.
        batch: what it was sent last.
        sent: whether it is sent as a whole: a process that is stopped takes long to receive much.
        at_work: what of that it has not answered, and has not been withdrawn.
        current: the index in `batch` of what it is at; `None`: it publishes what is ready.
        began: when it began with that.
        own: releases, which each process has to carry out.
        detached: it is at something slow, and its queue is another process's meanwhile.
        served: it has had its turn, or is to have none.
        opened: topologies of which it has completed a request, so that it keeps what it needs of them.
    """

    connection: Connection
    task: bool
    machine: str = ""
    account: str = ""
    batch: list[Work] = field(default_factory=list)
    sent: bool = False
    at_work: deque[Work] = field(default_factory=deque)
    current: int | None = 0
    began: float = 0.0
    own: deque[Work] = field(default_factory=deque)
    detached: bool = False
    served: bool = False
    opened: set[str] = field(default_factory=set)

    def works_on(self) -> Work | None:
        """The one that it is at; `None` if that is several, or none."""
        at = self.batch[self.current] if self.current is not None and self.batch else None
        return at if at in self.at_work else None


@dataclass(slots=True, eq=False)
class SlotQueue:
    """Requests for one slot: those of all topologies, or of one that has a process of its own.

    Attributes:
        slot: the slot.
        changed: notified when there may be something to do for a process.
        application_id: of the topology that has it to itself; empty: it is the slot's.
        works: what waits.
        holder: the process that takes requests from it.
        task: Spark's task of the slot.
        process: of that task, or of the last one; empty: there was none, or it has died.
        opened: see `PoolWorker`, of that process.
        job, attempts: of that task.
        missing_since: since when requests wait for a task that has died.
        spare_wanted_at: when a spare process was last asked for.
        spare_missing_since: since when none has come; `None`: none is wanted.
        slow_at: when a request last took long.
        removed: its topology has a process of its own no longer.
    """

    slot: int
    changed: threading.Condition
    application_id: str = ""
    works: deque[Work] = field(default_factory=deque)
    holder: PoolWorker | None = None
    task: PoolWorker | None = None
    process: str = ""
    opened: set[str] = field(default_factory=set)
    job: int = -1
    attempts: int = 0
    missing_since: float | None = None
    spare_wanted_at: float | None = None
    spare_missing_since: float | None = None
    slow_at: float = 0.0
    removed: bool = False

    def take(self) -> list[Work]:
        """Take the first request, with those behind it that may go with it."""
        taken = [self.works.popleft()]
        while self.works and len(taken) < TOGETHER_MAX and not taken[0].alone and not self.works[0].alone:
            taken.append(self.works.popleft())
        return taken

    def take_along(self) -> deque[Work]:
        """Take what a round takes along."""
        taken = deque([self.works.popleft()])
        size = len(taken[0].requests[self.slot])
        while self.works and not taken[0].alone and not self.works[0].alone:
            size += len(self.works[0].requests[self.slot])
            if size > ROUND_BYTES_MAX:
                break
            taken.append(self.works.popleft())
        return taken

    def detach(self, holder: PoolWorker, slow: Work) -> None:
        """Leave its holder to the one request that is slow; what else it was sent waits for another process."""
        self.works.extendleft(reversed([work for work in holder.at_work if work is not slow]))
        holder.at_work = deque([slow])
        holder.detached = True
        self.holder = None

    def others_wait(self, holder: PoolWorker, slow: Work) -> bool:
        """Whether requests of other topologies wait for the end of one."""
        waiting = (*self.works, *holder.at_work)
        return any(work.application_id != slow.application_id and not work.cancelled for work in waiting)
