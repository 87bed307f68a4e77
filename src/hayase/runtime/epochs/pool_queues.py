"""Queues of a slot pool, and which of them a topology has to itself.

A request that takes long while others wait is left to its process: a spare process works for the slot until the request
is completed, and the topology gets a queue, and a process, of its own
(`docs/decisions/20261126-spare-processes.md`).
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Collection, Iterator

import msgspec

from hayase.runtime.epochs.slot_queue import PoolWorker, SlotQueue, Work
from hayase.runtime.epochs.spare_sources import SpareSources
from hayase.runtime.wire.slot_messages import JoinAsSpare, Withdraw
from hayase.runtime.wire.span_protocol import send_if_room

_LOG = logging.getLogger("hayase.runtime")

SLOW_STEP_S = 1.0
"""A request that takes longer leaves its slot to the others that wait."""
FIRST_STEP_S = 5.0
"""The same for the first request of a topology in a process, which opens its program, states and markers: another
process would need that time, too, and again for each topology that it takes along."""
OWN_PROCESSES_MAX = 8
"""How many processes of their own topologies have at a time, in all: one for a topology and a slot."""
QUIET_S = 300.0
"""A topology returns to its slot when none of its requests has been slow for so long."""
_SPARE_AGAIN_S = 5.0
_SPARE_TIMEOUT_S = 15.0
"""A topology goes back to its slot if no process comes for it within this: their source is stopped, or they die."""


class PoolQueues:
    """The queues of one pool. The pool's lock guards them.

    Args:
        slots: how many there are.
        lock: of the pool.
        monotonic: the clock for intervals, in seconds.

    Attributes:
        slots: the queues of slots.
        sources: which start spare processes.
    """

    def __init__(self, slots: int, lock: threading.Lock, monotonic: Callable[[], float]) -> None:
        self._lock = lock
        self._monotonic = monotonic
        self.slots = [SlotQueue(slot, threading.Condition(lock)) for slot in range(slots)]
        self.sources = SpareSources()
        self._own: dict[tuple[str, int], SlotQueue] = {}

    def __iter__(self) -> Iterator[SlotQueue]:
        yield from self.slots
        yield from self._own.values()

    def notify(self) -> None:
        """Wake all processes: there may be something to do, or the job has ended."""
        for queue in self:
            queue.changed.notify_all()

    def put(self, work: Work, slot: int, *, first: bool = False) -> None:
        """Queue a request where its topology's requests for the slot go."""
        queue = self._own.get((work.application_id, slot), self.slots[slot])
        if first:
            queue.works.appendleft(work)
        else:
            queue.works.append(work)
        queue.changed.notify_all()
        self._want_process(queue)

    def own_slots(self, application_id: str) -> frozenset[int]:
        """The slots for which a topology has a process of its own that it has needed lately."""
        since = self._monotonic() - QUIET_S
        own = [slot for (owner, slot), queue in self._own.items() if queue.slow_at > since and owner == application_id]
        return frozenset(own)

    def separate(self, application_id: str, slots: Collection[int]) -> bool:
        """Give a topology that has no requests here processes of its own for slots, or keep those it has.

        Returns whether it has them: not where none can be started, or too many topologies have some.
        """
        new = [slot for slot in slots if (application_id, slot) not in self._own]
        if not self.sources or len(self._own) + len(new) > OWN_PROCESSES_MAX:
            return False
        for slot in new:
            self._own[application_id, slot] = SlotQueue(slot, threading.Condition(self._lock), application_id)
        for slot in slots:
            self._own[application_id, slot].slow_at = self._monotonic()
        return True

    def rejoin(self, application_id: str, stay: Collection[int] = ()) -> None:
        """Have a topology's requests go to its slots again, except those for which its own processes stay."""
        for owner, slot in list(self._own):
            if owner == application_id and slot not in stay:
                self._end_own(self._own[owner, slot])

    def end_all_own(self) -> None:
        """Have the requests of all topologies go to their slots again."""
        for queue in list(self._own.values()):
            self._end_own(queue)

    def check_slow(self) -> None:
        """Leave what is slow to its process, where others wait for its end."""
        now = self._monotonic()
        for queue in list(self):
            holder = queue.holder
            slow = holder.works_on() if holder is not None else None
            if holder is None or slow is None or now - holder.began < patience_s(holder, slow):
                self._want_process(queue)
            elif queue.application_id:
                queue.slow_at = now
            elif self.sources and len(self._own) < OWN_PROCESSES_MAX and queue.others_wait(holder, slow):
                self._detach(queue, holder, slow)

    def _detach(self, queue: SlotQueue, holder: PoolWorker, slow: Work) -> None:
        # A process that gets no word does the others, too: those are second attempts, whose results are not taken.
        if holder.current is not None and len(holder.batch) > 1 and holder.sent:
            with contextlib.suppress(OSError):
                send_if_room(holder.connection, msgspec.msgpack.encode(Withdraw(holder.current)))
        queue.detach(holder, slow)
        if not slow.releases and not slow.cancelled:
            _LOG.warning(
                "an epoch of %s has kept slot %d for more than %g s while others waited: it goes on in a process of "
                "its own", slow.application_id, queue.slot, patience_s(holder, slow),
                extra={"application_id": slow.application_id},  # the thread may be that of one that waits
            )  # fmt: skip
            own = SlotQueue(queue.slot, threading.Condition(self._lock), slow.application_id)
            own.slow_at = self._monotonic()
            self._own.setdefault((slow.application_id, queue.slot), own)
            slow.slow_in.add(queue.slot)
        self._want_process(queue)

    def _want_process(self, queue: SlotQueue) -> None:
        """Have a spare process started for a queue that none works on, unless Spark brings one."""
        if queue.holder is not None or not queue.works:
            queue.spare_missing_since = None
            return
        task = self.slots[queue.slot].task
        if not queue.application_id and (task is None or not task.detached):
            return
        if not self.sources:
            if queue.application_id:
                self._end_own(queue)
            return
        now = self._monotonic()
        if queue.spare_missing_since is None:
            queue.spare_missing_since = now
        elif queue.application_id and now - queue.spare_missing_since > _SPARE_TIMEOUT_S:
            _LOG.warning("no process has come for %s: it goes back to slot %d", queue.application_id, queue.slot)
            self._end_own(queue)
            return
        if queue.spare_wanted_at is None or now - queue.spare_wanted_at >= _SPARE_AGAIN_S:
            queue.spare_wanted_at = now
            self.sources.start(queue.slot, queue.application_id, task.machine if task is not None else "")

    def _end_own(self, queue: SlotQueue) -> None:
        """A topology's requests go to its slot again; its own process ends when it has completed what it is at."""
        del self._own[queue.application_id, queue.slot]
        queue.removed = True
        queue.changed.notify_all()
        for work in queue.works:
            self.put(work, queue.slot)
        queue.works.clear()

    def of_spare(self, join: JoinAsSpare) -> SlotQueue | None:
        """The queue that a spare process was started for; `None`: there is none any more."""
        if join.application_id:
            return self._own.get((join.application_id, join.slot))
        return self.slots[join.slot] if join.slot in range(len(self.slots)) else None


def patience_s(holder: PoolWorker, work: Work) -> float:
    """How long a process may be at a request while others wait."""
    return SLOW_STEP_S if work.application_id in holder.opened else FIRST_STEP_S
