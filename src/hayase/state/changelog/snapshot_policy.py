"""When a snapshot of a bundle's state is due, and which deltas and snapshots may then be deleted."""

from __future__ import annotations

import fcntl
import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from hayase.core.private_files import open_file
from hayase.core.time import Clock, SystemClock
from hayase.state.changelog.changelog import Changelog
from hayase.state.changelog.snapshot import Manifest
from hayase.state.environment.bundle import BundleState
from hayase.state.environment.environment import Meta

_log = logging.getLogger(__name__)


def log_failure(error: Exception) -> None:
    """Say in the log that a snapshot failed."""
    _log.warning("No snapshot was made, it will be tried again: %s", error)


@dataclass(frozen=True, slots=True)
class RestoreCost:
    """What a restore takes.

    Measured on a local disk, on one core: 0.5 ms for a delta of one row, 22 bytes/µs of large ones.

    Attributes:
        delta_ms: to fetch a delta and read its header, whatever its size.
        bytes_per_ms: of deltas that are applied, and of a snapshot that is loaded.
    """

    delta_ms: float = 0.5
    bytes_per_ms: float = 20_000

    def estimate_ms(self, deltas: int, size_bytes: int) -> float:
        """How long so many deltas of that size in all take, or (no deltas) a snapshot of that size."""
        return deltas * self.delta_ms + size_bytes / self.bytes_per_ms


_LOCAL = RestoreCost()


@dataclass(frozen=True, slots=True)
class SnapshotPolicy:
    """When a snapshot is due and what may then be deleted.

    It is due by size, by the number of deltas, or by the time that a restore would take: many small deltas are as slow
    as few large ones. By size and time it is not due before what it saves exceeds what the last one costs.

    Attributes:
        min_delta_bytes: it is due when the deltas since the last one exceed this and the size of the last one.
        max_deltas: it is due when there are more deltas since the last one.
        restore_max_ms: it is due when replaying the deltas since the last one takes longer, and longer than loading
            that one.
        history_retention_ms: deltas and snapshots younger than this are kept, so that state can be opened as of then.
        clock: tells the age of snapshots.
        report: called with what went wrong.
    """

    min_delta_bytes: int = 64 << 20
    max_deltas: int = 20_000
    restore_max_ms: int = 10_000
    history_retention_ms: int = 0
    clock: Clock = field(default_factory=SystemClock)
    report: Callable[[Exception], None] = log_failure

    def due(self, meta: Meta, last: Manifest | None, cost: RestoreCost = _LOCAL) -> bool:
        """Whether a state that says that of itself needs a new one.

        Args:
            meta: of the state.
            last: the snapshot that there is.
            cost: of a restore.
        """
        loaded = last.size_bytes if last else 0
        size = meta.delta_bytes - (last.delta_bytes if last else 0)
        deltas = meta.deltas - (last.deltas if last else 0)
        if size > max(self.min_delta_bytes, loaded) or deltas > self.max_deltas:
            return True
        return cost.estimate_ms(deltas, size) > max(self.restore_max_ms, cost.estimate_ms(0, loaded))


def maybe_snapshot(state: BundleState, changelog: Changelog, policy: SnapshotPolicy) -> Manifest | None:
    """Take a snapshot as `snapshot_if_due`.

    Nothing is raised, `policy.report` is called, and the next call tries again.
    """
    try:
        return snapshot_if_due(state, changelog, policy)
    except Exception as error:
        policy.report(error)
        return None


def snapshot_if_due(
    state: BundleState, changelog: Changelog, policy: SnapshotPolicy, cost: RestoreCost = _LOCAL
) -> Manifest | None:
    """Publish a snapshot if one is due, and then delete history that is no longer needed.

    Costs next to nothing if none is due, and as long as the state takes to be copied and read back if one is: then
    it belongs in a thread. Only one process of the machine at a time does it for a state; the others return at once.
    Deltas are deleted only below a snapshot that was verified and is older than the retention, so no delta younger than
    that is ever deleted, and the last one never.

    Args:
        state: the state to copy.
        changelog: its changelog; may be in use by another thread.
        policy: when it is due and what is kept.
        cost: of a restore.

    Returns:
        The snapshot made; `None` if none was due.

    Raises:
        StateError: as `Snapshots.publish`; `lmdb.Error`, `OSError`.
    """
    meta = state.meta()
    if not policy.due(meta, None, cost):
        return None
    with _only_one(state.path) as alone:
        if not alone or not policy.due(meta, next(changelog.snapshots.newest_first(), None), cost):
            return None
        now_ms = policy.clock.now_ms()
        manifest = changelog.snapshots.publish(state, now_ms)
        delete_history(changelog, now_ms - policy.history_retention_ms)
        return manifest


@contextmanager
def _only_one(path: Path) -> Iterator[bool]:
    """Whether no other process is in here for that folder."""
    descriptor = open_file(path / "SNAPSHOT", os.O_RDWR)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            alone = True
        except BlockingIOError:
            alone = False
        yield alone
    finally:
        os.close(descriptor)


def delete_history(changelog: Changelog, before_ms: int) -> None:
    """Delete what lies below the newest verified snapshot made at or before `before_ms`: deltas and older snapshots.

    Oldest first, so that what is left has no gap whenever it is interrupted. The delta of the snapshot's own epoch
    stays: its journal may not have been written yet.
    """
    snapshots = changelog.snapshots
    base = next((manifest for manifest in snapshots.newest_first() if manifest.created_ms <= before_ms), None)
    if base is None:
        return
    deltas = [epoch for epoch in changelog.all_epochs() if epoch < base.epoch]
    if deltas or snapshots.epochs()[0] < base.epoch:
        snapshots.verify(base)
        for epoch in deltas:
            changelog.delete(epoch)
        changelog.delete_parts_below(base.epoch)
        snapshots.delete_below(base)
