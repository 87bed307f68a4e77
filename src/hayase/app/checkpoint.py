"""The id of a checkpoint and its plan in use, which every start compares with its own."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass

from hayase.app.plan_changes import plan_changed
from hayase.query.checkpoint import PLAN_FORMAT, decoded_checkpoint_id, decoded_plan, format_of
from hayase.query.numbered_plans import (
    NumberedPlan,
    existing_plan,
    has_counted,
    number_in_use,
    plan_numbers,
    read_plan,
)
from hayase.storage.blobs import BlobStore
from hayase.task.plan import partitions_changed
from hayase.topology.earlier import FORMAT, in_format
from hayase.topology.topology import Topology

_CHECKPOINT_ID = "lineage"
_PLAN = "plan.json"


@dataclass(frozen=True, slots=True)
class StoredPlan:
    """The plan in use: that of the first start, or a later one.

    Attributes:
        text: as `Plan.to_json` writes it; that of plan 0 may say its format, too.
        number: 0 for that of the first start.
        document: its shape, and what goes with it; `None` if no program of this release has started with plan 0.
        newest: the highest number that was ever published.
        untried: no epoch of it counts: what it was to delete is there still.
    """

    text: str
    number: int = 0
    document: NumberedPlan | None = None
    newest: int = 0
    untried: bool = False

    def names(self, topology: Topology) -> Topology:
        """The topology with the numbers and names of the first start."""
        return in_format(topology, self.plan_format)

    @property
    def plan_format(self) -> int:
        """See `hayase.topology.earlier`."""
        if self.number and self.document is not None:
            return self.document.plan_format
        return format_of(json.loads(self.text))

    @property
    def plain_text(self) -> str:
        """The text without its format."""
        plan = {name: part for name, part in json.loads(self.text).items() if name != PLAN_FORMAT}
        return json.dumps(plan, sort_keys=True, separators=(",", ":"))

    @property
    def bundles_per_subtopology(self) -> int | None:
        """The most bundles that any sub-topology has."""
        counts: dict[str, int] = {}
        for bundle in json.loads(self.text)["bundles"].values():
            counts[bundle["unit"]] = counts.get(bundle["unit"], 0) + 1
        return max(counts.values(), default=None)

    @property
    def internal_topics(self) -> list[str]:
        """Topics that the application made for itself."""
        return sorted(json.loads(self.text).get("internal", {}))

    def check_partitions(self, topics: Mapping[str, int]) -> None:
        """Check that source topics that are still read have as many partitions as at the first start.

        Raises:
            TopologyError: PARTITIONS_CHANGED.
        """
        for topic, before in json.loads(self.text)["topics"].items():
            if topics.get(topic, before) != before:
                raise partitions_changed(topic, before, topics[topic])


def checkpoint_id_of(blobs: BlobStore) -> str:
    """The id of the checkpoint; made when there is none."""
    blobs.put_if_absent(_CHECKPOINT_ID, uuid.uuid4().hex.encode())
    return decoded_checkpoint_id(blobs.get(_CHECKPOINT_ID) or b"")


def read_checkpoint_id(blobs: BlobStore) -> str | None:
    """The id of the checkpoint; `None` if no application ever started on it."""
    stored = blobs.get(_CHECKPOINT_ID)
    return decoded_checkpoint_id(stored) if stored is not None else None


def stored_plan(blobs: BlobStore) -> StoredPlan | None:
    """The plan in use.

    `None` if no application ever started; raises CheckpointError `CHECKPOINT_CORRUPT` if it is torn.
    """
    data = blobs.get(_PLAN)
    if data is None:
        return None
    decoded_plan(data)
    published = plan_numbers(blobs)
    newest, number = max(published, default=0), number_in_use(blobs)
    if number:
        document = existing_plan(blobs, number)
        return StoredPlan(document.text, number, document, newest, untried=not has_counted(blobs, number))
    return StoredPlan(data.decode(), 0, read_plan(blobs, 0) if 0 in published else None, newest)


def internal_topics_of_all(blobs: BlobStore) -> list[str]:
    """Topics that the application made for itself, with any of its plans."""
    data = blobs.get(_PLAN)
    plans = [] if data is None else [decoded_plan(data)]
    plans += [existing_plan(blobs, number).plan for number in plan_numbers(blobs) if number]
    return sorted({topic for plan in plans for topic in plan.get("internal", {})})


def fix_plan(blobs: BlobStore, application_id: str, text: str, *, new_names: bool) -> None:
    """Store the plan of a first start, or check that this start's is equal.

    Args:
        blobs: the checkpoint.
        application_id: for the error.
        text: the plan.
        new_names: its numbers or names are others than earlier releases gave it (`hayase.topology.earlier`), so it says
            its format.

    Raises:
        CheckpointError: PLAN_CHANGED, with what differs.
    """
    plan = json.loads(text)
    written = {**plan, PLAN_FORMAT: FORMAT} if new_names else plan
    if blobs.put_if_absent(_PLAN, json.dumps(written, sort_keys=True, separators=(",", ":")).encode()):
        return
    stored = stored_plan(blobs)
    assert stored is not None, "a plan is never deleted"
    if json.loads(stored.plain_text) != plan:
        raise plan_changed(application_id, stored.plain_text, text)
