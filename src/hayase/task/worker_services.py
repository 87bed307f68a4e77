"""What a bundle has of the process that runs it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from hayase.log.protocol import EpochWriter, LogReader
from hayase.state.changelog.changelog import Changelog
from hayase.state.delta.delta import Delta
from hayase.state.environment.bundle import BundleState
from hayase.state.environment.folders import StateFolders
from hayase.storage.blobs import BlobStore
from hayase.task.compiled_subtopology import FailurePolicy


class WorkerServices(Protocol):
    """What the process that runs a bundle offers; kept from epoch to epoch."""

    application_id: str
    checkpoint_id: str
    exactly_once: bool
    policy: FailurePolicy
    blobs: BlobStore
    folders: StateFolders
    epoch_memory_max_bytes: int
    recording_level: str

    def reader(self) -> LogReader:
        """The process's reader."""
        ...

    def writer(self) -> EpochWriter:
        """The process's writer."""
        ...

    def partitions_of(self, topic: str) -> int:
        """How many partitions a topic of the log has; raises UnknownTopicError."""
        ...

    def state_copies(self, bundle: str) -> Sequence[Path]:
        """Folders of other states of a bundle on this machine; a state that is missing begins as a copy of one."""
        ...

    def after_apply(self, state: BundleState, changelog: Changelog, delta: Delta) -> None:
        """Called when a delta has been applied: time for a snapshot, perhaps."""
        ...
