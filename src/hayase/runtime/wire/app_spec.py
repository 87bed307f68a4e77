"""What travels to workers: the application, once, by digest."""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from hayase.compiler.options import CompileOptions
from hayase.core.config import OnRangeLost
from hayase.core.errors import CheckpointError, ConfigError
from hayase.core.kafka_security import client_secrets
from hayase.core.offset_reset import AutoOffsetReset
from hayase.core.private_files import Access
from hayase.core.secrets import Vault, known_secrets
from hayase.log.protocol import LogConfig
from hayase.runtime.wire.endpoints import RunEndpoints
from hayase.runtime.wire.log_relay import log_to_driver
from hayase.runtime.wire.pickling import pickled, unpickled
from hayase.runtime.wire.unpicklable import unpicklable_part
from hayase.runtime.wire.whole_objects import check_whole
from hayase.serde.protocol import Serde
from hayase.state.changelog.snapshot_policy import SnapshotPolicy
from hayase.state.environment.folders import StateFolders
from hayase.storage.blobs import BlobStore
from hayase.task.compiled_subtopology import FailurePolicy
from hayase.task.plan import Plan
from hayase.topology.topology import Topology

_LOG = logging.getLogger("hayase.runtime")

_PROGRAMS = "programs/"
_CHECKED_LENGTH_MIN = 8
"""Secrets that are shorter may well be part of something else."""
STATE_DIR_VARIABLE = "HAYASE_STATE_DIR"
"""Environment variable of a cluster's executors.

Where state is on that machine, in place of the setting `state.dir`.
"""


@dataclass(frozen=True)
class AppSpec:
    """Everything that a worker or the epoch planner needs to know.

    Attributes:
        folders: where workers keep states.
        endpoints: of the run.
        followers_dir: folder with the followers on this machine; a worker whose state is missing copies theirs.
        span_max_ms: how long a Spark job may go on with more epochs; 0: one epoch a job.
        resets: topic → where the first epoch begins.
        recording_level: which metrics are recorded.
        files_access: what a group may do in the folders of the application; see `hayase.core.private_files`.
        term: of the run, see `hayase.runtime.epochs.terms`.
        on_range_lost: what happens where records between two epochs are gone.
        log_level: the least level that they send.
        max_poll_interval_ms: how long a step may be without progress.
        task_timeout_ms: how long brokers and stores that are away are waited for.
        machine: that of the driver, as `current_boot_id` knows it.
        cluster: whether workers may be on other machines.
        state_root: the setting `state.dir`, which `folders.disk` and `followers_dir` are below.
        snapshots: when a bundle's snapshot is due.
        slots: how many Python tasks run at once; bundles of a level are assigned to them.
        first_slot: the slot of the first bundle; topologies of a shared runtime begin at different ones.
        spark_serdes: topic of a `to_spark` → serdes that read keys and values.
        plan_number: of the plan; see `hayase.query.numbered_plans`.
        plan_positions: of bundles, where these are not those in the plan; see `EpochWriter.publish_epoch`.
        former_topics: source topics of earlier plans that this one does not read.
        deleted_bundles: those of earlier plans whose rows are deleted once this one is in use.
        finishes: an epoch that this program began, and that it is to finish before another one goes on.
        drains: internal topics that it is to empty before another one goes on; nothing else is read meanwhile.
    """

    application_id: str
    checkpoint_id: str
    topology: Topology
    plan: Plan
    options: CompileOptions
    policy: FailurePolicy
    log: LogConfig
    checkpoint: str
    checkpoint_fsync: bool
    folders: StateFolders
    followers_dir: str
    endpoints: RunEndpoints
    exactly_once: bool
    slots: int
    max_records_per_epoch: int
    max_task_idle_ms: int
    commit_interval_ms: int
    span_max_ms: int
    resets: Mapping[str, AutoOffsetReset]
    history_retention_ms: int
    purge_interval_ms: int
    epoch_memory_max_bytes: int
    recording_level: str = "INFO"
    log_level: str = "WARNING"
    term: int = 0
    on_range_lost: OnRangeLost = "fail"
    max_poll_interval_ms: int = 300_000
    task_timeout_ms: int = 300_000
    machine: str = ""
    cluster: bool = False
    files_access: Access | None = None
    state_root: str = ""
    snapshots: SnapshotPolicy = field(default_factory=SnapshotPolicy)
    first_slot: int = 0
    spark_serdes: Mapping[str, tuple[Serde, Serde]] = field(default_factory=dict)
    plan_number: int = 0
    plan_positions: Mapping[str, int] = field(default_factory=dict)
    former_topics: frozenset[str] = frozenset()
    deleted_bundles: tuple[str, ...] = ()
    finishes: int | None = None
    drains: frozenset[str] = frozenset()

    @property
    def hands_over(self) -> bool:
        """Whether another program goes on when this one has done what is left to it."""
        return self.finishes is not None or bool(self.drains)

    def on_this_machine(self, folder: str) -> Path:
        """In a worker: where a folder below `state.dir` is here."""
        here = os.environ.get(STATE_DIR_VARIABLE, "") if self.cluster else ""
        return Path(here).absolute() / Path(folder).relative_to(self.state_root) if here else Path(folder)

    def folders_here(self) -> StateFolders:
        """In a worker: where states are on this machine."""
        if not self.cluster:
            return self.folders
        disk = self.on_this_machine(str(self.folders.disk))
        # On machines where the program is not, no process would give memory back.
        return StateFolders(disk, disk / "memory")

    def log_to_driver(self) -> None:
        """In a worker, or the planner: have what is logged sent to the driver."""
        fields = {"application_id": self.application_id}
        log_to_driver(self.endpoints.log_address, self.log_level, fields, self.secrets())

    def secrets(self) -> tuple[str, ...]:
        """What must not be shown, as far as it can be seen in this process."""
        options = self.options
        given = (*known_secrets(options.registry_settings), *known_secrets(options.app_configs))
        return (*client_secrets(self.log.options), *given)

    def slot_of_bundles(self) -> dict[str, int]:
        """Which slot runs a bundle."""
        return slot_of_bundles(self.plan, self.first_slot, self.slots)

    def to_bytes(self) -> bytes:
        """Pickled, with the user's functions and classes.

        Raises:
            ConfigError: NOT_PICKLABLE: something in the topology cannot be sent to workers.
        """
        return _pickled(self, self.topology)

    def publish(self, blobs: BlobStore, vault: Vault) -> str:
        """Put it where workers find it; returns its digest. Secrets of the settings stay in the vault."""
        with vault.sealing():
            data = self.to_bytes()
        if any(len(secret) >= _CHECKED_LENGTH_MIN and secret.encode() in data for secret in self.secrets()):
            _LOG.warning(
                "the value of a secret setting is also in a function or object of the topology, which is kept in the "
                "checkpoint: have the function read it where it is used, from the environment for example",
                extra={"application_id": self.application_id},
            )
        digest = _digest(data)
        blobs.put_if_absent(program_name(digest), data)
        return digest


def slot_of_bundles(plan: Plan, first_slot: int, slots: int) -> dict[str, int]:
    """Which of so many slots runs a bundle: those of a level are assigned in turn."""
    levels: dict[int, list[str]] = {}
    for bundle in plan.bundles:
        levels.setdefault(bundle.level, []).append(bundle.id)
    return {
        bundle: (first_slot + number) % slots
        for bundles_of_level in levels.values()
        for number, bundle in enumerate(bundles_of_level)
    }


def check_picklable(topology: Topology) -> None:
    """Check that a topology can be sent to workers; raises ConfigError `NOT_PICKLABLE`."""
    _pickled(topology, topology)


def _pickled(what: object, topology: Topology) -> bytes:
    try:
        return pickled(what)
    except Exception as error:  # pickling fails in as many ways as there are objects
        culprit = unpicklable_part(topology)
        raise ConfigError(
            "NOT_PICKLABLE",
            f"the topology cannot be sent to Spark's workers: {culprit} ({error}). Functions and objects of a "
            "topology may not hold open files, locks, connections or Spark objects; make such things inside the "
            "function, or in a processor's init",
            node=culprit.node,
        ) from error


def delete_other_programs(blobs: BlobStore, digest: str) -> None:
    """Delete what earlier starts shipped; call it with the application's lease held, once `digest` is published.

    No process needs them: an epoch that was left open is finished by the program of this start, whose plan is the same
    (see `programs`), and the holder of the lease has outlived the others. A worker that an ended run left behind has
    loaded its program already; one that has not can only fail, and its driver is gone.
    """
    for name in blobs.list(_PROGRAMS):
        if name != program_name(digest):
            blobs.delete(name)


def programs(blobs: BlobStore) -> Iterator[AppSpec]:
    """The programs that earlier starts shipped and that are there still, as far as they can be loaded here."""
    for name in blobs.list(_PROGRAMS):
        try:
            program = load_app_spec(blobs, name.removeprefix(_PROGRAMS))
            check_whole(program)
        except Exception as error:  # code of the user, which may be gone or made for other versions
            _LOG.debug("%s cannot be loaded: %s", name, error)
        else:
            yield program


def program_name(digest: str) -> str:
    """Blob name of a shipped application."""
    return f"{_PROGRAMS}{digest}"


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def load_app_spec(blobs: BlobStore, digest: str) -> AppSpec:
    """The application of that digest.

    Raises:
        ConfigError: it is not there; checkpoint.dir must be the same path on every machine.
        CheckpointError: `PROGRAM_DAMAGED`.
    """
    data = blobs.get(program_name(digest))
    if data is None:
        raise ConfigError(
            "PROGRAM_NOT_FOUND",
            "a worker cannot read the checkpoint; checkpoint.dir must be a path that every machine sees",
        )
    if _digest(data) != digest:
        raise CheckpointError(
            "PROGRAM_DAMAGED",
            f"{program_name(digest)} in the checkpoint is damaged ({len(data)} bytes, wrong digest). Start the "
            "application again: every start writes its program again",
        )
    loaded = unpickled(data)
    assert isinstance(loaded, AppSpec)
    return loaded
