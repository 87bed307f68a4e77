"""What an application finds in its checkpoint when it starts: lineage and plan."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass

from hayase.app.plan_changes import plan_changed
from hayase.core.config import StreamsConfig
from hayase.planner.build import levels_of, make_plan, source_topics
from hayase.planner.compile import compile_units
from hayase.planner.options import compile_options
from hayase.query.checkpoint import PLAN_FORMAT, decoded_lineage, decoded_plan, format_of
from hayase.storage.blobs import BlobStore
from hayase.task.plan import partitions_changed
from hayase.topology.earlier import FORMAT, in_format
from hayase.topology.resolve import has_patterns
from hayase.topology.topology import Topology

_LINEAGE = "lineage"
_PLAN = "plan.json"


@dataclass(frozen=True, slots=True)
class StoredPlan:
    """The plan of the first start: later ones must come to the same."""

    text: str

    def names(self, topology: Topology) -> Topology:
        """The topology with the numbers and names of the first start."""
        return in_format(topology, format_of(json.loads(self.text)))

    @property
    def bundles_per_unit(self) -> int | None:
        """The most bundles that any unit has."""
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


def lineage_of(blobs: BlobStore) -> str:
    """The checkpoint's lineage; made when there is none."""
    blobs.put_if_absent(_LINEAGE, uuid.uuid4().hex.encode())
    found = blobs.get(_LINEAGE)
    assert found is not None
    return decoded_lineage(found)


def read_lineage(blobs: BlobStore) -> str | None:
    """The checkpoint's lineage; `None` if no application ever started on it."""
    found = blobs.get(_LINEAGE)
    return decoded_lineage(found) if found is not None else None


def stored_plan(blobs: BlobStore) -> StoredPlan | None:
    """The plan of the first start; `None` if there was none; raises CheckpointError `CHECKPOINT_CORRUPT` if it is torn."""
    data = blobs.get(_PLAN)
    if data is None:
        return None
    decoded_plan(data)
    return StoredPlan(data.decode())


def fix_plan(blobs: BlobStore, application_id: str, text: str, *, new_names: bool) -> None:
    """Store the plan of a first start, or check that this start comes to the same.

    Args:
        blobs: the checkpoint.
        application_id: for the error.
        text: the plan.
        new_names: its numbers or names are others than earlier releases gave it (`hayase.topology.earlier`), so it says its format.

    Raises:
        CheckpointError: PLAN_CHANGED, with what differs.
    """
    made = json.loads(text)
    written = {**made, PLAN_FORMAT: FORMAT} if new_names else made
    if blobs.put_if_absent(_PLAN, json.dumps(written, sort_keys=True, separators=(",", ":")).encode()):
        return
    stored = stored_plan(blobs)
    assert stored is not None
    before = {name: part for name, part in json.loads(stored.text).items() if name != PLAN_FORMAT}
    if before != made:
        raise plan_changed(application_id, json.dumps(before), text)


def check_plan(blobs: BlobStore, topology: Topology, config: StreamsConfig) -> None:
    """Check that a topology comes to the plan of the first start, without a look at the log: patterns are not resolved, so not checked.

    Raises:
        CheckpointError: `PLAN_CHANGED`, with what differs.
    """
    stored = stored_plan(blobs)
    if stored is None or has_patterns(topology):
        return
    topology = stored.names(topology)
    plan = json.loads(stored.text)
    known = {**plan["topics"], **plan.get("internal", {})}
    compiled = compile_units(topology, levels_of(topology), compile_options(config))
    topics = {topic: known.get(topic, 1) for topic in source_topics(topology)}
    made = make_plan(topology, topics, compiled, threads=1, bundles_per_unit=stored.bundles_per_unit)
    fix_plan(blobs, config.application_id, made.to_json(), new_names=False)  # it has one already
