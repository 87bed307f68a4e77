"""The plan that a program runs with: the one in use, or the next one, if the state can go on under it.

See docs/decisions/20261125-plans-that-change.md.
"""

from __future__ import annotations

import dataclasses
import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import msgspec

from hayase.app.checkpoint import StoredPlan, fix_plan, stored_plan
from hayase.app.unread_records import check_read
from hayase.compiler.build import make_plan, source_topics
from hayase.compiler.compile import compile_subtopologies
from hayase.compiler.options import CompileOptions, compile_options
from hayase.compiler.partitions import partition_counts
from hayase.compiler.plan_comparison import PlanDifference, compare, graces_changed, joins_changed, windows_changed
from hayase.compiler.plan_matching import following, match, with_deletions, without_deletions
from hayase.compiler.plan_shape import PlanShape, shape_of
from hayase.core.config import StreamsConfig
from hayase.core.errors import CheckpointError
from hayase.log.config import log_config
from hayase.log.open import open_log_of_user
from hayase.log.protocol import Log
from hayase.query.numbered_plans import NumberedPlan, publish_plan, read_plan, with_kept_ids
from hayase.runtime.epochs.record_retention import superseded
from hayase.runtime.wire.app_spec import check_picklable
from hayase.storage.blobs import BlobStore
from hayase.storage.open import open_blobs
from hayase.task.compiled_subtopology import CompiledSubtopology
from hayase.task.epoch_record import EpochRecord, Epochs
from hayase.task.plan import Plan
from hayase.topology.resolve import has_patterns
from hayase.topology.topology import Topology

_LOG = logging.getLogger("hayase.app")

_SHOWN_MAX = 8


@dataclass(frozen=True, slots=True)
class FittedPlan:
    """A program on a checkpoint.

    Attributes:
        topology: with the ids that its sub-topologies have there.
        compiled: every sub-topology, by those ids.
        plan: of the program.
        document: what is published of it, and what a later program is compared with.
        difference: from the plan in use; `None` if it is the same, or nothing is known to compare it with.
    """

    topology: Topology
    compiled: dict[str, CompiledSubtopology]
    plan: Plan
    document: NumberedPlan
    difference: PlanDifference | None = None


def fit_plan(
    stored: StoredPlan | None,
    topology: Topology,
    topics: Mapping[str, int],
    options: CompileOptions,
    *,
    threads: int,
    num_bundles: int | None = None,
    number: int | None = None,
    delete_removed_stores: bool = False,
) -> FittedPlan:
    """The plan of a program, compared with the one in use. Writes nothing.

    Args:
        stored: the plan in use.
        topology: the program, as `StoredPlan.names` gives it.
        topics: partition count of every source topic.
        options: how it is compiled.
        threads: slots, at a first start.
        num_bundles: at a first start: see `make_plan`.
        number: of the plan, if it is another one; default: the first that is free.
        delete_removed_stores: whether rows of stores that are gone, now or since earlier changes, are deleted.
    """
    topology = dataclasses.replace(topology, kept=None)
    bundles = stored.bundles_per_subtopology if stored is not None else num_bundles
    planned = partial(_planned, topics=topics, options=options, threads=threads, bundles=bundles)
    compiled, plan = planned(topology)
    tasks = {name: part.partitions for name, part in plan.subtopologies.items()}
    shape = shape_of(topology, tasks)
    document = stored.document if stored is not None else None
    if stored is None or document is None:
        return FittedPlan(topology, compiled, plan, _document(plan, shape, None, 0))
    number = stored.newest + 1 if number is None else number
    matching = match(document.shape, shape)
    own = shape_of(with_kept_ids(topology, matching.ids), {matching.ids[name]: count for name, count in tasks.items()})
    shape = following(document.shape, own, number)
    unchanged = with_deletions(shape, document.shape)
    kept = with_kept_ids(topology, matching.ids, unchanged)
    if kept is not topology:
        compiled, plan = planned(kept)
    gone = _gone_bundles(document, plan) if delete_removed_stores else document.deleted_bundles
    deletes = delete_removed_stores and (gone != document.deleted_bundles or _left(shape) != [])
    if plan.to_json() == stored.plain_text and _is_kept(document.shape, shape) and not deletes:
        return FittedPlan(kept, compiled, plan, document)
    before = without_deletions(document.shape) if stored.untried else document.shape
    shape = following(before, own, number)
    difference = compare(before, shape, matching.problems)
    if delete_removed_stores and (deletes or _left(shape) != []):
        deleted = sorted({*_left(shape), *difference.removed_stores})
        difference = msgspec.structs.replace(difference, deleted_stores=tuple(deleted))
        shape = with_deletions(shape)
    if unchanged != shape:
        kept = with_kept_ids(topology, matching.ids, shape)
        compiled, plan = planned(kept)
    next_document = _next_document(stored, document, plan, shape, number, gone)
    return FittedPlan(kept, compiled, plan, next_document, _refusing_frames(topology, difference))


def _planned(
    topology: Topology, *, topics: Mapping[str, int], options: CompileOptions, threads: int, bundles: int | None
) -> tuple[dict[str, CompiledSubtopology], Plan]:
    compiled = compile_subtopologies(topology, options)
    return compiled, make_plan(topology, topics, compiled, threads=threads, bundles_per_subtopology=bundles)


def _refusing_frames(topology: Topology, difference: PlanDifference) -> PlanDifference:
    if not topology.spark_sources and not topology.spark_sinks:
        return difference
    unfit = "from_spark and to_spark have queries of their own, which are numbered behind the bundles"
    return msgspec.structs.replace(difference, refused=(*difference.refused, unfit))


def open_epoch(blobs: BlobStore) -> EpochRecord | None:
    """The record of an epoch that was begun and is not through; `None` if there is none."""
    epochs = Epochs(blobs)
    last = max(epochs.recorded(), default=-1)
    return epochs.record(last) if last > epochs.last_done() else None


def bundles_of_all(stored: StoredPlan, fitted: FittedPlan) -> frozenset[str]:
    """The bundles of the plan in use, and of those before and behind it."""
    return frozenset({*fitted.document.plan_positions, *json.loads(stored.text)["bundles"]})


def settle_plan(
    blobs: BlobStore,
    log: Log,
    application_id: str,
    stored: StoredPlan | None,
    fitted: FittedPlan,
    again: Mapping[str, int],
    options: CompileOptions,
    *,
    new_names: bool,
    delete_removed_stores: bool = False,
) -> FittedPlan:
    """Publish the plan of a program, if it is another one and may take the place of the one in use.

    It is in use when the first epoch record names it.

    Args:
        blobs: the checkpoint, without an open epoch of another plan; the caller holds its lease.
        log: the log.
        application_id: of the application.
        stored: the plan in use.
        fitted: what `fit_plan` gave.
        again: what it was given as `topics`.
        options: what it was given.
        new_names: see `fix_plan`.
        delete_removed_stores: what `fit_plan` was given.

    Raises:
        CheckpointError: `PLAN_CHANGED`, `UNREAD_INTERNAL_RECORDS`.
    """
    if fitted.difference is None:
        if fitted.document.number == 0:
            fix_plan(blobs, application_id, fitted.plan.to_json(), new_names=new_names)
            if stored is None or stored.document is None:
                publish_plan(blobs, fitted.document)
        return fitted
    assert stored is not None
    if fitted.difference.refused:
        raise refused_change(application_id, fitted.difference)
    epochs = Epochs(blobs)
    _check_drained(log, epochs.positions(epochs.last_done()), json.loads(stored.text), fitted.difference)
    if stored.newest > stored.number:  # a start that got no further has published one
        same = fit_plan(
            stored, dataclasses.replace(fitted.topology, kept=None), again, options, threads=1, number=stored.newest,
            delete_removed_stores=delete_removed_stores,
        )  # fmt: skip
        if read_plan(blobs, stored.newest) == same.document:
            return same
    if not publish_plan(blobs, fitted.document):
        raise superseded(f"plan {fitted.document.number} was published by another run")
    _say(application_id, fitted.document.number, fitted.difference)
    return fitted


def refused_change(application_id: str, difference: PlanDifference) -> CheckpointError:
    """`PLAN_CHANGED`: the program cannot go on with the state."""
    ways = list(difference.names)
    name_it = (
        f"Name all of these at once (Materialized.as_, or the name of the operation), as naming one renumbers others: "
        f"{'; '.join(ways)}. Or start"
        if ways
        else "Start"
    )
    return CheckpointError(
        "PLAN_CHANGED",
        f"the topology of {application_id!r} cannot go on with the state of its checkpoint: "
        f"{'; '.join(difference.refused)}. All that differs: {shown_changes(difference)}. {name_it} the old topology; "
        f"or start over, which gives up all stores and reads the input from its beginning: `hayase app reset "
        f"{application_id}`; or keep both, the new one with empty stores: `-c application.id={application_id}-2`",
        application_id=application_id,
    )


def shown_changes(difference: PlanDifference) -> str:
    """What differs, in one line."""
    changes = difference.changes
    more = f"; and {len(changes) - _SHOWN_MAX} more" if len(changes) > _SHOWN_MAX else ""
    otherwise = "rows of removed stores are deleted" if difference.deleted_stores else "names that do not show"
    return f"{'; '.join(changes[:_SHOWN_MAX]) or otherwise}{more}"


def store_lines(difference: PlanDifference) -> list[str]:
    """What becomes of stores that come and go, line by line."""
    deleted = difference.deleted_stores
    return [
        *(f"new store {store}: begins empty" for store in difference.new_stores),
        *(
            f"store {store} is gone: its rows stay in the checkpoint (--delete-removed-stores deletes them)"
            for store in difference.removed_stores
            if store not in deleted
        ),
        *(f"store {store} is gone: its rows are deleted" for store in deleted),
    ]


def check_plan(blobs: BlobStore, topology: Topology, config: StreamsConfig) -> None:
    """Check that a topology comes to the plan in use, without a look at the log.

    Patterns are not resolved, so not checked.

    Raises:
        CheckpointError: `PLAN_CHANGED`, with what differs.
    """
    stored = stored_plan(blobs)
    if stored is None or has_patterns(topology):
        return
    topology = stored.names(topology)
    fitted = fit_plan(stored, topology, known_topics(stored, topology), compile_options(config), threads=1)
    if stored.document is None:
        fix_plan(blobs, config.application_id, fitted.plan.to_json(), new_names=False)  # it has one already
    elif fitted.difference is not None:
        raise refused_change(
            config.application_id,
            msgspec.structs.replace(
                fitted.difference, refused=fitted.difference.refused or ("another topology has begun it",)
            ),
        )


def known_topics(stored: StoredPlan, topology: Topology, log: Log | None = None) -> dict[str, int]:
    """Partition counts of the source topics: as the plan in use has them, else the log's.

    Else 1, of internal topics those that they will be made with.

    Raises:
        TopologyError: `PARTITIONS_DIFFER`.
    """
    known = topics_of(stored)
    read = source_topics(topology)
    new = [topic for topic in read if topic not in known]
    infos = log.describe(new) if log is not None and new else {}
    there = {**{topic: infos[topic].partitions for topic in new if topic in infos}, **known}
    counts = {topic: there.get(topic, 1) for topic in read if topic in there or topic not in topology.internal_topics}
    if len(counts) < len(read):
        made = partition_counts(topology, counts)
        counts |= {topic: made[topic] for topic in read if topic not in counts}
    return counts


def topics_of(stored: StoredPlan) -> dict[str, int]:
    """Partition counts of the topics that the plan in use reads."""
    plan = json.loads(stored.text)
    return {**plan["topics"], **plan.get("internal", {})}


def check_change(topology: Topology, config: StreamsConfig) -> None:
    """Check that a topology may take the place of the one that has begun a checkpoint, before that one is stopped.

    Its start checks everything again. Patterns are not resolved, so not checked.

    Raises:
        CheckpointError: `PLAN_CHANGED`, with what differs.
        ConfigError: `NOT_PICKLABLE`.
    """
    check_picklable(dataclasses.replace(topology, spark_sources=(), spark_sinks=(), connectors=(), lines={}))
    stored = stored_plan(open_blobs(config.checkpoint_dir, fsync=False))
    if stored is None or stored.document is None or has_patterns(topology):
        return
    topology = stored.names(topology)
    log = open_log_of_user(log_config(config))
    try:
        topics = known_topics(stored, topology, log)
    finally:
        log.close()
    difference = fit_plan(stored, topology, topics, compile_options(config), threads=1).difference
    if difference is not None and difference.refused:
        raise refused_change(config.application_id, difference)


def _is_kept(old: PlanShape, new: PlanShape) -> bool:
    """Whether state stays as it is under a plan of the same text."""
    if _state(old) != _state(new):
        return False
    pairs = [(old.subtopologies[name], part) for name, part in new.subtopologies.items()]
    return not any(windows_changed(*pair) or graces_changed(*pair) or joins_changed(*pair) for pair in pairs)


def _state(shape: PlanShape) -> object:
    """What state is divided by and kept under: where that is the same, the plan's text says the rest."""
    return {
        name: (part.stores, part.tasks, part.clocks, part.spent, part.left)
        for name, part in shape.subtopologies.items()
    }


def _left(shape: PlanShape) -> list[str]:
    """Stores that are gone, and whose rows are still in the state of sub-topologies that are not."""
    return [store for part in shape.subtopologies.values() for store in part.left]


def _gone_bundles(document: NumberedPlan, plan: Plan) -> tuple[str, ...]:
    """The bundles of sub-topologies that earlier plans had."""
    return tuple(
        sorted(each for each in document.plan_positions if (each.rpartition("-")[0] or each) not in plan.subtopologies)
    )


def _document(plan: Plan, shape: PlanShape, before: NumberedPlan | None, number: int) -> NumberedPlan:
    positions = dict(before.plan_positions) if before is not None else {}
    for bundle in plan.bundles:
        positions.setdefault(bundle.id, max(positions.values(), default=-1) + 1)
    return NumberedPlan(number, shape, json.loads(plan.to_json()) if number else {}, plan_positions=positions)


def _next_document(
    stored: StoredPlan, before: NumberedPlan, plan: Plan, shape: PlanShape, number: int, gone: tuple[str, ...]
) -> NumberedPlan:
    """What is published of a plan that takes the place of another one."""
    former = {*before.former_topics, *json.loads(stored.text)["topics"]} - plan.topics.keys()
    return msgspec.structs.replace(
        _document(plan, shape, before, number),
        former_topics=tuple(sorted(former)), plan_format=stored.plan_format, deleted_bundles=gone,
    )  # fmt: skip


def _check_drained(
    log: Log, record: EpochRecord | None, old: Mapping[str, Mapping[str, int]], difference: PlanDifference
) -> None:
    for topic in difference.renewed_internal:
        count = old.get("internal", {}).get(topic, 0)
        check_read(log, record, topic, count, "it is gone, or has another meaning, in this one")


def _say(application_id: str, number: int, difference: PlanDifference) -> None:
    fields = {"application_id": application_id}
    _LOG.info("the topology has changed, plan %d: %s", number, shown_changes(difference), extra=fields)
    for line in store_lines(difference):
        _LOG.warning("the topology has changed: %s", line, extra=fields)
