"""Starting an application over: everything it remembers is removed, the topics of others are left alone."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from hayase.app.checkpoint import internal_topics_of_all, stored_plan
from hayase.app.run_status import forget_note
from hayase.core.config import StreamsConfig
from hayase.core.errors import CheckpointError
from hayase.core.records import TopicPartition
from hayase.dsl.graph import REPARTITION_SUFFIX
from hayase.log.protocol import Log
from hayase.query.follower_replica import is_running
from hayase.query.local_folders import followers_folder, history_folder, state_folders
from hayase.runtime.driver.lease import lease_for
from hayase.runtime.epochs.log_ownership import forget_claims
from hayase.storage.blobs import BlobStore
from hayase.storage.open import open_blobs
from hayase.task.epoch_record import Epochs

_FILES = ("lineage", "plan.json")
_FOLDERS = (
    "epochs/",
    "changelog/",
    "snapshots/",
    "programs/",
    "plans/",
    "schemas/",
    "edges/",
    "claims/",
    "migration/",
    "spark/",
    "probe/",
    "floor/",
    "terms/",
    "amendments/",
    "redo/",
    "positions/",
    "sql/",
)
"""The entries of a checkpoint besides the lease."""


@dataclass(frozen=True, slots=True)
class ResetPlan:
    """The data that a reset removes.

    Attributes:
        application_id: of the application.
        checkpoint: its checkpoint, a folder or URL: which epochs are complete, changes of state, snapshots.
        state: its local state.
        copies: stores without changelog, those in memory, states of older epochs, and followers.
        present: those of all these that are there.
    """

    application_id: str
    checkpoint: str
    state: Path
    copies: tuple[Path, ...]
    present: tuple[str, ...]


def plan_reset(config: StreamsConfig) -> ResetPlan:
    """The data that a reset of the application with these settings would remove.

    Raises:
        ConfigError, StorageError: the checkpoint cannot be looked at.
    """
    return _plan(config, open_blobs(config.checkpoint_dir, fsync=False))


def is_in_log(config: StreamsConfig, log: Log) -> bool:
    """Whether the log remembers anything of an application: markers of its outputs, or committed offsets."""
    return bool(log.markers(config.application_id, wait=False) or log.group_offsets(config.application_id))


def reset_application(config: StreamsConfig, log: Log) -> ResetPlan:
    """Remove checkpoint, local state, internal topics, and the log's markers and committed offsets.

    The next start reads from the beginning. Other topics are not touched: what the application wrote stays, and the
    next run writes it again behind that. Internal topics are those that the plan in the checkpoint names.
    May be repeated; an interrupted reset is finished by the next.

    Raises:
        LeaseHeldError: the application is running.
        ConfigError, StorageError: the checkpoint cannot be read or emptied.
    """
    blobs = open_blobs(config.checkpoint_dir, fsync=False)
    plan = _plan(config, blobs)
    if blobs.is_empty():
        _remove_state(plan)
        log.delete_markers(config.application_id)
    else:
        with lease_for(blobs, config.application_id) as lease:
            _delete_internal_topics(blobs, log)
            # The checkpoint goes next: without it, markers and state that are left belong to no application. Markers
            # that went first would let an epoch that is open write its outputs twice.
            for name in _FILES:
                blobs.delete(name)
            for folder in _FOLDERS:
                blobs.delete_below(folder)
            _remove_state(plan)
            log.delete_markers(config.application_id)
            lease.forget()
    blobs.tidy()
    forget_note(config)
    return plan


def forget_markers(config: StreamsConfig, log: Log) -> None:
    """Remove only what the log remembers of an application: its markers and committed offsets.

    Checkpoint and state stay.

    For a checkpoint that was restored from an older copy (`CHECKPOINT_OLDER_THAN_LOG`): the next run goes on with the
    copy's last epoch, and what was written since then is written again. And for a log that was
    (`LOG_OLDER_THAN_CHECKPOINT`): the next run goes on where the checkpoint is, and what the log lost stays lost.

    Raises:
        CheckpointError: `INTERNAL_TOPIC_AHEAD`: records of a repartition, which epochs after the copy may have written,
            would be counted twice.
        LeaseHeldError: the application is running.
        ConfigError, StorageError: the checkpoint cannot be read.
    """
    blobs = open_blobs(config.checkpoint_dir, fsync=False)
    with lease_for(blobs, config.application_id):
        _check_repartitions(blobs, log)
        forget_claims(blobs)  # first: without them a log without markers is no older copy
        log.delete_markers(config.application_id)


def _check_repartitions(blobs: BlobStore, log: Log) -> None:
    """Records behind the newest epoch's position may be of that epoch or of later ones, and nothing tells them apart.

    Answers of foreign-key joins are left out: they say which row they are for, so one that comes twice changes nothing.
    """
    epochs, stored = Epochs(blobs), stored_plan(blobs)
    record = epochs.positions(max(epochs.recorded(), default=-1))
    if record is None or stored is None:
        return
    for topic in stored.internal_topics:
        ranges = record.ranges.get(topic, {}) if topic.endswith(REPARTITION_SUFFIX) and log.describe([topic]) else {}
        ends = log.end_offsets([TopicPartition(topic, partition) for partition in ranges])
        ahead = sum(max(ends[TopicPartition(topic, partition)] - end, 0) for partition, (_, end) in ranges.items())
        if ahead:
            raise CheckpointError(
                "INTERNAL_TOPIC_AHEAD",
                f"topic {topic!r} holds {ahead} records that epochs of after the restored copy may have written: the "
                "next start would process them, and write them again. Nothing was changed. Restore the newest copy "
                "of the checkpoint, or start over with `hayase app reset`",
                topic=topic,
                epoch=record.epoch,
            )


def _plan(config: StreamsConfig, blobs: BlobStore) -> ResetPlan:
    folders = state_folders(config)
    state = folders.disk / "state"
    copies = (folders.disk / "unlogged", folders.memory, history_folder(config), followers_folder(config))
    present = [] if blobs.is_empty() else [config.checkpoint_dir]
    present += [str(folder) for folder in (state, *copies) if folder.exists()]
    return ResetPlan(config.application_id, config.checkpoint_dir, state, copies, tuple(present))


def _delete_internal_topics(blobs: BlobStore, log: Log) -> None:
    """Only the checkpoint knows their names, so they go before it; if it is torn, nothing does."""
    try:
        internal = internal_topics_of_all(blobs)
    except CheckpointError:
        internal = []
    for topic in log.describe(internal):
        log.delete_topic(topic)


def _remove_state(plan: ResetPlan) -> None:
    for folder in (plan.state, *plan.copies):
        if folder.exists():
            _remove(folder)


def _remove(folder: Path) -> None:
    """Remove a folder, but not followers at work in it: they empty themselves when the application begins again."""
    running = [each for each in folder.iterdir() if is_running(each)]
    for item in folder.iterdir():
        if item.is_dir() and item not in running:
            shutil.rmtree(item)
        elif not item.is_dir():
            item.unlink(missing_ok=True)
    if not running:
        folder.rmdir()
