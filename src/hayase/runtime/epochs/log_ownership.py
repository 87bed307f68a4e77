"""Whether what the log says about an application fits its checkpoint.

The log holds a marker of each bundle's last transaction, written with its outputs. The checkpoint holds the epochs. A
checkpoint that is older than the markers (a copy that was restored) would plan epochs again under numbers whose outputs
are in the log already, and every write of them would be taken for done.

A log that is older than the checkpoint has lost outputs, and perhaps inputs whose offsets are given to other records
since. So every start claims the log under its term, and the checkpoint notes the claim afterwards: a log without the
newest noted claim is an older copy. One that was copied and restored within a run lacks markers of epochs that are
done.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import msgspec

from hayase.core.decoding import decode_json
from hayase.core.errors import CheckpointError
from hayase.log.protocol import Log, Marker
from hayase.runtime.epochs.record_retention import Floor
from hayase.state.changelog.changelog import Changelog
from hayase.storage.blobs import BlobStore
from hayase.storage.numbered_names import numbers_of
from hayase.task.epoch_record import Epochs

CLAIMS_FOLDER = "claims/"
_DIGITS = 12
_BUNDLES_LOOKED_AT = 8
_DELTAS_LOOKED_AT = 16

OWNER = "@checkpoint"
"""What the claim of a checkpoint is called among the bundles."""
_WAYS_OUT = (
    "restore the newest copy of the checkpoint; or give up what the log remembers with `hayase app reset "
    "--markers-only`, after which what was written since the checkpoint's last epoch is written again; or start over "
    "with `hayase app reset`"
)


class Claim(msgspec.Struct, frozen=True):
    """What the checkpoint notes of a claim that the log has.

    Attributes:
        since: the last epoch whose markers the log need not have: of before the first claim, or forgotten since.
    """

    since: int


def check_ownership(
    blobs: BlobStore,
    log: Log,
    application_id: str,
    checkpoint_id: str,
    bundles: Collection[str],
    *,
    writing: Iterable[str] = (),
    exactly_once: bool,
) -> Claim:
    """Compare markers and committed offsets of an application with its checkpoint.

    With the lease held, before any epoch.

    Args:
        blobs: the checkpoint.
        log: the log.
        application_id: whose markers and offsets.
        checkpoint_id: of the checkpoint.
        bundles: whose markers are of epochs; others have numbers of their own.
        writing: those of them that write to topics; some are looked at.
        exactly_once: whether markers are written at all.

    Returns:
        What to note when this run has claimed the log: see `claim`.

    Raises:
        CheckpointError: `CHECKPOINT_OLDER_THAN_LOG`: outputs of later epochs, or of other epochs of the same numbers,
            are in the log. `APPLICATION_ID_IN_USE`: they are of another checkpoint. `LOG_OLDER_THAN_CHECKPOINT`: the
            log lacks what the checkpoint knows to be in it.
    """
    epochs = Epochs(blobs)
    newest = max(epochs.recorded(), default=-1)
    markers = dict(log.markers(application_id, wait=False)) if exactly_once else {}
    claimed = markers.pop(OWNER, None)
    owner = claimed.checkpoint_id if claimed is not None else None
    if owner not in (None, checkpoint_id) or (
        owner is None and _is_of_others(markers, checkpoint_id, first=newest < 0)
    ):
        raise _in_use(application_id, f"epochs of another checkpoint (id {owner or _other(markers, checkpoint_id)})")
    if newest < 0 and owner is None and log.group_offsets(application_id):
        raise _in_use(application_id, "committed offsets of a group of that name")
    floor = Floor(
        blobs, checkpoint_id
    ).get()  # records up to it are deleted, and one that is there was created too late
    for bundle, marker in sorted(markers.items()):
        if marker.checkpoint_id == checkpoint_id and bundle in bundles and marker.epoch > floor:
            _check_marker(blobs, epochs, newest, bundle, marker)
    term, noted = _noted(blobs) if exactly_once else (0, None)
    if noted is None:
        return Claim(newest)
    written = _last_outputs(blobs, epochs, writing, noted.since)
    if (
        why := _older(term, written, checkpoint_id, {**markers, **({} if claimed is None else {OWNER: claimed})})
    ) is None:
        return noted
    # What was written lately may be hidden behind a transaction of a process that died: wait for its end.
    if (why := _older(term, written, checkpoint_id, log.markers(application_id))) is None:
        return noted
    raise CheckpointError(
        "LOG_OLDER_THAN_CHECKPOINT",
        f"{why}: the log is an older copy, so outputs are gone, and offsets that were read may belong to other records "
        "by now. Restore the copy of the checkpoint that was made with that of the log (both while the application was "
        f"stopped), or the newest log; or start over with `hayase app reset {application_id}`; or accept the loss, and "
        f"go on where the checkpoint is, with `hayase app reset --markers-only {application_id}`",
    )


def claim(log: Log, blobs: BlobStore, application_id: str, checkpoint_id: str, term: int, noted: Claim) -> None:
    """Have the log say that an application.id belongs to a checkpoint, as the marker of a bundle that there is not.

    Then the checkpoint notes it. The other way round a run that died in between would leave a log that seems older.

    Args:
        log: the log.
        blobs: the checkpoint.
        application_id: whose.
        checkpoint_id: of the checkpoint.
        term: of this run.
        noted: what `check_ownership` gave.

    Raises:
        LogError: the log could not be reached.
    """
    writer = log.writer()
    try:
        writer.publish_epoch(application_id, OWNER, Marker(checkpoint_id, term, ""), [])
    finally:
        writer.close()
    blobs.put_if_absent(_claim_name(term), msgspec.json.encode(noted))
    forget_claims(blobs, below=term)


def forget_claims(blobs: BlobStore, below: int | None = None) -> None:
    """Delete what is noted of claims: of all, as the log is to forget them, too, or of earlier runs than one."""
    for term in numbers_of(blobs.list(CLAIMS_FOLDER), CLAIMS_FOLDER, _DIGITS):
        if below is None or term < below:
            blobs.delete(_claim_name(term))


def _noted(blobs: BlobStore) -> tuple[int, Claim | None]:
    """The newest claim that the checkpoint knows to be in the log."""
    term = max(numbers_of(blobs.list(CLAIMS_FOLDER), CLAIMS_FOLDER, _DIGITS), default=0)
    data = blobs.get(_claim_name(term)) if term else None
    if data is None:
        return 0, None
    try:
        return term, decode_json(data, as_type=Claim)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise CheckpointError(
            "CHECKPOINT_CORRUPT",
            f"{_claim_name(term)} in the checkpoint is damaged ({len(data)} bytes: {error}). Restore the checkpoint "
            "from a copy, or delete that file: then an older copy of the log passes for the newest",
        ) from error


def _claim_name(term: int) -> str:
    return f"{CLAIMS_FOLDER}{term:0{_DIGITS}d}"


def _last_outputs(blobs: BlobStore, epochs: Epochs, bundles: Iterable[str], since: int) -> dict[str, int]:
    """Bundle → the last epoch that is done and in which it wrote something, as far as that is found quickly."""
    done, last_outputs = epochs.last_done(), {}
    for bundle in sorted(bundles)[:_BUNDLES_LOOKED_AT]:
        changelog = Changelog(blobs, bundle)
        for epoch in [each for each in changelog.epochs() if since < each <= done][: -_DELTAS_LOOKED_AT - 1 : -1]:
            delta = changelog.get(epoch)
            if delta is not None and delta.outputs():
                last_outputs[bundle] = epoch
                break
    return last_outputs


def _older(term: int, written: Mapping[str, int], checkpoint_id: str, markers: Mapping[str, Marker]) -> str | None:
    """What the log lacks; `None` if nothing is known to be missing."""
    claimed = markers.get(OWNER)
    if claimed is None or claimed.epoch < term:
        return f"run {term} of the application has written to the log, which does not know of it"
    for bundle, epoch in written.items():
        marker = markers.get(bundle)
        if marker is None or marker.checkpoint_id != checkpoint_id or marker.epoch < epoch:
            there = "none" if marker is None else f"those of epoch {marker.epoch}"
            return (
                f"bundle {bundle} has written outputs of epoch {epoch} to the log, and the last ones there are {there}"
            )
    return None


def _is_of_others(markers: Mapping[str, Marker], checkpoint_id: str, *, first: bool) -> bool:
    """Without a claim, as earlier versions left it.

    Markers of others beside ours are what a removed checkpoint left.
    """
    if first:
        return bool(markers)
    return bool(markers) and all(marker.checkpoint_id != checkpoint_id for marker in markers.values())


def _other(markers: Mapping[str, Marker], checkpoint_id: str) -> str:
    return next(
        (marker.checkpoint_id for marker in markers.values() if marker.checkpoint_id != checkpoint_id), checkpoint_id
    )


def _check_marker(blobs: BlobStore, epochs: Epochs, newest: int, bundle: str, marker: Marker) -> None:
    if marker.epoch > newest:
        state_of_checkpoint = (
            f"the newest epoch of the checkpoint is {newest}" if newest >= 0 else "the checkpoint has no epochs"
        )
        raise CheckpointError(
            "CHECKPOINT_OLDER_THAN_LOG",
            f"bundle {bundle} has written outputs of epoch {marker.epoch} to the log, but {state_of_checkpoint}: the "
            f"checkpoint is an older copy. What is to be done: {_WAYS_OUT}",
            bundle=bundle,
            epoch=marker.epoch,
        )
    record = epochs.record(marker.epoch)
    if record is not None and record.digest != marker.digest:
        raise CheckpointError(
            "CHECKPOINT_OLDER_THAN_LOG",
            f"bundle {bundle} has written outputs of epoch {marker.epoch} to the log, but of another epoch record "
            "than that of the checkpoint: an older copy was restored, and has gone on since. What is to be done: "
            f"{_WAYS_OUT}",
            bundle=bundle,
            epoch=marker.epoch,
        )
    if record is not None and record.journals(bundle) and not Changelog(blobs, bundle).reaches(marker.epoch):
        raise CheckpointError(
            "CHECKPOINT_OLDER_THAN_LOG",
            f"bundle {bundle} has written outputs of epoch {marker.epoch} to the log, but the checkpoint does not "
            "have its delta, which was published before: the checkpoint is an older copy. What is to be done: "
            f"{_WAYS_OUT}",
            bundle=bundle,
            epoch=marker.epoch,
        )


def _in_use(application_id: str, what: str) -> CheckpointError:
    return CheckpointError(
        "APPLICATION_ID_IN_USE",
        f"the log holds {what} under application.id {application_id!r}, and this checkpoint has nothing of them: the "
        "checkpoint is missing or another one (checkpoint.dir), or a second copy of the application, or a consumer "
        "group of that name, is at work. Start with the checkpoint that belongs to it, give this application another "
        "application.id, or start over with `hayase app reset`, which removes what the log remembers of it",
    )
