"""The readers' view of an application's checkpoint: its id, bundles, epochs."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from hayase.compiler.build import subtopologies_by_id
from hayase.compiler.plan_shape import PlanShape
from hayase.core.config import StreamsConfig
from hayase.core.errors import CheckpointError, StateError, UnknownStoreError
from hayase.core.objects import JsonObject
from hayase.query.local_folders import state_folders
from hayase.query.numbered_plans import as_in, existing_plan, number_in_use, plan_numbers
from hayase.state.environment.folders import logged_in_memory
from hayase.state.stores.spec import StoreSpec
from hayase.storage.blobs import BlobStore
from hayase.storage.open import open_blobs
from hayase.task.epoch_record import Epochs
from hayase.topology.earlier import FORMAT, in_format
from hayase.topology.topology import Topology

PLAN_FORMAT = "format"
"""The field of a plan that says its format."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint on which an application has started.

    Attributes:
        blobs: where it is.
        application_id: whose.
        checkpoint_id: its identity.
        tasks: ids of the tasks by bundle.
        subtopologies: the sub-topology of each bundle.
        plan_format: of its plan; see `hayase.topology.earlier`.
        plan_number: of the plan in use.
        shape: of the plan in use; `None` if it is plan 0, whose ids are those that a builder gives.
    """

    blobs: BlobStore
    application_id: str
    checkpoint_id: str
    tasks: dict[str, tuple[str, ...]]
    subtopologies: dict[str, str]
    plan_format: int = FORMAT
    plan_number: int = 0
    shape: PlanShape | None = None

    def names(self, topology: Topology) -> Topology:
        """The topology with the numbers and names that it was started with."""
        topology = in_format(topology, self.plan_format)
        return topology if self.shape is None else as_in(self.shape, topology)

    @property
    def epochs(self) -> Epochs:
        """Which epochs are complete."""
        return Epochs(self.blobs)

    def bundles_of(self, subtopology: str) -> list[str]:
        """The bundles of a sub-topology."""
        return [bundle for bundle, name in self.subtopologies.items() if name == subtopology]


def find_checkpoint(blobs: BlobStore, application_id: str) -> Checkpoint | None:
    """The checkpoint; `None` if no application ever started on it."""
    plan, checkpoint_id = blobs.get("plan.json"), blobs.get("lineage")
    if plan is None or checkpoint_id is None:
        return None
    # Records are many, and read only where there is a plan that they may name.
    numbers = plan_numbers(blobs)
    number, shape = number_in_use(blobs) if max(numbers, default=0) else 0, None
    decoded = decoded_plan(plan)
    plan_format = format_of(decoded)
    if number:
        numbered = existing_plan(blobs, number)
        decoded, plan_format, shape = numbered.plan, numbered.plan_format, numbered.shape
    elif 0 in numbers:
        shape = existing_plan(blobs, 0).shape  # a reader may have made the same parts in another order
    bundles = decoded["bundles"]
    tasks = {bundle: tuple(details["tasks"]) for bundle, details in bundles.items()}
    subtopologies = {bundle: details["unit"] for bundle, details in bundles.items()}
    return Checkpoint(
        blobs, application_id, decoded_checkpoint_id(checkpoint_id), tasks, subtopologies, plan_format, number, shape
    )


def decoded_plan(data: bytes) -> JsonObject:
    """The plan in a checkpoint; raises CheckpointError `CHECKPOINT_CORRUPT` if a power loss has torn it."""
    try:
        plan: JsonObject = json.loads(data)
    except ValueError as error:
        raise _torn("plan.json", data) from error
    return plan


def format_of(plan: JsonObject) -> int:
    """The format of a decoded plan: 1 if it does not say."""
    return int(plan.get(PLAN_FORMAT, 1))


def decoded_checkpoint_id(data: bytes) -> str:
    """The id in a checkpoint; raises CheckpointError `CHECKPOINT_CORRUPT` if a power loss has torn it."""
    if not data.isalnum():
        raise _torn("lineage", data)
    return data.decode()


def _torn(name: str, data: bytes) -> CheckpointError:
    return CheckpointError(
        "CHECKPOINT_CORRUPT",
        f"{name} in the checkpoint is damaged ({len(data)} bytes, beginning with {data[:16]!r}): it was not on the "
        "disk when the power failed (checkpoint.fsync=false?). Restore it from a copy, or start over with `hayase "
        "app reset`",
    )


def open_checkpoint(config: StreamsConfig) -> Checkpoint:
    """The checkpoint of an application with these settings.

    Raises:
        StateError: `NO_STATE`: it never started.
    """
    checkpoint = find_checkpoint(open_blobs(config.checkpoint_dir, fsync=False), config.application_id)
    if checkpoint is None:
        raise StateError(
            "NO_STATE",
            f"application {config.application_id!r} never started on {config.checkpoint_dir}; start it first",
        )
    return checkpoint


def subtopology_of_store(topology: Topology, store: str) -> str:
    """The sub-topology that has a store.

    Raises:
        UnknownStoreError: none has.
    """
    if store not in topology.stores:
        raise UnknownStoreError(
            "UNKNOWN_STORE",
            f"the topology has no store {store!r}; it has {sorted(topology.stores)}. Name one with "
            "Materialized.as_(...)",
        )
    for subtopology, part in subtopologies_by_id(topology).items():
        if store in part.store_names:
            return subtopology
    raise UnknownStoreError("UNKNOWN_STORE", f"no node uses the store {store!r}")


def check_store(topology: Topology, store: str) -> None:
    """Check, before there is a checkpoint, that a topology has a store, also by the name of earlier releases.

    Raises:
        UnknownStoreError: it has none.
    """
    if topology.earlier is None or store not in topology.earlier.stores:
        subtopology_of_store(topology, store)


def stores_of_subtopology(topology: Topology, subtopology: str) -> list[StoreSpec]:
    """The stores that a sub-topology's nodes write."""
    part = subtopologies_by_id(topology).get(subtopology)
    return [] if part is None else [topology.stores[name] for name in part.store_names]


def state_of_store(topology: Topology, store: str, bundle: str) -> str:
    """What a source calls the state of a bundle that holds a store.

    The bundle's name, unless the store has no changelog.
    """
    spec = topology.stores[store]
    if spec.logging:
        return bundle
    return f"{bundle}/unlogged-{spec.store_type}"


def folder_of_store(topology: Topology, config: StreamsConfig, store: str, bundle: str) -> Path:
    """Where a bundle's workers keep a store; several stores may share it."""
    spec, folders = topology.stores[store], state_folders(config)
    if not spec.logging:
        return folders.unlogged(bundle, in_memory=spec.in_memory)
    stores = stores_of_subtopology(topology, subtopology_of_store(topology, store))
    return folders.logged(bundle, in_memory=logged_in_memory(stores))


def check_logged(topology: Topology, names: Iterable[str]) -> None:
    """That all those stores have changelogs, from which copies can be made.

    Raises:
        StateError: `STORE_NOT_LOGGED`.
    """
    for name in names:
        if name in topology.stores and not topology.stores[name].logging:
            raise StateError(
                "STORE_NOT_LOGGED",
                f"store {name!r} has no changelog (with_logging_disabled), so there are no copies of it: no follower "
                "has it, and it cannot be read as of an older epoch. Read it as it is now, where the application "
                "runs, or let it have a changelog",
                store=name,
            )
