"""Pool of a shared runtime's slots: queues of requests, which the tasks of Spark jobs work off.

A Spark job is only where slots come from. It ends after a while, and the next one has the same queues: an epoch does
not notice. Each topology waits for its own requests alone.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from multiprocessing.connection import Connection

import msgspec

from hayase.runtime.wire.endpoints import RunEndpoints
from hayase.runtime.wire.slot_messages import JOB_ENDED, JoinPool, ReleaseTopology, TopologyResult
from hayase.runtime.wire.span_protocol import SpanListener, disconnect

_LOG = logging.getLogger("hayase.runtime")

DEATHS_MAX = 2
"""After so many worker processes that died in an epoch of a topology, the topology fails."""
TOGETHER_MAX = 32
"""A slot gets no more requests at once."""
REJOIN_TIMEOUT_S = 10.0
"""How long a slot whose task has died may be without one, before the job is ended for a new one."""
WORKING_ATTEMPTS = 2
"""So many attempts of a task work in one job. Spark fails a job whose task has failed four times; the next one returns
at once, so that the job ends well however many worker processes die."""
LAST_ATTEMPT_S = 1.0
"""So long a job goes on when the last of these attempts has joined."""
WAIT_POLL_S = 0.5
_WANTED_FOR_S = 10.0
"""A topology that has had a request within this time may have the next one at any moment."""


@dataclass(slots=True, eq=False)
class Work:
    """Requests for slots that are waited for together: one level of one epoch.

    Attributes:
        application_id: of the topology.
        requests: for each slot, encoded.
        results: of the slots that have completed.
        died: worker processes that died while they were at it.
        alone: it is sent with no others, since a process that was at several has died.
        cancelled: none waits for it any more.
        busy_s: how long the slot that needed longest was at it; waiting does not count.
    """

    application_id: str
    requests: Mapping[int, bytes]
    waiting: set[int] = field(init=False)
    results: list[TopologyResult] = field(default_factory=list)
    died: int = 0
    alone: bool = False
    cancelled: bool = False
    busy_s: float = 0.0
    done: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.waiting = set(self.requests)


@dataclass(slots=True, eq=False)
class _Slot:
    queue: deque[Work] = field(default_factory=deque)
    connection: Connection | None = None
    process: str = ""
    at_work: deque[Work] = field(default_factory=deque)
    job: int = -1
    attempts: int = 0
    served: bool = False
    missing_since: float | None = None


class SlotPool:
    """Thread-safe.

    Args:
        slots: how many there are.
        endpoints: addresses of the run.
        monotonic: the clock for intervals, in seconds.

    Attributes:
        address: where tasks join.
    """

    def __init__(self, slots: int, endpoints: RunEndpoints, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._slots = [_Slot() for _ in range(slots)]
        self._changed = [threading.Condition(self._lock) for _ in range(slots)]
        self._asked_at: dict[str, float] = {}
        self._job = -1
        self._slot_of_task: dict[int, int] = {}
        self._job_ends_at = 0.0
        self._drains = False
        self._closed = False
        self._listener = SpanListener(endpoints, slots)
        self.address = self._listener.address
        threading.Thread(target=self._listen, name="hayase-slots", daemon=True).start()

    @property
    def size(self) -> int:
        """How many slots there are."""
        return len(self._slots)

    @property
    def has_tasks(self) -> bool:
        """Whether any slot has a task."""
        with self._lock:
            return any(slot.connection is not None for slot in self._slots)

    def begin_job(self, job: int, seconds: float) -> None:
        """The tasks of that Spark job may join, and return after so many seconds, between two requests."""
        with self._lock:
            if job != self._job:
                self._slot_of_task = {}
            self._job, self._job_ends_at = job, self._monotonic() + seconds
            self._drains = False
            self._notify()

    def drain(self) -> None:
        """Have tasks return as soon as their queue is empty: others want Spark's cores, too."""
        with self._lock:
            self._drains = True
            self._notify()

    def end_job(self) -> None:
        """Have tasks return when they have completed what they are at."""
        with self._lock:
            self._job_ends_at = 0.0
            self._notify()

    def run(self, work: Work, while_waiting: Callable[[], None]) -> None:
        """Have slots work on requests; returns when all have completed, or `cancel` was called."""
        with self._lock:
            self._asked_at[work.application_id] = self._monotonic()
            for slot in work.requests:
                self._slots[slot].queue.append(work)
                self._changed[slot].notify_all()
        while not work.done.wait(WAIT_POLL_S):
            while_waiting()
            self._replace_lost()

    def others_want_slots(self, application_id: str) -> bool:
        """Whether any other topology has had requests for slots lately, so that it may wait for this one's epochs."""
        with self._lock:
            since = self._monotonic() - _WANTED_FOR_S
            lately = {other for other, asked in self._asked_at.items() if asked >= since}
            waiting = {work.application_id for slot in self._slots for work in slot.queue}
            return bool((lately | waiting) - {application_id})

    def cancel(self, application_id: str) -> None:
        """Wait no more for a topology's requests; a slot that is at one of them completes it."""
        with self._lock:
            for slot in self._slots:
                for work in (*slot.queue, *slot.at_work):
                    if work.application_id == application_id:
                        work.cancelled = True
                        work.done.set()
                slot.queue = deque(work for work in slot.queue if not work.cancelled)

    def release(self, application_id: str, timeout_s: float) -> None:
        """Have all slots that have a task close what they keep for a topology; waits for them, within limits."""
        message = msgspec.msgpack.encode(ReleaseTopology(application_id))
        with self._lock:
            self._asked_at.pop(application_id, None)
            joined = [number for number, slot in enumerate(self._slots) if slot.connection is not None]
            work = Work(application_id, dict.fromkeys(joined, message))
            for slot in joined:
                self._slots[slot].queue.append(work)
                self._changed[slot].notify_all()
        if joined:
            work.done.wait(timeout_s)

    def close(self) -> None:
        """Disconnect all tasks, whatever they do."""
        with self._lock:
            self._closed = True
            self._job_ends_at = 0.0
            connections = [slot.connection for slot in self._slots if slot.connection is not None]
            self._notify()
        self._listener.close()
        for connection in connections:
            with contextlib.suppress(OSError):
                disconnect(connection)

    def _notify(self) -> None:
        for changed in self._changed:
            changed.notify_all()

    def _replace_lost(self) -> None:
        """End the job if a slot is without a task for too long: others keep the cores that it needs."""
        with self._lock:
            now = self._monotonic()
            if any(s.missing_since is not None and now - s.missing_since > REJOIN_TIMEOUT_S for s in self._slots):
                self._job_ends_at = 0.0
                for slot in self._slots:
                    slot.missing_since = None
                self._notify()

    def _listen(self) -> None:
        while True:
            try:
                connection = self._listener.accept()
            except ConnectionError:  # the task has disconnected
                continue
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), name="hayase-slot", daemon=True).start()

    def _serve(self, connection: Connection) -> None:
        with contextlib.suppress(EOFError, OSError), connection:
            if not self._listener.authenticates(connection):
                return
            join = msgspec.msgpack.decode(connection.recv_bytes(), type=JoinPool)
            number = self._admit(join, connection)
            if number is None:
                connection.send_bytes(JOB_ENDED)
                return
            try:
                while works := self._next(number, connection):
                    connection.send_bytes(msgspec.msgpack.encode([work.requests[number] for work in works]))
                    for work in works:
                        result = msgspec.msgpack.decode(connection.recv_bytes(), type=TopologyResult)
                        self._complete(number, connection, work, result)
                connection.send_bytes(JOB_ENDED)
            finally:
                self._leave(number, connection)

    def _admit(self, join: JoinPool, connection: Connection) -> int | None:
        """The slot that the task has from now on; `None`: it is of an earlier job."""
        with self._lock:
            if self._closed or join.job != self._job or join.task not in range(len(self._slots)):
                return None
            number = self._slot_for(join)
            slot = self._slots[number]
            if slot.connection is not None:
                self._return_work(number)
            slot.attempts = slot.attempts + 1 if slot.job == join.job else 1
            works = slot.attempts <= WORKING_ATTEMPTS
            if slot.attempts >= WORKING_ATTEMPTS:
                left_s = LAST_ATTEMPT_S if works else 0.0
                self._job_ends_at = min(self._job_ends_at, self._monotonic() + left_s)
            slot.connection, slot.job, slot.served, slot.missing_since = connection, join.job, not works, None
            slot.process = join.process
            self._notify()  # slots that are idle may be waiting for a later end of the job
            return number

    def _slot_for(self, join: JoinPool) -> int:
        """The slot for a task: the one that its process had in the job before, of which it keeps states and producers.

        All attempts of a task have the same slot.
        """
        if join.task not in self._slot_of_task:
            free = sorted(set(range(len(self._slots))) - set(self._slot_of_task.values()))
            kept = [number for number in free if self._slots[number].process == join.process]
            unused = [number for number in free if not self._slots[number].process]
            choice = kept or unused or free
            self._slot_of_task[join.task] = join.task if join.task in choice else choice[0]
        return self._slot_of_task[join.task]

    def _next(self, number: int, connection: Connection) -> list[Work]:
        """What is waiting for the slot; nothing: the job has ended, or another attempt has replaced the task."""
        slot, changed = self._slots[number], self._changed[number]
        with self._lock:
            while slot.connection is connection and not self._closed:
                left_s = self._job_ends_at - self._monotonic()
                # A task that found a core only when the job was over has its turn all the same.
                if slot.queue and (left_s > 0 or not slot.served):
                    slot.served, slot.at_work = True, _taken_together(slot.queue)
                    return list(slot.at_work)
                if left_s <= 0 or self._drains:
                    return []
                changed.wait(left_s)
        return []

    def _complete(self, number: int, connection: Connection, work: Work, result: TopologyResult) -> None:
        with self._lock:
            slot = self._slots[number]
            if slot.connection is connection:
                slot.at_work.popleft()
            work.busy_s = max(work.busy_s, result.busy_s)
            if number in work.waiting:
                work.waiting.discard(number)
                work.results.append(result)
                if not work.waiting or result.error:
                    work.done.set()

    def _leave(self, number: int, connection: Connection) -> None:
        """The slot's task has returned or died."""
        with self._lock:
            slot = self._slots[number]
            if slot.connection is not connection:
                return
            slot.connection = None
            if slot.at_work:
                slot.process = ""
                slot.missing_since = self._monotonic()
                self._return_work(number)

    def _return_work(self, number: int) -> None:
        """What the task was at when it died is for the next one."""
        slot = self._slots[number]
        works, slot.at_work = slot.at_work, deque()
        for work in reversed(works):
            if work.cancelled or self._closed or number not in work.waiting:
                continue
            work.alone = True  # of several, any may be the one that ends processes
            work.died += len(works) == 1
            if work.died >= DEATHS_MAX:
                work.done.set()
            else:
                slot.queue.appendleft(work)
                self._changed[number].notify_all()


def _taken_together(queue: deque[Work]) -> deque[Work]:
    """Take the first request from a queue, with those behind it that may go with it."""
    taken = deque([queue.popleft()])
    while queue and len(taken) < TOGETHER_MAX and not taken[0].alone and not queue[0].alone:
        taken.append(queue.popleft())
    return taken
