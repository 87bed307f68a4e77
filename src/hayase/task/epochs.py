"""The epochs of a checkpoint: which are complete, and when each began."""

from __future__ import annotations

from bisect import bisect_right

from hayase.core.errors import StateError
from hayase.core.time import to_iso
from hayase.storage.blobs import BlobStore
from hayase.storage.numbered_names import numbers_of
from hayase.task.epoch_record import EPOCH_DIGITS, EPOCH_FOLDER, EpochRecord, done_name, record_corrupt, record_name

_DONE = ".done"
_PROBES = 24


class Epochs:
    """Reads epoch records and the marks of completed epochs. Cheap to make; keeps nothing.

    Args:
        blobs: the checkpoint.
    """

    def __init__(self, blobs: BlobStore) -> None:
        self._blobs = blobs

    def record(self, epoch: int) -> EpochRecord | None:
        """The record of an epoch; `None` if there is none (any more).

        Raises:
            CheckpointError: `EPOCH_RECORD_CORRUPT`.
        """
        data = self._blobs.get(record_name(epoch))
        return EpochRecord.from_bytes(data, epoch) if data is not None else None

    def checked_record(self, epoch: int) -> EpochRecord | None:
        """The record of an epoch that is done, compared with its done mark; `None` if there is none (any more).

        Raises:
            CheckpointError: `EPOCH_RECORD_CORRUPT`, also where it is not the one that was marked as done.
        """
        record, mark = self.record(epoch), self._blobs.get(done_name(epoch))
        if record is not None and mark is not None and mark != record.digest.encode():
            raise record_corrupt(
                f"its digest is {record.digest}, its done mark says {mark[:64].decode(errors='replace')}", epoch
            )
        return record

    def recorded(self) -> list[int]:
        """Epochs of which there is a record, ascending."""
        return numbers_of(self._blobs.list(EPOCH_FOLDER), EPOCH_FOLDER, EPOCH_DIGITS)

    def last_done(self) -> int:
        """The last epoch that every bundle has completed; -1 before the first. Lists all of them."""
        return max(numbers_of(self._blobs.list(EPOCH_FOLDER), EPOCH_FOLDER, EPOCH_DIGITS, _DONE), default=-1)

    def last_done_after(self, known: int) -> int:
        """The same, found from an epoch known to be complete; `known` itself if the mark behind it is not there.

        Looks up few names. Marks are deleted after a while, so who has not looked for long uses `last_done`.
        """
        if not self._done(known + 1):
            return known
        low, step = known + 1, 1
        while step < 1 << _PROBES and self._done(low + step):
            low, step = low + step, step * 2
        high = low + step
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self._done(middle) else (low, middle)
        return low

    def at(self, time_ms: int) -> int:
        """The last completed epoch and was begun at or before a time, by the wall clock of its record.

        Raises:
            StateError: `TIME_BEFORE_HISTORY`: the oldest record that is kept is of a later time.
        """
        last = self.last_done()
        epochs = [epoch for epoch in self.recorded() if epoch <= last]
        position = bisect_right(epochs, time_ms, key=self._wall_clock_ms)
        if position == 0:
            oldest = (
                f"the oldest is epoch {epochs[0]} of {to_iso(self._wall_clock_ms(epochs[0]))}" if epochs else "none"
            )
            raise StateError(
                "TIME_BEFORE_HISTORY",
                f"No epoch of the application was begun at or before {to_iso(time_ms)} (or it is forgotten): {oldest}. "
                "Ask for a later time; state.history.retention.ms says how long older epochs are kept.",
            )
        return epochs[position - 1]

    def _wall_clock_ms(self, epoch: int) -> int:
        record = self.record(epoch)
        return record.wall_clock_ms if record is not None else -1  # forgotten meanwhile: older than all others

    def _done(self, epoch: int) -> bool:
        return self._blobs.exists(done_name(epoch))
