"""Whether what the log says about an application fits its checkpoint.

The log holds a marker of each bundle's last transaction, written with its outputs. The checkpoint holds the epochs. A
checkpoint that is older than the markers (a copy that was restored) would plan epochs again under numbers whose outputs
are in the log already, and every write of them would be taken for done.
"""

from __future__ import annotations

from collections.abc import Container, Mapping

from hayase.core.errors import CheckpointError
from hayase.log.protocol import Log, Marker
from hayase.runtime.epochs.record_retention import Floor
from hayase.state.changelog.changelog import Changelog
from hayase.storage.blobs import BlobStore
from hayase.task.epochs import Epochs

OWNER = "@checkpoint"
"""What the claim of a checkpoint is called among the bundles."""
_WAYS_OUT = (
    "restore the newest copy of the checkpoint; or give up what the log remembers with `hayase app reset "
    "--markers-only`, after which what was written since the checkpoint's last epoch is written again; or start over "
    "with `hayase app reset`"
)


def check_ownership(
    blobs: BlobStore, log: Log, application_id: str, checkpoint_id: str, bundles: Container[str], *, exactly_once: bool
) -> bool:
    """Compare markers and committed offsets of an application with its checkpoint.

    With the lease held, before any epoch.

    Args:
        blobs: the checkpoint.
        log: the log.
        application_id: whose markers and offsets.
        checkpoint_id: of the checkpoint.
        bundles: whose markers are of epochs; others have numbers of their own.
        exactly_once: whether markers are written at all.

    Returns:
        Whether the log says that the application.id belongs to this checkpoint; if not, see `claim`.

    Raises:
        CheckpointError: `CHECKPOINT_OLDER_THAN_LOG`: outputs of later epochs, or of other epochs of the same numbers,
            are in the log. `APPLICATION_ID_IN_USE`: they are of another checkpoint.
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
    return owner is not None


def claim(log: Log, application_id: str, checkpoint_id: str) -> None:
    """Have the log say that an application.id belongs to a checkpoint, as the marker of a bundle that there is not.

    Raises:
        LogError: the log could not be reached.
    """
    writer = log.writer()
    try:
        writer.publish_epoch(application_id, OWNER, Marker(checkpoint_id, 0, ""), [])
    finally:
        writer.close()


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
        found = f"the newest epoch of the checkpoint is {newest}" if newest >= 0 else "the checkpoint has no epochs"
        raise CheckpointError(
            "CHECKPOINT_OLDER_THAN_LOG",
            f"bundle {bundle} has written outputs of epoch {marker.epoch} to the log, but {found}: the checkpoint is "
            f"an older copy. What is to be done: {_WAYS_OUT}",
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
