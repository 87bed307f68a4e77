"""Epochs that are long through leave the checkpoint."""

from __future__ import annotations

from hayase.core.time import Clock
from hayase.storage.blobs import BlobStore
from hayase.task.epoch_record import done_name, record_name
from hayase.task.epochs import Epochs

RECORDS_KEPT = 1_000
"""Epoch records that are kept behind the last one that is through, however old they are; younger ones than
`state.history.retention.ms` are kept as well."""
_FORGOTTEN_AT_ONCE = 16


class OldEpochs:
    """Deletes records and marks that nobody needs: of epochs long ago that ended before the retention begins."""

    def __init__(self, blobs: BlobStore, clock: Clock, retention_ms: int) -> None:
        self._blobs = blobs
        self._epochs = Epochs(blobs)
        self._clock = clock
        self._retention_ms = retention_ms
        self._oldest: tuple[int, int] | None = None

    def forget(self, last: int) -> None:
        """Delete some of what is too old, when epoch `last` is through."""
        for _ in range(_FORGOTTEN_AT_ONCE):
            epoch, ended_ms = self._oldest or self._find_oldest()
            self._oldest = epoch, ended_ms
            needed = self._clock.now_ms() - ended_ms < self._retention_ms
            if epoch > last - RECORDS_KEPT or needed:
                return
            # The record goes last: by it the next run knows where to go on.
            self._blobs.delete(done_name(epoch))
            self._blobs.delete(record_name(epoch))
            self._oldest = epoch + 1, self._wall_clock_ms(epoch + 2)

    def _find_oldest(self) -> tuple[int, int]:
        epoch = min(self._epochs.recorded(), default=0)
        return epoch, self._wall_clock_ms(epoch + 1)

    def _wall_clock_ms(self, epoch: int) -> int:
        record = self._epochs.record(epoch)
        return record.wall_clock_ms if record is not None else 0
