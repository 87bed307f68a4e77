"""Snapshots in the background: one thread per process that copies states while their epochs go on."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

from hayase.core.errors import HayaseError
from hayase.state.bundle import BundleState
from hayase.state.changelog import Changelog
from hayase.state.snapshot import SnapshotPolicy, maybe_snapshot
from hayase.storage.blobs import BlobStore

_JOIN_S = 60.0


class SnapshotThread:
    """Takes the snapshots of a process's bundles, one after the other, in a thread that begins with the first one due.

    `offer` never waits. A state that is offered while its own snapshot is made is looked at again afterwards; offered twice
    before that, once. In a forked child the object begins anew: the parent's thread is not there, and nothing of it is
    waited for.

    Args:
        blobs: where snapshots go.
        policy: when one is due, and who is told of failures.
        take: makes the snapshot if it is due; for tests.
    """

    def __init__(
        self,
        blobs: BlobStore,
        policy: SnapshotPolicy,
        take: Callable[[BundleState, Changelog, SnapshotPolicy], object] = maybe_snapshot,
    ) -> None:
        self._blobs = blobs
        self._policy = policy
        self._take = take
        self._thread: threading.Thread | None = None
        self._begin_anew()

    def offer(self, state: BundleState) -> None:
        """The state has changed: have it copied if that is due."""
        if os.getpid() != self._pid:
            self._begin_anew()
        # Most epochs end here: what there is on disk is looked at by the thread.
        if not self._policy.due(state.meta().delta_bytes - self._taken_at.get(state.bundle, 0), None):
            return
        with self._changed:
            if self._closed:
                return
            self._waiting[state.bundle] = state
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="hayase-snapshots", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def close(self) -> None:
        """Make no more; wait for the one at work. Calling it again does nothing."""
        if os.getpid() != self._pid:
            return
        with self._changed:
            self._closed = True
            self._waiting.clear()
            self._changed.notify_all()
            thread = self._thread
        if thread is not None:
            thread.join(_JOIN_S)

    def wait(self) -> None:
        """Until nothing is waiting or at work; for tests."""
        with self._changed:
            self._changed.wait_for(lambda: not self._waiting and not self._busy)

    def _begin_anew(self) -> None:
        self._pid = os.getpid()
        self._changed = threading.Condition()
        self._waiting: dict[str, BundleState] = {}
        self._taken_at: dict[str, int] = {}
        self._thread = None
        self._busy = False
        self._closed = False

    def _run(self) -> None:
        while True:
            with self._changed:
                self._busy = False
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._waiting or self._closed)
                if self._closed:
                    return
                bundle, state = self._waiting.popitem()
                self._busy = True
            self._one(bundle, state)

    def _one(self, bundle: str, state: BundleState) -> None:
        # A changelog of its own: that of the epochs is not thread-safe.
        changelog = Changelog(self._blobs, bundle)
        try:
            self._take(state, changelog, self._policy)
            last = next(changelog.snapshots.newest_first(), None)
        except (HayaseError, OSError) as error:
            self._policy.report(error)
        else:
            self._taken_at[bundle] = last.delta_bytes if last is not None else 0
