"""Spark jobs of a shared runtime: spans, whose tasks join the pool of slots, and rounds, which take requests along.

A span goes on and serves one request after the other. Where it cannot be, each job runs one round: what waits for each
slot comes with the task's work order, and the results go through the runtime's checkpoint. That is so where

- `epoch.span.max.ms` is 0, or Spark encrypts what machines say to each other;
- other jobs, applications or new executors want Spark's cores;
- not all tasks of the last span joined: there are fewer free cores than slots, or tasks cannot reach the planner.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from hayase.runtime.epochs.slot_pool import SlotPool
from hayase.runtime.epochs.span_backoff import SpanBackoff
from hayase.runtime.wire.round_results import ROUNDS_FOLDER, RoundResults
from hayase.runtime.wire.slot_messages import Round
from hayase.storage.blobs import BlobStore

_LOG = logging.getLogger("hayase.runtime")

_NOTHING_S = 0.1


@dataclass(frozen=True, slots=True)
class SlotOrder:
    """What the task of a slot gets: the address at which it joins the pool, or a round."""

    slot: int
    address: str
    round: Round | None


class SlotJobs:
    """The jobs of one planner, one after the other.

    Args:
        pool: the slots.
        span_s: how long a span goes on; 0: there are none.
        contended: tells whether others want Spark's cores.
        blobs: the runtime's checkpoint.
        monotonic: the clock for intervals, in seconds.
    """

    def __init__(
        self,
        pool: SlotPool,
        span_s: float,
        contended: Callable[[], bool],
        blobs: BlobStore,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._pool = pool
        self._span_s = span_s
        self._contended = contended
        self._blobs = blobs
        self._run = uuid.uuid4().hex
        self._results: RoundResults | None = None
        self._backoff = SpanBackoff(monotonic)
        self._spanning = False
        self._round: tuple[int, Mapping[int, list[bytes]]] | None = None

    def begin(self, after: int) -> int:
        """The number of the next job; `after` if there is nothing to do for now. The job before has ended."""
        self._finish()
        contended = self._contended()
        if contended:
            self._backoff.reset()  # what was learnt about free cores no longer holds
        if self._span_s > 0 and self._backoff.is_over and not contended:
            self._pool.begin_job(after + 1, self._span_s)
            self._backoff.await_tasks()
            self._spanning = True
            return after + 1
        if not self._pool.wait_for_requests(_NOTHING_S):
            return after
        if self._results is None:
            self._blobs.delete_below(ROUNDS_FOLDER)  # what planners before have left
            self._results = RoundResults(self._blobs, self._run)
        self._round = after + 1, self._pool.begin_round()
        return after + 1

    def orders(self, job: int) -> list[SlotOrder]:
        """Work orders for the tasks of a job: of a round only for slots that have requests."""
        if self._round is None:
            return [SlotOrder(slot, self._pool.address, None) for slot in range(self._pool.size)]
        number, requests = self._round
        assert number == job, (number, job)
        return [SlotOrder(slot, "", Round(self._run, job, mine)) for slot, mine in requests.items()]

    def check(self) -> None:
        """End a span whose tasks do not all join in time. To be called often."""
        if self._spanning and not self._pool.all_joined and self._backoff.is_too_late:
            self._spanning = False
            self._pool.end_job()
            self._backoff.begin()
            _LOG.warning(
                "not all tasks of the slots joined in time, since the machine is busy or others have the cores: each "
                "Spark job runs one round for a while, which is slower"
            )

    def _finish(self) -> None:
        """Take what the last job has done."""
        if self._round is not None:
            assert self._results is not None
            job, requests = self._round
            self._pool.complete_round({slot: self._results.take(job, slot) for slot in requests})
            self._round = None
        elif self._spanning:
            self._spanning = False
            if not self._pool.all_joined:
                self._backoff.begin()
                _LOG.debug("tasks of the slots could not join: each job runs one round for a while")
            else:
                self._backoff.succeeded()
