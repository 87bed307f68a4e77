"""Pool of a shared runtime's slots: queues of requests, which the tasks of Spark jobs work off.

A Spark job is only where slots come from. It ends after a while, and the next one has the same queues: an epoch does
not notice. Each topology waits for its own requests alone. Tasks join the pool and are sent requests, or the job takes
along what waits for its slots (a round).

A request that takes long while others wait has its process to itself from then on: a spare process works for the slot
until the request is completed, and the topology gets a process of its own
(`docs/decisions/20261126-spare-processes.md`).
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from multiprocessing.connection import Connection
from pathlib import Path

import msgspec

from hayase.core.decoding import decode_msgpack
from hayase.runtime.epochs.pool_queues import SLOW_STEP_S, PoolQueues
from hayase.runtime.epochs.slot_queue import PoolWorker, SlotQueue, Work
from hayase.runtime.wire.endpoints import RunEndpoints
from hayase.runtime.wire.slot_messages import (
    JOB_ENDED,
    Begun,
    Join,
    JoinAsSpare,
    JoinPool,
    OfferSpares,
    ReleaseTopology,
    SlotHung,
    SlotReport,
    TopologyResult,
)
from hayase.runtime.wire.span_protocol import SpanListener, disconnect
from hayase.runtime.wire.step_hung import find_hung

_LOG = logging.getLogger("hayase.runtime")

DEATHS_MAX = 2
"""After so many worker processes that died in an epoch of a topology, the topology fails."""
REJOIN_TIMEOUT_S = 10.0
"""How long a slot whose task has died may be without one, before the job is ended for a new one."""
WORKING_ATTEMPTS = 2
"""So many attempts of a task work in one job. Spark fails a job whose task has failed four times; the next one returns
at once, so that the job ends well however many worker processes die."""
LAST_ATTEMPT_S = 1.0
"""So long a job goes on when the last of these attempts has joined."""
WAIT_POLL_S = 0.5
_LOOK_S = 0.2
_LOOK_OF_MANY_S = 0.5
_MANY = 8
"""If more topologies than that wait for slots, each of them looks less often whether something is wrong there."""
_SPARE_IDLE_S = 60.0
_WANTED_FOR_S = 10.0
"""A topology that has had a request within this time may have the next one at any moment."""
_RELEASE = -1
_NO_JOB = -1


class SlotPool:
    """The slots of a shared runtime: takes requests, and has the processes that join work on them. Thread-safe.

    Args:
        slots: how many there are.
        endpoints: addresses of the run.
        monotonic: the clock for intervals, in seconds.
        remove_rows: removes a file with rows of a result that is not taken, since another process has completed the
            request.

    Attributes:
        address: where tasks join.
    """

    def __init__(
        self,
        slots: int,
        endpoints: RunEndpoints,
        monotonic: Callable[[], float] = time.monotonic,
        remove_rows: Callable[[str], object] = lambda _: None,
    ) -> None:
        self._monotonic = monotonic
        self._remove_rows = remove_rows
        self._lock = threading.Lock()
        self._queues = PoolQueues(slots, self._lock, monotonic)
        self._workers: list[PoolWorker] = []
        self._asked_at: dict[str, float] = {}
        self._waiting = 0
        self._asked = threading.Condition(self._lock)
        self._job = _NO_JOB
        self._job_ends_at = 0.0
        self._slot_of_task: dict[int, int] = {}
        self._rounds = False
        self._taken_along: dict[int, deque[Work]] = {}
        self._stops = False
        self._closed = False
        self._listener = SpanListener(endpoints, slots)
        self.address = self._listener.address
        self._listener.serve(self._serve, "hayase-slot")

    @property
    def size(self) -> int:
        """How many slots there are."""
        return len(self._queues.slots)

    @property
    def has_tasks(self) -> bool:
        """Whether any slot has a task."""
        with self._lock:
            return any(queue.task is not None for queue in self._queues.slots)

    @property
    def all_joined(self) -> bool:
        """Whether a task of the last job has joined for every slot."""
        with self._lock:
            return len(self._slot_of_task) == self.size

    def begin_job(self, job: int, seconds: float) -> None:
        """The tasks of that Spark job may join, and return after so many seconds, between two requests."""
        with self._lock:
            if job != self._job:
                self._slot_of_task = {}
            self._job, self._job_ends_at = job, self._monotonic() + seconds
            self._rounds = self._stops = False
            self._queues.notify()

    def wait_for_requests(self, timeout_s: float) -> bool:
        """Wait until there are any for slots; whether there are."""
        with self._lock:
            return self._asked.wait_for(lambda: any(queue.works for queue in self._queues), timeout_s)

    def begin_round(self) -> dict[int, list[bytes]]:
        """The requests that a Spark job takes along to its slots. No task joins until the next `begin_job`.

        No topology has a process of its own meanwhile.
        """
        requests = {}
        with self._lock:
            self._job, self._job_ends_at, self._rounds = _NO_JOB, 0.0, True
            self._queues.end_all_own()
            for queue in self._queues.slots:
                if queue.task is not None:  # taken for lost, if there is one
                    self._drop(queue, queue.task)
                queue.missing_since = None
                if queue.works:
                    taken = self._taken_along[queue.slot] = queue.take_along()
                    requests[queue.slot] = [work.requests[queue.slot] for work in taken]
            self._queues.notify()
        return requests

    def complete_round(self, results: Mapping[int, Sequence[TopologyResult]]) -> None:
        """The round is over: results by slot, in the order of its requests. A slot that has none has died."""
        with self._lock:
            for slot, taken in self._taken_along.items():
                for result in results.get(slot, ()):
                    self._take_result(taken.popleft(), slot, result)
                self._put_back(self._queues.slots[slot], taken)
            self._taken_along = {}

    def end_job(self) -> None:
        """Have tasks return when they have completed what they are at."""
        with self._lock:
            self._job_ends_at, self._stops = 0.0, True
            self._queues.notify()

    def run(self, work: Work, while_waiting: Callable[[], None]) -> None:
        """Have slots work on requests; returns when all have completed, or `cancel` was called."""
        with self._lock:
            self._asked_at[work.application_id] = self._monotonic()
            for slot in work.requests:
                self._queues.put(work, slot)
            self._asked.notify_all()
            self._queues.check_slow()
            self._waiting += 1
        try:
            self._wait_for(work, while_waiting)
        finally:
            with self._lock:
                self._waiting -= 1

    def _wait_for(self, work: Work, while_waiting: Callable[[], None]) -> None:
        called, slow = self._monotonic(), 0
        while not work.done.wait(_LOOK_S if self._waiting <= _MANY else _LOOK_OF_MANY_S):
            now = self._monotonic()
            if now - called >= WAIT_POLL_S or len(work.slow_in) > slow:
                called, slow = now, len(work.slow_in)
                while_waiting()
            with self._lock:
                self._queues.check_slow()
                self._replace_lost()

    def others_want_slots(self, application_id: str) -> bool:
        """Whether any other topology has had requests for slots lately, so that it may wait for this one's epochs."""
        with self._lock:
            since = self._monotonic() - _WANTED_FOR_S
            lately = {other for other, asked in self._asked_at.items() if asked >= since}
            waiting = {work.application_id for queue in self._queues.slots for work in queue.works}
            return bool((lately | waiting) - {application_id})

    def begin_to_move(self, work: Work, slots: Collection[int]) -> None:
        """Bundles of a topology are about to get other places in some slots, which may be at work on requests."""
        with self._lock:
            work.moving |= set(slots)

    def moved(self, work: Work, requests: Mapping[int, bytes]) -> None:
        """They have got them: requests that are refused for the old ones are sent again, with the new ones."""
        with self._lock:
            work.requests |= requests
            work.moving -= requests.keys()
            work.moved |= requests.keys() - work.refused
            again, work.refused = work.refused & requests.keys(), work.refused - requests.keys()
            for slot in again:
                self._queues.put(work, slot)
            self._asked.notify_all()

    def own_slots(self, application_id: str) -> frozenset[int]:
        """The slots for which a topology has a process of its own that it has needed lately."""
        with self._lock:
            return self._queues.own_slots(application_id)

    def separate(self, application_id: str, slots: Collection[int]) -> bool:
        """See `PoolQueues.separate`; not in rounds."""
        with self._lock:
            return not self._rounds and self._queues.separate(application_id, slots)

    def rejoin(self, application_id: str, stay: Collection[int] = ()) -> None:
        """Have a topology's requests go to its slots again, except those for which its own processes stay."""
        with self._lock:
            self._queues.rejoin(application_id, stay)

    def cancel(self, application_id: str) -> None:
        """Wait no more for a topology's requests; a slot that is at one of them completes it."""
        with self._lock:
            queued = [(queue.works, queue) for queue in self._queues]
            at_work = [work for worker in self._workers for work in worker.at_work]
            at_work += [work for taken in self._taken_along.values() for work in taken]
            for work in (*(work for works, _ in queued for work in works), *at_work):
                if work.application_id == application_id and not work.releases:
                    work.cancelled = True
                    work.done.set()
            for works, queue in queued:
                queue.works = deque(work for work in works if not work.cancelled)

    def release(self, application_id: str, timeout_s: float) -> None:
        """Have all processes close what they keep for a topology; waits for them, within limits.

        Those that are at something slow do it afterwards, and are not waited for.
        """
        message = msgspec.msgpack.encode(ReleaseTopology(application_id))
        with self._lock:
            self._asked_at.pop(application_id, None)
            work = Work(application_id, {_RELEASE: message}, releases=True)
            since = self._monotonic() - SLOW_STEP_S
            work.waiting = {id(each) for each in self._workers if not each.at_work or each.began > since}
            for worker in self._workers:
                worker.own.append(work)
            if self._rounds:  # a process gets it with the next round, if there is one
                for queue in self._queues.slots:
                    work.requests[queue.slot] = message
                    work.waiting.add(queue.slot)
                    queue.works.append(work)
                self._asked.notify_all()
            self._queues.notify()
            waits = bool(work.waiting)
        if waits:
            work.done.wait(timeout_s)

    def close(self) -> None:
        """Disconnect all tasks, whatever they do."""
        with self._lock:
            self._closed = True
            self._job_ends_at = 0.0
            connections = [*(worker.connection for worker in self._workers), *self._queues.sources.connections()]
            self._queues.notify()
        self._listener.close()
        for connection in connections:
            with contextlib.suppress(OSError):
                disconnect(connection)

    def _replace_lost(self) -> None:
        """End the job if a slot is without a task for too long: others keep the cores that it needs."""
        now = self._monotonic()
        if any(q.missing_since is not None and now - q.missing_since > REJOIN_TIMEOUT_S for q in self._queues.slots):
            self._job_ends_at = 0.0
            for queue in self._queues.slots:
                queue.missing_since = None
            self._queues.notify()

    def _serve(self, connection: Connection) -> None:
        with contextlib.suppress(EOFError, OSError), connection:
            if not self._listener.authenticates(connection):
                return
            join = decode_msgpack(connection.recv_bytes(), as_type=Join | OfferSpares)
            if isinstance(join, OfferSpares):
                self._serve_source(join, connection)
                return
            worker = PoolWorker(connection, isinstance(join, JoinPool), getattr(join, "machine", ""), join.account)
            queue = self._admit_task(join, worker) if isinstance(join, JoinPool) else self._admit_spare(join, worker)
            if queue is None:
                connection.send_bytes(JOB_ENDED)
                return
            try:
                while batch := self._next(queue, worker):
                    self._serve_batch(queue, worker, batch)
                connection.send_bytes(JOB_ENDED)
            finally:
                self._leave(queue, worker)

    def _serve_source(self, offer: OfferSpares, connection: Connection) -> None:
        with self._lock:
            if self._closed:
                return
            self._queues.sources.add(offer.machine, connection)
        try:
            connection.recv_bytes()  # says nothing: this is the end of the process
        finally:
            with self._lock:
                self._queues.sources.remove(connection)

    def _serve_batch(self, queue: SlotQueue, worker: PoolWorker, batch: list[Work]) -> None:
        """Send requests, and take what comes of them."""
        encoded = [work.requests[_RELEASE if work.releases else queue.slot] for work in batch]
        worker.connection.send_bytes(msgspec.msgpack.encode(encoded))
        with self._lock:
            worker.sent = True
        for work in batch:
            self._complete(queue, worker, work, self._result(worker))
        with self._lock:
            worker.batch, worker.detached = [], False
            self._queues.notify()

    def _result(self, worker: PoolWorker) -> TopologyResult:
        """A process's next result; raises EOFError, OSError: it has ended."""
        while True:
            report: SlotReport = decode_msgpack(worker.connection.recv_bytes(), as_type=SlotReport)
            match report:
                case TopologyResult():
                    return report
                case Begun(index):
                    with self._lock:
                        worker.current, worker.began = index, self._monotonic()
                case SlotHung(application_id, error):
                    with self._lock:
                        for work in worker.at_work:
                            if work.application_id == application_id:
                                work.hung = error

    def _admit_task(self, join: JoinPool, worker: PoolWorker) -> SlotQueue | None:
        with self._lock:
            if self._closed or join.job != self._job or join.task not in range(self.size):
                return None
            queue = self._queues.slots[self._slot_for(join)]
            if queue.task is not None:  # an earlier attempt
                self._drop(queue, queue.task)
            queue.attempts = queue.attempts + 1 if queue.job == join.job else 1
            works = queue.attempts <= WORKING_ATTEMPTS
            if queue.attempts >= WORKING_ATTEMPTS:
                left_s = LAST_ATTEMPT_S if works else 0.0
                self._job_ends_at = min(self._job_ends_at, self._monotonic() + left_s)
            queue.task, queue.job, worker.served, queue.missing_since = worker, join.job, not works, None
            self._workers.append(worker)
            if queue.process != join.process:
                queue.process, queue.opened = join.process, set()
            worker.opened = queue.opened
            self._queues.notify()  # slots that are idle may be waiting for a later end of the job
            return queue

    def _slot_for(self, join: JoinPool) -> int:
        """The slot for a task: the one that its process had in the job before, of which it keeps states and producers.

        All attempts of a task have the same slot.
        """
        if join.task not in self._slot_of_task:
            free = sorted(set(range(self.size)) - set(self._slot_of_task.values()))
            kept = [slot for slot in free if self._queues.slots[slot].process == join.process]
            unused = [slot for slot in free if not self._queues.slots[slot].process]
            choice = kept or unused or free
            self._slot_of_task[join.task] = join.task if join.task in choice else choice[0]
        return self._slot_of_task[join.task]

    def _admit_spare(self, join: JoinAsSpare, worker: PoolWorker) -> SlotQueue | None:
        with self._lock:
            queue = self._queues.of_spare(join)
            if self._closed or self._rounds or queue is None or queue.holder is not None:
                return None
            queue.spare_wanted_at = queue.spare_missing_since = None
            self._workers.append(worker)
            return queue

    def _next(self, queue: SlotQueue, worker: PoolWorker) -> list[Work]:
        """What a process works on next; nothing: it returns."""
        idle_since = self._monotonic()
        with self._lock:
            while not self._closed:
                if worker.own:
                    return self._begin(worker, [worker.own.popleft()])
                if not self._belongs(queue, worker):
                    break
                if queue.holder is None:
                    queue.holder = worker
                left_s = self._left_s() if worker.task else idle_since + _SPARE_IDLE_S - self._monotonic()
                # A task that found a core only when the job was over has its turn all the same.
                if queue.holder is worker and queue.works and (left_s > 0 or not worker.served):
                    worker.served = True
                    return self._begin(worker, queue.take())
                if left_s <= 0:
                    break
                queue.changed.wait(left_s)
            if queue.holder is worker:
                queue.holder = None
                queue.changed.notify_all()
        return []

    def _belongs(self, queue: SlotQueue, worker: PoolWorker) -> bool:
        """Whether a process may have requests of a queue; a spare process not if the slot's task can have them."""
        if worker.task:
            return queue.task is worker
        task = queue.task
        # One whose job is over only returns: without the spare process the slot would have none.
        task_is_back = task is not None and not task.detached and (self._left_s() > 0 or not task.served)
        return not self._rounds and not queue.removed and not task_is_back and queue.holder in (None, worker)

    def _held_up(self) -> bool:
        """Whether a task is at something slow: the job cannot end, so the others go on."""
        return not self._stops and any(queue.task is not None and queue.task.detached for queue in self._queues.slots)

    def _left_s(self) -> float:
        return _LOOK_S if self._held_up() else self._job_ends_at - self._monotonic()

    def _begin(self, worker: PoolWorker, batch: list[Work]) -> list[Work]:
        worker.batch, worker.sent, worker.current, worker.began = batch, False, 0, self._monotonic()
        worker.at_work.extend(batch)
        return batch

    def _complete(self, queue: SlotQueue, worker: PoolWorker, work: Work, result: TopologyResult) -> None:
        taken = False
        with self._lock:
            worker.opened.discard(work.application_id)
            if work in worker.at_work:  # else it was withdrawn: another process has it
                worker.at_work.remove(work)
                work.waiting.discard(id(worker))
                if not work.releases and not result.error:
                    worker.opened.add(work.application_id)
                taken = self._take_result(work, queue.slot, result)
        if not taken:
            for file in result.files:
                self._remove_rows(file.path)

    def _take_result(self, work: Work, slot: int, result: TopologyResult) -> bool:
        """Whether it counts, so that its rows are the topology's; of one that is cancelled none are."""
        if result.place_lost and self._is_moving(work, slot):
            return False
        work.busy_s = max(work.busy_s, result.busy_s)
        counts = slot in work.waiting and not work.cancelled
        if slot in work.waiting:
            work.waiting.discard(slot)
            work.results.append(result)
        if not work.waiting or (result.error and not work.releases):
            work.done.set()
        return counts

    def _is_moving(self, work: Work, slot: int) -> bool:
        """Whether a request was refused because its bundles have got other places; it is tried again at those."""
        if slot in work.moved:
            work.moved.discard(slot)
            self._queues.put(work, slot, first=True)
            return True
        if slot in work.moving:
            work.refused.add(slot)
            return True
        return False

    def _leave(self, queue: SlotQueue, worker: PoolWorker) -> None:
        """A process has returned or died."""
        hung = _hung_at_end(worker.account) if worker.at_work else ""
        with self._lock:
            at = worker.works_on()
            if at is not None and hung and not at.hung:
                at.hung = hung
            self._workers.remove(worker)
            for work in worker.own:
                work.waiting.discard(id(worker))
                if not work.waiting:
                    work.done.set()
            if worker.at_work and queue.task is worker:
                queue.process = ""
                queue.missing_since = self._monotonic()
            self._drop(queue, worker)
            queue.changed.notify_all()

    def _drop(self, queue: SlotQueue, worker: PoolWorker) -> None:
        """A process works on a queue no longer: what it was at when it died is for the next one."""
        if queue.holder is worker:
            queue.holder = None
        if queue.task is worker:
            queue.task = None
        works, worker.at_work = worker.at_work, deque()
        for work in works:
            work.waiting.discard(id(worker))
        self._put_back(queue, works)

    def _put_back(self, queue: SlotQueue, works: Collection[Work]) -> None:
        """Requests that a process was at when it died are for the next one; a release is carried out by its death."""
        for work in reversed(list(works)):
            if work.releases:
                work.waiting.discard(queue.slot)
                if not work.waiting:
                    work.done.set()
                continue
            if work.cancelled or self._closed or queue.slot not in work.waiting:
                continue
            work.alone = True  # of several, any may be the one that ends processes
            work.died += len(works) == 1
            if work.died >= DEATHS_MAX:
                work.done.set()
            else:
                self._queues.put(work, queue.slot, first=True)


def _hung_at_end(account: str) -> str:
    """What the timer of a process's watchdog has left, as `SlotHung` says it; empty: it has not ended the process."""
    path = Path(account)
    try:
        error = find_hung(path.read_text(errors="replace")) if account else None
        if error is not None:
            path.unlink(missing_ok=True)
    except OSError:
        return ""
    return "" if error is None else f"hayase.core.errors.{type(error).__name__}: {error}"
