"""What runs where, as plain data. Stored with the checkpoint when an application first starts; fixed from then on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from hayase.core.errors import TopologyError

Form = Literal["rows", "columns"]


@dataclass(frozen=True, slots=True)
class TaskPlan:
    """One partition of one sub-topology (or a global table), and what it reads.

    Attributes:
        id: `0_1` as in Kafka Streams; `global_0` for a global table.
        subtopology: id of its sub-topology or global table, see `Plan.subtopologies`.
        topic_partitions: `(source node, topic, partition)` of the log, sources in the topology's order.
        edges: `(source node, repartition topic)` it receives rows of.
    """

    id: str
    subtopology: str
    partition: int
    topic_partitions: tuple[tuple[str, str, int], ...]
    edges: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class SubtopologyPlan:
    """A sub-topology or a global table: what planning epochs needs of it. How it runs says `CompiledSubtopology`.

    Attributes:
        global_store, journalled, definition: see CompiledSubtopology.
    """

    id: str
    level: int
    nodes: tuple[str, ...]
    partitions: int
    global_store: str | None = None
    journalled: bool = False
    definition: str = ""


@dataclass(frozen=True, slots=True)
class BundlePlan:
    """Tasks of one sub-topology that are scheduled, stored and published together."""

    id: str
    level: int
    subtopology: str
    tasks: tuple[TaskPlan, ...]


@dataclass(frozen=True)
class Plan:
    """Sub-topologies, bundles, and the partition counts they were made for."""

    subtopologies: Mapping[str, SubtopologyPlan]
    bundles: tuple[BundlePlan, ...]
    topics: Mapping[str, int]
    """Source topics of the log with their partition counts."""
    repartitions: Mapping[str, int]
    """Repartition topics with their partition counts."""
    matched: frozenset[str] = frozenset()
    """Source topics that were found by pattern: from start to start there may be more of them."""
    internal: Mapping[str, int] = field(default_factory=dict)
    """Topics that the application makes itself, with their partition counts."""

    @property
    def levels(self) -> int:
        """Number of levels, at least 1."""
        return 1 + max((bundle.level for bundle in self.bundles), default=0)

    def bundle_of(self, task: str) -> BundlePlan:
        """The bundle that holds a task; KeyError if none does."""
        for bundle in self.bundles:
            if any(member.id == task for member in bundle.tasks):
                return bundle
        raise KeyError(task)

    def to_json(self) -> str:
        """Canonical text; equal plans have equal texts. What may change from start to start is left out."""
        return json.dumps(_canonical(self), sort_keys=True, separators=(",", ":"))

    @property
    def digest(self) -> str:
        """Digest of `to_json`."""
        return hashlib.blake2b(self.to_json().encode(), digest_size=16).hexdigest()


def partitions_changed(topic: str, before: int, now: int) -> TopologyError:
    """The error of a topic that has grown, or was recreated with another size, under an application's state."""
    return TopologyError(
        "PARTITIONS_CHANGED",
        f"topic {topic!r} has {now} partitions; the application was started with {before}, and its state is divided "
        "by them. Start over with `hayase app reset` (or copy the topic to one of the old size)",
        topic=topic,
    )


def _canonical(plan: Plan) -> dict[str, object]:
    internal = {"internal": dict(plan.internal)} if plan.internal else {}
    return {
        **internal,
        "units": {
            subtopology.id: {
                "level": subtopology.level,
                "nodes": subtopology.nodes,
                "partitions": subtopology.partitions,
            }
            for subtopology in plan.subtopologies.values()
        },
        "bundles": {
            bundle.id: {"level": bundle.level, "unit": bundle.subtopology, "tasks": [task.id for task in bundle.tasks]}
            for bundle in plan.bundles
        },
        "topics": {topic: count for topic, count in plan.topics.items() if topic not in plan.matched},
        "repartitions": dict(plan.repartitions),
    }
