"""States of bundles as they were after an older epoch, built from snapshots and deltas beside the current ones."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterable
from pathlib import Path
from weakref import WeakSet

from hayase.core.errors import StateError
from hayase.core.file_locks import lock_file
from hayase.core.private_files import make_folder
from hayase.state.changelog.changelog import Changelog
from hayase.state.environment.bundle import BundleState
from hayase.storage.blobs import BlobStore
from hayase.storage.lmdb_env import close_environment

KEPT = 3
"""Older epochs that stay built when they are not read any more."""
_LOCK = "LOCK"
_in_use: WeakSet[PastStates] = WeakSet()
_opened_here: set[Path] = set()


def oldest_epoch(changelog: Changelog) -> int:
    """The oldest epoch at which a bundle's state can still be built; all later ones can be, too."""
    deltas = changelog.epochs()
    snapshots = changelog.snapshots.epochs()
    first = changelog.get(deltas[0], journal=False) if deltas else None
    if first is None:
        return snapshots[-1] if snapshots else 0
    if first.prev_epoch < 0:
        return 0
    return next((epoch for epoch in snapshots if epoch >= first.prev_epoch), first.epoch)


class PastStates:
    """The bundles' states after one epoch, in a folder of their own; stays there for as long as this is open.

    Args:
        folder: where states of older epochs of the application are built.
        epoch: after which.
    """

    def __init__(self, folder: Path, epoch: int) -> None:
        self.epoch = epoch
        self.folder = folder / f"{epoch:020d}"
        self._lock: int | None = _locked(self.folder)
        os.utime(self.folder)
        _in_use.add(self)

    @property
    def closed(self) -> bool:
        """Whether it was let go of."""
        return self._lock is None

    def build(self, blobs: BlobStore, bundles: Iterable[str], *, application_id: str, checkpoint_id: str) -> None:
        """Build the states of those bundles that are not there yet. Others may do so at the same time.

        Raises:
            StateError: `HISTORY_GONE`: what it takes was deleted; names the oldest epoch that is left. Also those of
                `Changelog.catch_up`.
        """
        for bundle in bundles:
            _opened_here.add(self.folder / bundle)
            state = BundleState(
                self.folder / bundle, application_id=application_id, checkpoint_id=checkpoint_id, bundle=bundle
            )
            try:
                if state.epoch != self.epoch:
                    self._build(state, Changelog(blobs, bundle))
            finally:
                state.close(clean=False)

    def close(self) -> None:
        """Let go of it. Calling it again does nothing."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def __del__(self) -> None:
        self.close()

    def _build(self, state: BundleState, changelog: Changelog) -> None:
        oldest = oldest_epoch(changelog)
        if self.epoch >= oldest:
            try:
                changelog.catch_up(state, self.epoch)
                return
            except StateError as error:
                if error.condition != "CHANGELOG_GAP":
                    raise
                gap, oldest = error, oldest_epoch(changelog)
                if self.epoch >= oldest:  # nothing was deleted meanwhile: the changelog is damaged
                    raise gap from None
        raise StateError(
            "HISTORY_GONE",
            f"The state as of epoch {self.epoch} cannot be opened any more: the oldest that can is epoch {oldest}. "
            "Set state.history.retention.ms to keep older ones for longer.",
            bundle=state.bundle,
            epoch=self.epoch,
        )


def open_past_states(folder: Path, epoch: int) -> PastStates:
    """Open the folder of an older epoch; of those that are not read, only the few used last are kept."""
    opened = PastStates(folder, epoch)
    _close_unused()
    others = [each for each in folder.iterdir() if each.is_dir() and each != opened.folder]
    for unused in sorted(others, key=_used, reverse=True)[KEPT - 1 :]:
        _remove_unused(unused)
    return opened


def _close_unused() -> None:
    """Close environments that this process opened for epochs that it no longer reads.

    Each takes a part of its address space.
    """
    used = {past.folder for past in _in_use if not past.closed}
    for path in [path for path in _opened_here if path.parent not in used]:
        _opened_here.discard(path)
        close_environment(path)


def _used(folder: Path) -> float:
    try:
        return folder.stat().st_mtime
    except FileNotFoundError:
        return 0.0


def _locked(folder: Path) -> int:
    """Hold the folder; recreated if it is removed at this moment."""
    while True:
        make_folder(folder)
        try:
            lock = lock_file(folder / _LOCK, fcntl.LOCK_SH)
        except FileNotFoundError:
            continue
        if os.fstat(lock).st_nlink:
            return lock
        os.close(lock)


def _remove_unused(folder: Path) -> None:
    try:
        lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        for bundle in folder.iterdir():
            if bundle.is_dir():
                close_environment(bundle)
                shutil.rmtree(bundle, ignore_errors=True)
        # Last, and while it is locked: a process that waits for the lock sees that its file is gone.
        (folder / _LOCK).unlink(missing_ok=True)
        shutil.rmtree(folder, ignore_errors=True)
    except BlockingIOError:
        return
    finally:
        os.close(lock)
