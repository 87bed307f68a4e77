"""The plans of a checkpoint, by number, and which one is in use.

Plan 0 is `plan.json`, of the first start. A program that changes the topology publishes the next one in `plans/`,
created once and never changed or deleted. The plan in use is the one that the newest epoch record names: what no record
names has never been used. `plans/` also has the shape of plan 0, which `plan.json` does not say.
"""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import msgspec

from hayase.compiler.plan_matching import match
from hayase.compiler.plan_shape import PlanShape, shape_of
from hayase.core.decoding import decode_json
from hayase.core.errors import CheckpointError
from hayase.storage.blobs import BlobStore
from hayase.storage.checksum import with_checksum, without_checksum
from hayase.storage.numbered_names import numbers_of
from hayase.task.epoch_record import Epochs
from hayase.topology.graph import KeptNames
from hayase.topology.topology import Topology

PLANS_FOLDER = "plans/"
_DIGITS = 6


class NumberedPlan(msgspec.Struct, frozen=True):
    """A plan beyond its text.

    Attributes:
        number: of the plan; 0 is that of the first start.
        shape: of its topology.
        plan: as `Plan.to_json` writes it, decoded; empty for plan 0, which is in `plan.json`.
        plan_format: see `hayase.topology.earlier`.
        plan_positions: of bundles, also of those of earlier plans; see `EpochWriter.publish_epoch`.
        former_topics: source topics of earlier plans that it does not read.
        deleted_bundles: those of earlier plans whose rows are deleted once this one is in use.
    """

    number: int
    shape: PlanShape
    plan: dict[str, Any] = {}
    plan_format: int = 1
    plan_positions: dict[str, int] = msgspec.field(default={}, name="places")
    former_topics: tuple[str, ...] = ()
    deleted_bundles: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The plan as `Plan.to_json` writes it."""
        return json.dumps(self.plan, sort_keys=True, separators=(",", ":"))


def plan_numbers(blobs: BlobStore) -> list[int]:
    """Numbers of the plans in `plans/`, ascending."""
    return sorted(numbers_of(blobs.list(PLANS_FOLDER), PLANS_FOLDER, _DIGITS))


def number_in_use(blobs: BlobStore) -> int:
    """The plan of the newest epoch record; 0 if there is no record."""
    epochs = Epochs(blobs)
    record = epochs.record(max(epochs.recorded(), default=-1))
    return record.plan_number if record is not None else 0


def has_counted(blobs: BlobStore, number: int) -> bool:
    """Whether the plan in use has epochs that are done and count: not if it has only begun some, or they are redone."""
    epochs = Epochs(blobs)
    last_done = epochs.last_done()
    for epoch in sorted(epochs.recorded(), reverse=True):
        record = epochs.record(epoch)
        if record is None or record.plan_number != number:
            return False
        if epoch <= last_done and not epochs.is_redone(epoch):
            return True
    return False


def read_plan(blobs: BlobStore, number: int) -> NumberedPlan | None:
    """A plan; `None` if it is not there, as of plan 0 where no program of this release has started.

    Raises:
        CheckpointError: `CHECKPOINT_CORRUPT`: it is damaged.
    """
    data = blobs.get(_name(number))
    if data is None:
        return None
    body = without_checksum(data)
    try:
        if body is not None:
            return decode_json(body, as_type=NumberedPlan)
    except msgspec.MsgspecError:  # its checksum is right, so a later release wrote it
        pass
    raise _damaged(number, f"is damaged ({len(data)} bytes)")


def existing_plan(blobs: BlobStore, number: int) -> NumberedPlan:
    """A plan that an epoch record names.

    Raises:
        CheckpointError: `CHECKPOINT_CORRUPT`: it is missing or damaged.
    """
    plan = read_plan(blobs, number)
    if plan is None:
        raise _damaged(number, "is missing, and epoch records name it")
    return plan


def publish_plan(blobs: BlobStore, plan: NumberedPlan) -> bool:
    """Create a plan; whether it was not there."""
    return blobs.put_if_absent(_name(plan.number), with_checksum(msgspec.json.encode(plan)))


def with_kept_ids(topology: Topology, ids: dict[str, str], shape: PlanShape | None = None) -> Topology:
    """The topology with ids of a checkpoint, and with the clocks and the deleted stores of a shape."""
    parts = {} if shape is None else shape.subtopologies
    clocks = {name: part.clocks for name, part in parts.items() if part.clocks}
    deleted = {name: part.deleted for name, part in parts.items() if part.deleted}
    if not (clocks or deleted) and all(natural == kept for natural, kept in ids.items()):
        return topology
    return dataclasses.replace(topology, kept=KeptNames(ids, clocks, deleted))


def as_in(shape: PlanShape, topology: Topology) -> Topology:
    """A topology with the ids of a plan, for what reads its stores."""
    return with_kept_ids(topology, match(shape, shape_of(topology)).ids, shape)


def _name(number: int) -> str:
    return f"{PLANS_FOLDER}{number:0{_DIGITS}d}"


def _damaged(number: int, how: str) -> CheckpointError:
    return CheckpointError(
        "CHECKPOINT_CORRUPT",
        f"{_name(number)} in the checkpoint {how}. Restore it from a copy, or start over with `hayase app reset`",
    )
