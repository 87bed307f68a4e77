"""Epochs that are long through leave the checkpoint, below a floor that no run begins an epoch at again."""

from __future__ import annotations

import time
from collections.abc import Sequence

from hayase.core.errors import LeaseHeldError
from hayase.core.time import Clock
from hayase.storage.blobs import BlobStore
from hayase.storage.numbered_names import numbers_of
from hayase.task.epoch_record import EPOCH_DIGITS, Epochs, done_name, record_name

RECORDS_KEPT = 1_000
"""Epoch records that are kept behind the last completed one, however old they are; younger ones than
`state.history.retention.ms` are kept as well."""
_FORGOTTEN_AT_ONCE = 64
_FLOOR_STEP = 64
"""The floor is raised by so many epochs at once, so that few deletions need another one."""
FLOOR_FOLDER = "floor/"
_CHECKPOINT_ID = "lineage-"
_LOOK_AGAIN_S = 10.0


class Floor:
    """The epoch up to which records may have been deleted, as a blob named by it in `floor/`.

    Records are published once by creating a blob, which proves nothing once the blob was deleted. So the floor is
    raised, durably, before the first record below it goes, and whatever creates a record looks at the floor afterwards.

    Beside it lies the id of the checkpoint that the records are of: a reset removes both, so that a run of before the
    reset, which was stopped meanwhile, finds that the checkpoint is another one.

    Args:
        blobs: the checkpoint.
        checkpoint_id: of the run.
    """

    def __init__(self, blobs: BlobStore, checkpoint_id: str) -> None:
        self._blobs = blobs
        self._checkpoint_id = f"{FLOOR_FOLDER}{_CHECKPOINT_ID}{checkpoint_id}"
        self._looked_s = time.monotonic()

    def begin(self) -> None:
        """A run on the checkpoint begins, with the lease held."""
        self._blobs.put_if_absent(self._checkpoint_id, b"")

    def get(self) -> int:
        """The floor as it is now; -1 if nothing was ever deleted."""
        return max(self._all(), default=-1)

    def raise_to(self, epoch: int) -> None:
        """Raise it; a floor that is higher already stays."""
        self._blobs.put_if_absent(self._name(epoch), b"")
        for lower in self._all()[:-1]:
            self._blobs.delete(self._name(lower))

    def check(self, epoch: int) -> None:
        """Check that an epoch whose record was just created is of this checkpoint, and was not done and deleted before.

        Raises:
            LeaseHeldError: `LEASE_LOST`: it was, so another run has gone on for long, or started over. The record is
                deleted again.
        """
        names = self._look()
        if self._checkpoint_id not in names:
            self._blobs.delete(record_name(epoch))
            raise _started_over()
        floor = max(_floors(names), default=-1)
        if epoch <= floor:
            self._blobs.delete(record_name(epoch))
            raise superseded(
                f"epoch {epoch} was done, and forgotten, by another run (records up to {floor} are deleted)"
            )

    def check_checkpoint(self) -> None:
        """Check that the checkpoint was not started over, if the last check was long ago, as in a run that was stopped.

        Raises:
            LeaseHeldError: `LEASE_LOST`.
        """
        if time.monotonic() - self._looked_s >= _LOOK_AGAIN_S and self._checkpoint_id not in self._look():
            raise _started_over()

    def _look(self) -> list[str]:
        self._looked_s = time.monotonic()
        return self._blobs.list(FLOOR_FOLDER)

    def _all(self) -> list[int]:
        return _floors(self._blobs.list(FLOOR_FOLDER))

    @staticmethod
    def _name(epoch: int) -> str:
        return f"{FLOOR_FOLDER}{epoch:0{EPOCH_DIGITS}d}"


def _floors(names: Sequence[str]) -> list[int]:
    return numbers_of(names, FLOOR_FOLDER, EPOCH_DIGITS)


def _started_over() -> LeaseHeldError:
    return superseded("the checkpoint was started over")


class EpochRecordRetention:
    """Deletes records and marks that are not needed: of epochs long ago that ended before the retention begins."""

    def __init__(self, blobs: BlobStore, clock: Clock, retention_ms: int, floor: Floor) -> None:
        self._blobs = blobs
        self._epochs = Epochs(blobs)
        self._clock = clock
        self._retention_ms = retention_ms
        self._oldest: tuple[int, int] | None = None
        self._floor = floor
        self._raised_to: int | None = None

    def forget(self, last: int) -> None:
        """Delete some of what is too old, when epoch `last` is complete."""
        for _ in range(_FORGOTTEN_AT_ONCE):
            epoch, ended_ms = self._oldest or self._find_oldest()
            self._oldest = epoch, ended_ms
            needed = self._clock.now_ms() - ended_ms < self._retention_ms
            if epoch > last - RECORDS_KEPT or needed:
                return
            self._raise_floor(epoch, last)
            # The record goes last: by it the next run knows where to go on.
            self._blobs.delete(done_name(epoch))
            self._blobs.delete(record_name(epoch))
            self._oldest = epoch + 1, self._wall_clock_ms(epoch + 2)

    def _raise_floor(self, epoch: int, last: int) -> None:
        if self._raised_to is None:
            self._raised_to = self._floor.get()
        if epoch > self._raised_to:
            self._raised_to = max(epoch, min(epoch + _FLOOR_STEP, last - RECORDS_KEPT))
            self._floor.raise_to(self._raised_to)

    def _find_oldest(self) -> tuple[int, int]:
        recorded = set(self._epochs.recorded())
        oldest = max(recorded, default=0)
        while oldest - 1 in recorded:
            oldest -= 1
        floor = self._floor.get()
        for stray in (epoch for epoch in recorded if epoch < oldest and epoch <= floor):
            self._blobs.delete(record_name(stray))  # created by a run that ended before it looked at the floor
        return oldest, self._wall_clock_ms(oldest + 1)

    def _wall_clock_ms(self, epoch: int) -> int:
        record = self._epochs.record(epoch)
        return record.wall_clock_ms if record is not None else 0


def superseded(why: str) -> LeaseHeldError:
    """`LEASE_LOST`, for an epoch planner that finds the work of a later run."""
    return LeaseHeldError(
        "LEASE_LOST",
        f"{why}: this run was stopped or out of reach while another copy of the application took over. It ends here; "
        "nothing of it was written twice",
    )
