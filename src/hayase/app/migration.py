"""A migration of stores on its way into the checkpoint: all of it or nothing, whenever it is interrupted.

First the deltas are put beside the changelog, where no process looks; then `migration/commit` is published, by which
the migration is done; then what is beside is moved to where it belongs, as one more epoch that reads nothing. The
process that holds the lease and finds a commit, the next start or the next migration, does the rest of it.
"""

from __future__ import annotations

import msgspec

from hayase.core.decoding import decode_json
from hayase.core.errors import CheckpointError
from hayase.core.failpoints import reach
from hayase.state.changelog.changelog import Changelog
from hayase.state.delta.delta import Delta
from hayase.storage.blobs import BlobStore
from hayase.task.epoch_record import EpochRecord, done_name, record_name

FOLDER = "migration/"
_COMMIT = f"{FOLDER}commit"
_DELTAS = f"{FOLDER}deltas/"


class Commit(msgspec.Struct, frozen=True):
    """The commit record of a migration: its changes of the checkpoint besides the deltas.

    Attributes:
        record: of the epoch that it is.
        bundles: which have a delta.
        schemas: name and content of what says how values look from now on.
    """

    record: EpochRecord
    bundles: list[str]
    schemas: tuple[str, str]


def clear_migration(blobs: BlobStore) -> None:
    """Remove what a migration left that was interrupted before it was committed.

    Only with the lease, and after `finish_migration`.
    """
    blobs.delete_below(FOLDER)


def stage_delta(blobs: BlobStore, delta: Delta) -> None:
    """Put a delta beside the changelog."""
    blobs.put_if_absent(f"{_DELTAS}{delta.bundle}", delta.to_bytes())
    reach("inside_migration", bundle=delta.bundle, epoch=delta.epoch)


def commit_migration(blobs: BlobStore, commit: Commit) -> None:
    """Publish what makes the migration true, and do the rest."""
    epoch = commit.record.epoch
    reach("before_migration", epoch=epoch)
    blobs.put_if_absent(_COMMIT, msgspec.json.encode(commit))
    reach("after_migration", epoch=epoch)
    finish_migration(blobs)


def finish_migration(blobs: BlobStore) -> bool:
    """Do the rest of a migration that is committed; `False` if there is none. Only with the lease. May be repeated.

    Raises:
        CheckpointError: `MIGRATION_INCOMPLETE`: a delta of it is missing.
    """
    data = blobs.get(_COMMIT)
    if data is None:
        return False
    commit = decode_json(data, as_type=Commit)
    epoch = commit.record.epoch
    for bundle in commit.bundles:
        staged = blobs.get(f"{_DELTAS}{bundle}")
        if staged is None:
            raise CheckpointError(
                "MIGRATION_INCOMPLETE",
                f"a migration of stores (epoch {epoch}) is committed, but its delta of bundle {bundle} is not in "
                f"{_DELTAS} of the checkpoint: restore the checkpoint from a copy, or start over with `hayase app "
                "reset`",
                bundle=bundle,
                epoch=epoch,
            )
        Changelog(blobs, bundle).publish(Delta.from_bytes(staged, bundle=bundle, epoch=epoch))
        reach("between_migrations", bundle=bundle, epoch=epoch)
    name, schemas = commit.schemas
    blobs.put_if_absent(name, schemas.encode())
    blobs.put_if_absent(record_name(epoch), commit.record.to_bytes())
    blobs.put_if_absent(done_name(epoch), commit.record.digest.encode())
    # First: without it what is left belongs to no application.
    blobs.delete(_COMMIT)
    reach("before_migration_cleared", epoch=epoch)
    clear_migration(blobs)
    return True
