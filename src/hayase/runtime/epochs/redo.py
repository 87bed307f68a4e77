"""An open epoch that its own program cannot finish is done again by another one, under the next number.

The order of the steps is what makes it safe: docs/decisions/20261125-plans-that-change.md says why.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial

from hayase.core.errors import CheckpointError
from hayase.core.failpoints import reach
from hayase.log.protocol import Log, Marker
from hayase.runtime.epochs.record_retention import superseded
from hayase.state.changelog.changelog import Changelog
from hayase.state.changelog.redone_epochs import RedoneEpochs
from hayase.storage.blobs import BlobStore
from hayase.task.epoch_record import EpochRecord, Epochs, done_name, redone_mark


def settle_closed_epochs(blobs: BlobStore, begun: EpochRecord | None, *, same_plan: bool) -> bool:
    """Go on with what an earlier start has decided about the open epoch; whether that one is done again.

    With the lease held, and before anything else is done about the epoch.

    Args:
        blobs: the checkpoint.
        begun: the record of the open epoch.
        same_plan: whether the program that is starting may finish it: then it is opened again, if nothing was decided.
    """
    redone, last_done = RedoneEpochs(blobs), Epochs(blobs).last_done()
    for epoch in redone.ever_closed():
        is_open = begun is not None and epoch == begun.epoch
        if redone.decision(epoch) is None and (same_plan if is_open else epoch <= last_done):
            redone.decide(epoch, redone.close(epoch), redone=False)
    if begun is None or not redone.decision(begun.epoch):
        return False
    _mark_redone(blobs, begun)
    return True


def redo_epoch(
    blobs: BlobStore,
    log: Log,
    application_id: str,
    record: EpochRecord,
    bundles: Collection[str],
    *,
    exactly_once: bool,
) -> None:
    """Give an open epoch up, so that the next one reads its ranges again; with the lease held.

    Args:
        blobs: the checkpoint.
        log: the log.
        application_id: of the application.
        record: of the open epoch.
        bundles: all that may have a part in it.
        exactly_once: whether outputs have markers. Without, outputs of bundles without a delta come twice.

    Raises:
        CheckpointError: `OPEN_EPOCH_OF_ANOTHER_PLAN`: a bundle has completed it.
        LeaseHeldError: `LEASE_LOST`: another run has finished it.
    """
    markers = partial(log.markers, application_id) if exactly_once else None
    part = part_in(blobs, markers, record, bundles)
    if part is not None:
        raise _cannot_redo(application_id, record, part)
    redone = RedoneEpochs(blobs)
    closure = redone.close(record.epoch)
    reach("after_closure", epoch=record.epoch)
    if exactly_once:
        log.end_attempts(application_id, record.checkpoint_id, bundles)
        reach("after_attempts_ended", epoch=record.epoch)
    part = part_in(blobs, markers, record, bundles)
    if not redone.decide(record.epoch, closure, redone=part is None):
        raise _cannot_redo(application_id, record, part or "another start has opened it again")
    reach("after_redo_decision", epoch=record.epoch)
    _mark_redone(blobs, record)
    reach("after_redo_mark", epoch=record.epoch)


def part_in(
    blobs: BlobStore,
    markers: Callable[[], Mapping[str, Marker]] | None,
    record: EpochRecord,
    bundles: Collection[str],
) -> str | None:
    """What a bundle has published of an epoch, in words; `None`: nothing.

    Args:
        blobs: the checkpoint.
        markers: gives those of the log; `None`: they are not looked at.
        record: of the epoch.
        bundles: those that are looked at.
    """
    for bundle in sorted(bundles):
        if Changelog(blobs, bundle).has_delta(record.epoch):
            return f"bundle {bundle} has published a delta of it"
    for bundle, marker in sorted((markers() if markers is not None else {}).items()):
        if bundle in bundles and marker.checkpoint_id == record.checkpoint_id and marker.epoch >= record.epoch:
            return f"bundle {bundle} has published outputs of it"
    return None


def _mark_redone(blobs: BlobStore, record: EpochRecord) -> None:
    """Mark an epoch as done without counting, which its own planner may have marked as done meanwhile."""
    if not blobs.put_if_absent(done_name(record.epoch), redone_mark(record)) and not Epochs(blobs).is_redone(
        record.epoch
    ):
        raise superseded(f"epoch {record.epoch}, which was to be done again, was finished by another run")


def _cannot_redo(application_id: str, record: EpochRecord, part: str) -> CheckpointError:
    return CheckpointError(
        "OPEN_EPOCH_OF_ANOTHER_PLAN",
        f"epoch {record.epoch} was begun with another topology, whose program cannot finish it, and this one cannot do "
        f"it again: {part}, and what is published is not taken back. Start the old topology once more, with the "
        "function corrected that fails, to finish the epoch (`hayase run --to-end`), then this one; or start over with "
        f"`hayase app reset {application_id}`",
        epoch=record.epoch,
        application_id=application_id,
    )
