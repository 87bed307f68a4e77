"""Done marks that are missing in a checkpoint: put back from the records of the epochs behind them."""

from __future__ import annotations

import logging

from hayase.runtime.epochs.record_retention import Floor, superseded
from hayase.state.changelog.redone_epochs import RedoneEpochs
from hayase.storage.blobs import BlobStore
from hayase.task.epoch_record import Epochs, done_name, redone_mark

_LOG = logging.getLogger("hayase.runtime")


def restore_done_marks(blobs: BlobStore, checkpoint_id: str) -> list[int]:
    """Put back the done marks of epochs whose next epoch is recorded; with the application's lease held.

    An epoch is recorded only after the one before it is marked as done, and its record names the digest of the record
    before it. Without the mark, a start would run an epoch again whose state has gone on since. Epochs up to the floor
    are left alone: their marks are deleted in time.

    Args:
        blobs: the checkpoint.
        checkpoint_id: its id.

    Returns:
        The epochs whose marks were missing.

    Raises:
        CheckpointError: `EPOCH_RECORD_CORRUPT`: records do not follow each other.
        LeaseHeldError: `LEASE_LOST`: another run has begun, and deletes old records.
    """
    epochs = Epochs(blobs)
    recorded, floor = set(epochs.recorded()), Floor(blobs, checkpoint_id).get()
    candidates = sorted(recorded - epochs.marked())
    missing = [epoch for epoch in candidates if epoch > floor and epoch + 1 in recorded]
    redone = RedoneEpochs(blobs)
    for epoch in missing:
        record, following = epochs.record(epoch), epochs.record(epoch + 1)
        if record is None or following is None:  # this process stood still, and its lease has expired meanwhile
            raise superseded(f"records of epochs {epoch} and {epoch + 1} were there a moment ago and are deleted")
        following.check_follows(record)
        blobs.put_if_absent(done_name(epoch), redone_mark(record) if epoch in redone else record.digest.encode())
    if missing:
        _LOG.warning(
            "%d done marks were missing in the checkpoint (%s to %s): they were deleted, and are put back",
            len(missing),
            done_name(missing[0]),
            done_name(missing[-1]),
        )
    return missing
