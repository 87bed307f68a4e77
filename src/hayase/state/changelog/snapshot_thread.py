"""Snapshots in the background: one thread per process that copies states while their epochs go on."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from hayase.core.metrics import SNAPSHOTS_FAILED
from hayase.state.changelog.changelog import Changelog
from hayase.state.changelog.snapshot import Manifest
from hayase.state.changelog.snapshot_policy import RestoreCost, SnapshotPolicy, snapshot_if_due
from hayase.state.environment.bundle import BundleState
from hayase.storage.blobs import BlobStore

_LOG = logging.getLogger("hayase.state")

_JOIN_S = 60.0
_FIRST_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 300.0
_MEASURED_AFTER = 100
"""Deltas behind the last snapshot from which it matters what reading one costs."""
_READS = 3

Take = Callable[[BundleState, Changelog, SnapshotPolicy, RestoreCost], object]


class _Failures(NamedTuple):
    """Failures one after the other, and when the next attempt may be made."""

    times: int
    again_at: float


class SnapshotThread:
    """Takes the snapshots of a process's bundles, one after the other, in a thread that begins with the first one due.

    `offer` neither waits nor raises. A state that is offered while its own snapshot is made is looked at again
    afterwards; offered twice before that, once. A snapshot that fails, for whatever reason, is reported, counted
    (`snapshots-failed-total`) and tried again when the state is offered after a pause, which doubles from 1 s to 5 min;
    a thread that ended is begun again. In a forked child the object begins again: the parent's thread is not there, and
    nothing of it is waited for.

    Args:
        blobs: where snapshots go.
        policy: when one is due, and where failures are reported.
        take: makes the snapshot if it is due; for tests.
        clock: in seconds; for tests.
    """

    def __init__(
        self,
        blobs: BlobStore,
        policy: SnapshotPolicy,
        take: Take = snapshot_if_due,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._blobs = blobs
        self._policy = policy
        self._take = take
        self._clock = clock
        self._thread: threading.Thread | None = None
        self._begin_anew()

    def offer(self, state: BundleState) -> None:
        """The state has changed: have it copied if that is due."""
        try:
            if os.getpid() != self._pid:
                self._begin_anew()
            # Most epochs end here: the thread looks at the files on disk.
            if self._may_be_due(state):
                self._hand_over(state)
        except Exception as error:
            self._failed(state, error)

    def close(self) -> None:
        """Make no further snapshot; wait for the one at work. Calling it again does nothing."""
        if os.getpid() != self._pid:
            return
        with self._changed:
            self._closed = True
            self._waiting.clear()
            self._changed.notify_all()
            thread = self._thread
        if thread is not None and thread.is_alive():
            thread.join(_JOIN_S)

    def wait(self) -> None:
        """Until nothing is waiting or at work; for tests."""
        with self._changed:
            self._changed.wait_for(lambda: not self._waiting and not self._busy)

    def _begin_anew(self) -> None:
        self._pid = os.getpid()
        self._changed = threading.Condition()
        self._waiting: dict[str, BundleState] = {}
        self._last: dict[str, Manifest | None] = {}
        self._failures: dict[str, _Failures] = {}
        self._cost: RestoreCost | None = None
        self._thread = None
        self._busy = False
        self._closed = False

    def _may_be_due(self, state: BundleState) -> bool:
        failures = self._failures.get(state.bundle)
        if failures is not None and self._clock() < failures.again_at:
            return False
        meta, last = state.meta(), self._last.get(state.bundle)
        if self._cost is None:
            return meta.deltas - (last.deltas if last else 0) >= _MEASURED_AFTER or self._policy.due(meta, last)
        return self._policy.due(meta, last, self._cost)

    def _hand_over(self, state: BundleState) -> None:
        with self._changed:
            if self._closed:
                return
            self._waiting[state.bundle] = state
            if self._thread is None or not self._thread.is_alive():
                self._busy = False
                self._thread = threading.Thread(target=self._run, name="hayase-snapshots", daemon=True)
                try:
                    self._thread.start()
                except BaseException:
                    self._waiting.clear()
                    raise
            self._changed.notify_all()

    def _run(self) -> None:
        try:
            while True:
                with self._changed:
                    self._busy = False
                    self._changed.notify_all()
                    self._changed.wait_for(lambda: self._waiting or self._closed)
                    if self._closed:
                        return
                    _, state = self._waiting.popitem()
                    self._busy = True
                self._one(state)
        finally:
            # A thread that waits is not to wait for one that is gone.
            with self._changed:
                self._busy = False
                self._changed.notify_all()

    def _one(self, state: BundleState) -> None:
        try:
            # A changelog of its own: that of the epochs is not thread-safe.
            changelog = Changelog(self._blobs, state.bundle)
            cost = self._cost or self._measured_cost(changelog, state)
            self._take(state, changelog, self._policy, cost)
            self._last[state.bundle] = next(changelog.snapshots.newest_first(), None)
            self._failures.pop(state.bundle, None)
        except Exception as error:
            self._failed(state, error)

    def _measured_cost(self, changelog: Changelog, state: BundleState) -> RestoreCost:
        """What reading deltas costs with these blobs: half a millisecond from a local disk, some ten from S3."""
        cost, epoch, took = RestoreCost(), state.epoch, float("inf")
        size = 0
        for _ in range(_READS):
            began = time.perf_counter()
            delta = changelog.get(epoch, journal=False) if epoch >= 0 else None
            if delta is None:
                return cost
            took, size = min(took, (time.perf_counter() - began) * 1000), len(delta.to_bytes())
        self._cost = replace(cost, delta_ms=max(cost.delta_ms, took - size / cost.bytes_per_ms))
        return self._cost

    def _failed(self, state: BundleState, error: Exception) -> None:
        before = self._failures.get(state.bundle)
        count = before.times + 1 if before else 1
        # Not 2 ** count: after a thousand failures that is no float any more.
        pause_s = min(_FIRST_PAUSE_S * 2 ** min(count - 1, 16), _LONGEST_PAUSE_S)
        self._failures[state.bundle] = _Failures(count, self._clock() + pause_s)
        state.count(SNAPSHOTS_FAILED)
        try:
            self._policy.report(error)
        except Exception:
            _LOG.exception("A failed snapshot of bundle %s could not be reported: %r", state.bundle, error)
