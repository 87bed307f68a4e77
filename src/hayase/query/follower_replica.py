"""Tails a checkpoint: takes the deltas of completed epochs into states of its own.

Needs nothing from the workers.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from types import TracebackType

import msgspec

from hayase.core.decoding import decode_json
from hayase.core.errors import StateError
from hayase.core.failpoints import reach
from hayase.core.file_locks import lock_alone, lock_holder
from hayase.core.private_files import make_folder, open_file, private_folder, write_file
from hayase.core.time import Clock, SystemClock
from hayase.query.checkpoint import Checkpoint, find_checkpoint
from hayase.query.numbered_plans import plan_numbers
from hayase.state.changelog.changelog import Changelog
from hayase.state.changelog.redone_epochs import RedoneEpochs
from hayase.state.delta.delta import Delta
from hayase.state.environment.bundle import BundleState
from hayase.state.environment.epoch_lock import EpochLock
from hayase.storage.blobs import BlobStore

STATUS_FILE = "STATUS"
_LOCK_FILE = "FOLLOWER"
_ONE_BY_ONE = 16
"""Up to so many epochs behind, readers get to see each; further behind, the states go straight to the end."""
_LIST_EVERY_S = 30.0


class FollowerStatus(msgspec.Struct, frozen=True):
    """How far a follower is.

    Attributes:
        epoch: the epoch that all its states are after; -1 before the first.
        lag_epochs: completed epochs in the application and not here.
        lag_ms: how long ago the first of them was begun, by the wall clock; 0 if there is none.
        running: whether a process keeps it up to date.
        waiting: the application has not started yet on this checkpoint.
    """

    epoch: int = -1
    lag_epochs: int = 0
    lag_ms: int = 0
    running: bool = False
    waiting: bool = False


class _Followed:
    """One bundle."""

    def __init__(self, state: BundleState, changelog: Changelog) -> None:
        self.state = state
        self.changelog = changelog


class FollowerReplica:
    """Keeps copies of all states of an application in a folder. One process at a time; others may read them.

    All states go from one epoch to the next together, behind an epoch lock, so that a reader sees them at the same one.
    What it has is its states alone: killed at any moment, it goes on from there.

    Args:
        blobs: the checkpoint.
        application_id: whose.
        folder: where; made if absent. On a local file system.
        clock: tells the lag.
        monotonic: seconds.

    Raises:
        StateError: `FOLLOWER_RUNNING`: another process has the folder.
    """

    def __init__(
        self,
        blobs: BlobStore,
        application_id: str,
        folder: Path,
        *,
        clock: Clock | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.folder = folder
        self._blobs = blobs
        self._application_id = application_id
        self._clock = clock or SystemClock()
        self._monotonic = monotonic
        self._lock = _take(folder)
        self._epoch_lock = EpochLock(folder)
        self._checkpoint: Checkpoint | None = None
        self._followed: dict[str, _Followed] = {}
        self._epoch: int | None = None
        self._done = -1
        self._listed = float("-inf")
        self._redone = RedoneEpochs(blobs)
        self._status = FollowerStatus()

    @property
    def epoch(self) -> int:
        """The epoch that all states are after; -1 before the first."""
        return -1 if self._epoch is None else self._epoch

    def step(self) -> bool:
        """Take in the next epoch, or all of them when far behind; whether there was one.

        Raises:
            StateError: the changelog is damaged or has a gap; `DISK_FULL`. The states are as they were, each whole.
        """
        checkpoint = self._find_checkpoint()
        if checkpoint is None:
            self._say(waiting=True)
            return False
        self._done = self._find_done(checkpoint)
        moved = (self._epoch is None or self._done > self._epoch) and self._advance(checkpoint)
        self._say()
        return moved

    def status(self) -> FollowerStatus:
        """How far it is, as of the last step."""
        return self._status

    def close(self) -> None:
        """Let go of the states and the folder; what was taken in survives a power loss then."""
        for followed in self._followed.values():
            followed.state.close()
        self._followed.clear()
        self._write_status(msgspec.structs.replace(self._status, running=False))
        os.close(self._lock)

    def __enter__(self) -> FollowerReplica:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _find_checkpoint(self) -> Checkpoint | None:
        """The checkpoint; everything begins again when the application was started over."""
        checkpoint_id = self._blobs.get("lineage")
        known = self._checkpoint
        if known is not None and checkpoint_id is not None and known.checkpoint_id == checkpoint_id.decode():
            return known
        checkpoint = find_checkpoint(self._blobs, self._application_id)
        if checkpoint is not None:
            for followed in self._followed.values():
                followed.state.close()
            self._followed, self._epoch, self._done, self._listed = {}, None, -1, float("-inf")
            self._redone = RedoneEpochs(self._blobs)
        self._checkpoint = checkpoint
        return checkpoint

    def _find_done(self, checkpoint: Checkpoint) -> int:
        now = self._monotonic()
        done = checkpoint.epochs.last_done_after(self._done)
        if done == self._done and now - self._listed > _LIST_EVERY_S:
            # A process that was held up for long may find the next mark gone.
            self._listed = now
            done = max(done, checkpoint.epochs.last_done())
        return done

    def _advance(self, checkpoint: Checkpoint) -> bool:
        checkpoint = self._with_plan_in_use(checkpoint)
        if self._epoch is not None and self._done - self._epoch <= _ONE_BY_ONE:
            deltas = self._deltas(checkpoint, self._epoch + 1)
            if deltas.keys() >= self._followed.keys():
                self._go_to(checkpoint, self._epoch + 1, deltas)
                return True
        # Far behind, or a delta is gone: the newest snapshot it is.
        return self._jump(checkpoint)

    def _with_plan_in_use(self, checkpoint: Checkpoint) -> Checkpoint:
        """The checkpoint with the bundles of the plan that the newest epoch record names; others are let go of."""
        if max(plan_numbers(self._blobs), default=0) == checkpoint.plan_number:
            return checkpoint
        again = find_checkpoint(self._blobs, self._application_id)
        if again is None or again.checkpoint_id != checkpoint.checkpoint_id:
            return checkpoint  # started over just now, which the next step sees
        if again.plan_number != checkpoint.plan_number:
            for bundle in self._followed.keys() - again.tasks.keys():
                self._followed.pop(bundle).state.close()
            self._epoch = None  # bundles may be new, and have a history to take in
        self._checkpoint = again
        return again

    def _jump(self, checkpoint: Checkpoint) -> bool:
        """Bring every state to the last epoch; if that takes long, readers may find them at different ones meanwhile.

        Returns `False` if it must be tried again later: what leads to that epoch was deleted, for a snapshot of the
        epoch at work exists already. When that is complete the states can go there.
        """
        for bundle in checkpoint.tasks:
            changelog = Changelog(self._blobs, bundle)
            if bundle not in self._followed and (changelog.epochs() or changelog.snapshots.epochs()):
                self._follow(checkpoint, bundle, changelog)
        behind = self._done - min((followed.state.epoch for followed in self._followed.values()), default=self._done)
        with self._epoch_lock.moving() if behind <= _ONE_BY_ONE else nullcontext():
            for bundle, followed in self._followed.items():
                try:
                    followed.changelog.catch_up(followed.state, self._done)
                except StateError as error:
                    if error.condition != "CHANGELOG_GAP" or not self._snapshot_of_open_epoch(followed.changelog):
                        raise
                    self._epoch = None
                    return False
                reach("follower_between_bundles", bundle=bundle, epoch=self._done)
        self._epoch = self._done
        return True

    def _snapshot_of_open_epoch(self, changelog: Changelog) -> bool:
        return any(epoch > self._done for epoch in changelog.snapshots.epochs())

    def _deltas(self, checkpoint: Checkpoint, epoch: int) -> dict[str, Delta]:
        """The deltas of an epoch; none where it is done again, under the next number."""
        deltas: dict[str, Delta] = {}
        if epoch in self._redone:
            return deltas
        for bundle in checkpoint.tasks:
            followed = self._followed.get(bundle)
            changelog = followed.changelog if followed else Changelog(self._blobs, bundle)
            delta = changelog.get(epoch, journal=False)
            if delta is not None:
                deltas[bundle] = delta
        return deltas

    def _go_to(self, checkpoint: Checkpoint, epoch: int, deltas: dict[str, Delta]) -> None:
        """Take every state to the next epoch."""
        for bundle in deltas.keys() - self._followed.keys():
            self._follow(checkpoint, bundle, Changelog(self._blobs, bundle))
        with self._epoch_lock.moving():
            for bundle, delta in deltas.items():
                followed = self._followed[bundle]
                followed.changelog.apply(followed.state, delta)
                reach("follower_between_bundles", bundle=bundle, epoch=epoch)
        self._epoch = epoch

    def _follow(self, checkpoint: Checkpoint, bundle: str, changelog: Changelog) -> _Followed:
        state = BundleState(
            self.folder / bundle,
            application_id=self._application_id,
            checkpoint_id=checkpoint.checkpoint_id,
            bundle=bundle,
        )
        self._followed[bundle] = followed = _Followed(state, changelog)
        return followed

    def _say(self, *, waiting: bool = False) -> None:
        behind = max(self._done - self.epoch, 0)
        lag_ms = 0
        if behind and self._checkpoint is not None:
            first = self._checkpoint.epochs.record(self.epoch + 1)
            lag_ms = max(self._clock.now_ms() - first.wall_clock_ms, 0) if first is not None else 0
        status = FollowerStatus(self.epoch, behind, lag_ms, True, waiting)
        if status != self._status:
            self._write_status(status)

    def _write_status(self, status: FollowerStatus) -> None:
        self._status = status
        temporary = self.folder / f"{STATUS_FILE}.new"
        write_file(temporary, msgspec.json.encode(status))
        temporary.replace(self.folder / STATUS_FILE)


def read_status(folder: Path) -> FollowerStatus:
    """What the follower of a folder said last; whether it runs is looked up."""
    try:
        said = decode_json((folder / STATUS_FILE).read_bytes(), as_type=FollowerStatus)
    except (FileNotFoundError, msgspec.DecodeError):
        said = FollowerStatus()
    return msgspec.structs.replace(said, running=is_running(folder))


def is_running(folder: Path) -> bool:
    """Whether a process keeps the follower of a folder up to date."""
    return lock_holder(folder / _LOCK_FILE) is not None


def _take(folder: Path) -> int:
    make_folder(folder)
    private_folder(folder, contents=())
    lock = open_file(folder / _LOCK_FILE, os.O_RDWR)
    if not lock_alone(lock):
        holder = os.read(lock, 100).decode(errors="replace").strip()
        os.close(lock)
        raise StateError(
            "FOLLOWER_RUNNING",
            f"The follower in {folder} is kept by another process already ({holder or 'unknown'}); give this one "
            "another name or folder.",
        )
    os.ftruncate(lock, 0)
    os.pwrite(lock, f"pid {os.getpid()}".encode(), 0)
    return lock
