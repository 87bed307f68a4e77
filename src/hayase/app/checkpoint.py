"""The id and the plan of a checkpoint, which every start compares with its own."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass

from hayase.app.plan_changes import plan_changed
from hayase.compiler.build import make_plan, source_topics
from hayase.compiler.compile import compile_subtopologies
from hayase.compiler.options import compile_options
from hayase.core.config import StreamsConfig
from hayase.query.checkpoint import PLAN_FORMAT, decoded_checkpoint_id, decoded_plan, format_of
from hayase.storage.blobs import BlobStore
from hayase.task.plan import partitions_changed
from hayase.topology.earlier import FORMAT, in_format
from hayase.topology.resolve import has_patterns
from hayase.topology.topology import Topology

_CHECKPOINT_ID = "lineage"
_PLAN = "plan.json"


@dataclass(frozen=True, slots=True)
class StoredPlan:
    """The plan of the first start: those of later starts must be equal."""

    text: str

    def names(self, topology: Topology) -> Topology:
        """The topology with the numbers and names of the first start."""
        return in_format(topology, format_of(json.loads(self.text)))

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
    """The plan of the first start.

    `None` if there was none; raises CheckpointError `CHECKPOINT_CORRUPT` if it is torn.
    """
    data = blobs.get(_PLAN)
    if data is None:
        return None
    decoded_plan(data)
    return StoredPlan(data.decode())


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
    before = {name: part for name, part in json.loads(stored.text).items() if name != PLAN_FORMAT}
    if before != plan:
        raise plan_changed(application_id, json.dumps(before), text)


def check_plan(blobs: BlobStore, topology: Topology, config: StreamsConfig) -> None:
    """Check that a topology comes to the plan of the first start, without a look at the log.

    Patterns are not resolved, so not checked.

    Raises:
        CheckpointError: `PLAN_CHANGED`, with what differs.
    """
    stored = stored_plan(blobs)
    if stored is None or has_patterns(topology):
        return
    topology = stored.names(topology)
    plan = json.loads(stored.text)
    known = {**plan["topics"], **plan.get("internal", {})}
    compiled = compile_subtopologies(topology, compile_options(config))
    topics = {topic: known.get(topic, 1) for topic in source_topics(topology)}
    plan_now = make_plan(topology, topics, compiled, threads=1, bundles_per_subtopology=stored.bundles_per_subtopology)
    fix_plan(blobs, config.application_id, plan_now.to_json(), new_names=False)  # it has one already
