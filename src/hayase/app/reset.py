"""Starting an application over: everything it remembers is removed, the topics of others are left alone."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from hayase.app.checkpoint import stored_plan
from hayase.app.remote import forget_note
from hayase.core.config import StreamsConfig
from hayase.log.protocol import Log
from hayase.query.checkpoint import followers_folder, history_folder, workers_folder
from hayase.runtime.lease import Lease
from hayase.storage.open import open_blobs
from hayase.storage.posix_blobs import PosixBlobs

_CONTENT = ("lineage", "plan.json", "epochs", "changelog", "snapshots", "programs", "probe", ".tmp")
"""What a checkpoint holds besides the lease."""


@dataclass(frozen=True, slots=True)
class ResetPlan:
    """What a reset removes.

    Attributes:
        application_id: of the application.
        checkpoint: its checkpoint: which epochs are through, changes of state, snapshots.
        state: its local state.
        copies: states of older epochs, and followers.
    """

    application_id: str
    checkpoint: Path
    state: Path
    copies: tuple[Path, ...] = ()

    @property
    def present(self) -> tuple[Path, ...]:
        """The folders that are there."""
        return tuple(folder for folder in (self.checkpoint, self.state, *self.copies) if folder.exists())


def plan_reset(config: StreamsConfig) -> ResetPlan:
    """What a reset of the application with these settings would remove."""
    blobs = open_blobs(config.checkpoint_dir, fsync=False)
    assert isinstance(blobs, PosixBlobs)
    copies = (history_folder(config), followers_folder(config))
    return ResetPlan(config.application_id, Path(blobs.root), workers_folder(config), copies)


def reset_application(config: StreamsConfig, log: Log) -> ResetPlan:
    """Remove checkpoint, local state, internal topics, and the log's markers and committed offsets.

    The next start reads from the beginning. Other topics are not touched: what the application wrote stays, and the
    next run writes it again behind that. Internal topics are those that the plan in the checkpoint names.
    May be repeated; an interrupted reset is finished by the next.

    Raises:
        LeaseHeldError: the application is running.
    """
    plan = plan_reset(config)
    if plan.checkpoint.exists():
        with Lease(plan.checkpoint, config.application_id):
            _delete_internal_topics(config, log)
            # The checkpoint goes next: without it, markers and state that are left belong to nobody. Markers that went
            # first would let an epoch that is open write its outputs twice.
            _empty(plan.checkpoint, _CONTENT)
            _remove_state(plan)
            log.delete_markers(config.application_id)
            _empty(plan.checkpoint, ("lease",))
        _remove_if_empty(plan.checkpoint)
    else:
        _remove_state(plan)
        log.delete_markers(config.application_id)
    forget_note(config)
    return plan


def _delete_internal_topics(config: StreamsConfig, log: Log) -> None:
    """Only the checkpoint knows their names, so they go before it."""
    stored = stored_plan(open_blobs(config.checkpoint_dir, fsync=False))
    internal = stored.internal_topics if stored is not None else []
    for topic in log.describe(internal):
        log.delete_topic(topic)


def _remove_state(plan: ResetPlan) -> None:
    for folder in (plan.state, *plan.copies):
        if folder.exists():
            shutil.rmtree(folder)


def _empty(checkpoint: Path, names: tuple[str, ...]) -> None:
    """Remove what Hayase keeps there, and nothing else that may be in the folder."""
    for name in names:
        item = checkpoint / name
        if item.is_dir() and not item.is_symlink():
            shutil.rmtree(item)
        else:
            item.unlink(missing_ok=True)


def _remove_if_empty(folder: Path) -> None:
    try:
        folder.rmdir()
    except OSError:
        return
