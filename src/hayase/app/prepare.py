"""The preparation of a run, before Spark starts.

Topics are looked at, the plan is made or found, the application is packed.
"""

from __future__ import annotations

import dataclasses
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from hayase.app.checkpoint import StoredPlan, checkpoint_id_of, stored_plan
from hayase.app.edge_schemas import check_edge_schemas, unreadable_topics
from hayase.app.former_program import draining_program, program_of_open_epoch
from hayase.app.migration import finish_migration
from hayase.app.plan_switch import FittedPlan, bundles_of_all, fit_plan, open_epoch, settle_plan
from hayase.app.store_schemas import check_store_schemas
from hayase.app.topics import ensure_topics_of_failures, prepare_topics, resets_of
from hayase.compiler.build import source_topics
from hayase.compiler.endpoints import written_serdes
from hayase.compiler.options import CompileOptions, compile_options, failure_policy
from hayase.compiler.plan_comparison import PlanDifference
from hayase.core.config import StreamsConfig
from hayase.core.errors import ConfigError
from hayase.core.offset_reset import AutoOffsetReset
from hayase.core.time import SystemClock
from hayase.log.config import log_config
from hayase.log.open import open_log, open_log_of_user
from hayase.log.protocol import Log, LogConfig, TopicInfo
from hayase.query.local_folders import followers_folder, state_folders
from hayase.runtime.driver.master import MASTER, is_cluster, sends_in_clear
from hayase.runtime.driver.session import default_slots
from hayase.runtime.epochs.done_marks import restore_done_marks
from hayase.runtime.epochs.log_ownership import Claim, check_ownership, claim, forget_claims
from hayase.runtime.epochs.record_retention import Floor
from hayase.runtime.epochs.redo import redo_epoch, settle_closed_epochs
from hayase.runtime.epochs.start_offsets import check_resets, forget_positions, record_positions
from hayase.runtime.epochs.terms import begin_term
from hayase.runtime.wire.app_spec import AppSpec, check_picklable
from hayase.runtime.wire.endpoints import RunEndpoints
from hayase.state.changelog.redone_epochs import RedoneEpochs
from hayase.state.changelog.snapshot_policy import SnapshotPolicy
from hayase.state.environment.crash_marker import current_boot_id
from hayase.state.environment.remote_bundles_marker import set_moving
from hayase.storage.blobs import BlobStore
from hayase.task.epoch_record import Epochs
from hayase.task.plan import Plan
from hayase.topology.earlier import FORMAT, differs, in_format
from hayase.topology.topology import Topology

_LOG = logging.getLogger("hayase.app")


@dataclass(frozen=True, slots=True)
class _Run:
    """What a run has, whatever its program is; see AppSpec.

    Attributes:
        span_max_ms: 0 where rows between processes would go in clear.
    """

    endpoints: RunEndpoints
    slots: int
    first_slot: Callable[[Plan], int]
    cluster: bool
    span_max_ms: int


@dataclass(frozen=True, slots=True)
class _Sources:
    """What a topology reads, as the log has it.

    Attributes:
        topology: with the topics that its patterns match.
        infos: every topic that it reads, by name.
        partitions: of every source topic.
        resets: see AppSpec.
        options: how the topology is compiled.
    """

    topology: Topology
    infos: Mapping[str, TopicInfo]
    partitions: Mapping[str, int]
    resets: Mapping[str, AutoOffsetReset]
    options: CompileOptions


def prepare(
    given: Topology,
    config: StreamsConfig,
    blobs: BlobStore,
    endpoints: RunEndpoints,
    spark_settings: Mapping[str, str],
    first_slot: Callable[[Plan], int] = lambda plan: 0,
    first_start: Callable[[], None] = lambda: None,
    *,
    delete_removed_stores: bool = False,
    on_change: Callable[[PlanDifference], None] = lambda difference: None,
    unfinished: int | None = None,
) -> AppSpec:
    """The description of an application that workers and the planner of epochs get.

    Where something is left to the program of before, an open epoch of another topology (`AppSpec.finishes`) or records
    of internal topics (`AppSpec.drains`), it is that one's (`AppSpec.hands_over`): prepare again when that is done, or
    when that program could not finish the epoch.

    Internal topics and the plan in the checkpoint are made if need be.

    Args:
        given: the topology, with the serdes of the settings.
        config: the settings.
        blobs: the checkpoint.
        endpoints: of this run.
        spark_settings: see `hayase.runtime.driver.session.settings_of_session`.
        first_slot: that of a plan, see AppSpec.
        first_start: called where the application has never started on its checkpoint, before that is noted there.
        delete_removed_stores: see `fit_plan`.
        on_change: called with what differs where another plan takes the place of the one in use.
        unfinished: an open epoch that the program of before has failed at: this one does it again.

    Raises:
        UnknownTopicError, TopologyError, CheckpointError, ConfigError: it cannot run as it is.
    """
    stored = stored_plan(blobs)
    if stored is not None:
        new_names, given = False, stored.names(given)
    else:
        new_names, given = differs(given), in_format(given, FORMAT)
    run = _run_of(config, endpoints, spark_settings, first_slot)
    if run.cluster:
        _check_stores_can_move(given)
    set_moving(state_folders(config).disk / "state", moving=run.cluster)
    log = open_log_of_user(log_config(config))
    try:
        stored = stored_plan(blobs)
        if stored is None:  # before anything is made: the folder may be the wrong one
            check_ownership(blobs, log, config.application_id, "", (), exactly_once=config.exactly_once)
        _settle_earlier_runs(blobs, started=stored is not None)
        sources = _sources_of(given, config, log, stored, first_start)
        fitted = _fitted(stored, sources, run, config, delete_removed_stores=delete_removed_stores)
        _settle_open_epoch(blobs, log, stored, fitted, config, unfinished)
        former = _former_program(blobs, log, fitted, config.application_id)
        if former is not None:
            return _handing_over(former, run, config, blobs, log)
        fitted = settle_plan(
            blobs, log, config.application_id, stored, fitted, sources.partitions, sources.options,
            new_names=new_names, delete_removed_stores=delete_removed_stores,
        )  # fmt: skip
        if fitted.difference is not None:
            on_change(fitted.difference)
        checkpoint_id, noted = _check_schemas_and_log(config, blobs, log, fitted)
        _record_positions(blobs, log, [sources.infos[name] for name in fitted.plan.topics], sources.resets)
        ensure_topics_of_failures(config, log)
    finally:
        log.close()
    if given.spark_sources or given.spark_sinks:  # jobs of a user's frames would wait for cores that a span keeps
        run = dataclasses.replace(run, span_max_ms=0)
    return _app_spec(config, run, sources, fitted, checkpoint_id, _begin(config, blobs, checkpoint_id, noted))


def _run_of(
    config: StreamsConfig, endpoints: RunEndpoints, spark_settings: Mapping[str, str], first_slot: Callable[[Plan], int]
) -> _Run:
    return _Run(
        endpoints=endpoints,
        slots=config.num_stream_threads or default_slots(spark_settings),
        first_slot=first_slot,
        cluster=is_cluster(spark_settings.get(MASTER, "")),
        span_max_ms=0 if sends_in_clear(spark_settings) else config.epoch_span_max_ms,
    )


def _sources_of(
    given: Topology, config: StreamsConfig, log: Log, stored: StoredPlan | None, first_start: Callable[[], None]
) -> _Sources:
    """What the topology reads; topics of its own are made."""
    topology, infos = prepare_topics(log, given, first=stored is None)
    if stored is None:
        first_start()
    resets = resets_of(topology, config.auto_offset_reset)
    if stored is None:
        check_resets(resets)
    compacted = frozenset(n for n, info in infos.items() if "compact" in info.config.get("cleanup.policy", ""))
    partitions = {name: infos[name].partitions for name in source_topics(topology)}
    if stored is not None:
        stored.check_partitions(partitions)
    return _Sources(topology, infos, partitions, resets, compile_options(config, compacted))


def _fitted(
    stored: StoredPlan | None, sources: _Sources, run: _Run, config: StreamsConfig, *, delete_removed_stores: bool
) -> FittedPlan:
    """The plan of the topology, which can be sent: one that cannot run must not fix the plan of one that will."""
    fitted = fit_plan(
        stored, sources.topology, sources.partitions, sources.options, threads=run.slots,
        num_bundles=config.num_bundles, delete_removed_stores=delete_removed_stores,
    )  # fmt: skip
    if stored is None or fitted.difference is not None:
        check_picklable(_to_send(sources.topology))
    return fitted


def _to_send(topology: Topology) -> Topology:
    """What workers get: functions of frames and connectors stay here, and a line that moves makes no other program."""
    return dataclasses.replace(topology, spark_sources=(), spark_sinks=(), connectors=(), lines={})


def _app_spec(
    config: StreamsConfig, run: _Run, sources: _Sources, fitted: FittedPlan, checkpoint_id: str, term: int
) -> AppSpec:
    topology, document = fitted.topology, fitted.document
    return AppSpec(
        application_id=config.application_id,
        checkpoint_id=checkpoint_id,
        topology=_to_send(topology),
        plan=fitted.plan,
        options=sources.options,
        policy=failure_policy(config),
        log=log_config(config),
        checkpoint=config.checkpoint_dir,
        checkpoint_fsync=config.checkpoint_fsync,
        folders=state_folders(config),
        followers_dir=str(followers_folder(config)),
        endpoints=run.endpoints,
        exactly_once=config.exactly_once,
        spark_serdes={sink.topic: written_serdes(fitted.compiled, sink.topic) for sink in topology.spark_sinks},
        slots=run.slots,
        first_slot=run.first_slot(fitted.plan),
        plan_number=document.number,
        plan_positions=document.plan_positions,
        former_topics=frozenset(document.former_topics),
        deleted_bundles=document.deleted_bundles,
        max_records_per_epoch=config.max_records_per_epoch,
        max_task_idle_ms=config.max_task_idle_ms,
        commit_interval_ms=config.commit_interval_ms,
        span_max_ms=run.span_max_ms,
        epoch_memory_max_bytes=config.epoch_memory_max_bytes,
        resets=sources.resets,
        history_retention_ms=config.state_history_retention_ms,
        snapshots=SnapshotPolicy(
            min_delta_bytes=config.state_snapshot_min_bytes,
            max_deltas=config.state_snapshot_deltas_max,
            restore_max_ms=config.state_snapshot_restore_max_ms,
            history_retention_ms=config.state_history_retention_ms,
        ),
        purge_interval_ms=config.repartition_purge_interval_ms,
        recording_level=config.metrics_recording_level,
        term=term,
        on_range_lost=config.source_range_lost,
        max_poll_interval_ms=config.max_poll_interval_ms,
        task_timeout_ms=config.task_timeout_ms,
        machine=current_boot_id(),
        cluster=run.cluster,
        files_access=config.files_group_access,
        state_root=str(config.state_dir),
        log_level=config.log_level or logging.getLevelName(logging.getLogger("hayase.app").getEffectiveLevel()),
    )


def _settle_earlier_runs(blobs: BlobStore, *, started: bool) -> None:
    """Finish what an earlier run or a migration left, and put back what was deleted since."""
    if started:
        restore_done_marks(blobs, checkpoint_id_of(blobs))
    finish_migration(blobs)


def _record_positions(
    blobs: BlobStore, log: Log, topics: Sequence[TopicInfo], resets: Mapping[str, AutoOffsetReset]
) -> None:
    """Keep where topics begin that no epoch has read yet."""
    epochs = Epochs(blobs)
    record = epochs.record(max(epochs.recorded(), default=-1))
    known = record.topic_ids if record is not None else {}
    forget_positions(blobs, known.values())
    new = [info for info in topics if known.get(info.name) != info.topic_id]
    record_positions(blobs, log, new, resets, SystemClock().now_ms())


def _claim_log(
    config: LogConfig, blobs: BlobStore, application_id: str, checkpoint_id: str, term: int, noted: Claim
) -> None:
    try:
        log = open_log(config)
        try:
            log.prepare_markers(application_id)
            claim(log, blobs, application_id, checkpoint_id, term, noted)
        finally:
            log.close()
    except Exception as error:  # in a thread it would not be seen; the first epoch makes them, or says it better
        _LOG.debug("markers were not prepared: %s", error)


def _check_stores_can_move(topology: Topology) -> None:
    unlogged = sorted(name for name, spec in topology.stores.items() if not spec.logging)
    if unlogged:
        raise ConfigError(
            "STORE_NOT_LOGGED",
            f"stores without a changelog ({', '.join(unlogged)}) cannot be used on a cluster: bundles move between "
            "its machines, and only what is in the changelog comes along. Leave out with_logging_disabled",
        )


def _check_schemas_and_log(config: StreamsConfig, blobs: BlobStore, log: Log, fitted: FittedPlan) -> tuple[str, Claim]:
    """Whether stores and internal topics can be read on, and as `_check_log`."""
    new_stores = fitted.difference.new_stores if fitted.difference is not None else ()
    check_store_schemas(blobs, fitted.topology, new_stores)
    check_edge_schemas(blobs, log, fitted.topology, fitted.plan, fitted.compiled, config.application_id)
    return _check_log(config, blobs, log, fitted.topology, fitted.plan, fitted.document.plan_positions)


def _check_log(
    config: StreamsConfig, blobs: BlobStore, log: Log, topology: Topology, plan: Plan, plan_positions: Mapping[str, int]
) -> tuple[str, Claim]:
    """The checkpoint's id, and what to note once the log is claimed for it."""
    checkpoint_id = checkpoint_id_of(blobs)
    names = {*plan_positions, *(bundle.id for bundle in plan.bundles)}  # those of earlier plans, too
    writing = {
        str(sub.id)
        for sub in topology.subtopologies
        if any(sink.topic not in topology.repartitions for sink in sub.sinks)
    }
    noted = check_ownership(
        blobs,
        log,
        config.application_id,
        checkpoint_id,
        names,
        writing=[bundle.id for bundle in plan.bundles if bundle.subtopology in writing],
        exactly_once=config.exactly_once,
    )
    if not config.exactly_once:
        forget_claims(blobs)  # its epochs leave no markers
    return checkpoint_id, noted


def _settle_open_epoch(
    blobs: BlobStore,
    log: Log,
    stored: StoredPlan | None,
    fitted: FittedPlan,
    config: StreamsConfig,
    unfinished: int | None,
) -> None:
    """Have this program do an open epoch again that the one that began it cannot finish, or is about to."""
    begun, difference = open_epoch(blobs), fitted.difference
    if settle_closed_epochs(blobs, begun, same_plan=difference is None):
        return
    if stored is None or begun is None or difference is None or difference.refused:
        return
    if (
        program_of_open_epoch(blobs, fitted) is None
        or unfinished == begun.epoch
        or RedoneEpochs(blobs).is_closed(begun.epoch)
    ):
        bundles = bundles_of_all(stored, fitted)
        redo_epoch(blobs, log, config.application_id, begun, bundles, exactly_once=config.exactly_once)
        _LOG.warning(
            "epoch %d was begun with another topology, whose program cannot finish it: this one does it again",
            begun.epoch, extra={"application_id": config.application_id},
        )  # fmt: skip


def _former_program(blobs: BlobStore, log: Log, fitted: FittedPlan, application_id: str) -> AppSpec | None:
    """The program of before, if something is left to it."""
    extra = {"application_id": application_id}
    begun = program_of_open_epoch(blobs, fitted)
    if begun is not None:
        _LOG.warning("epoch %d was begun with another topology, which finishes it first", begun.finishes, extra=extra)
        return begun
    difference = fitted.difference or PlanDifference()
    if difference.refused:
        return None
    topics = {*difference.renewed_internal, *unreadable_topics(blobs, fitted.topology, fitted.compiled)}
    former = draining_program(blobs, log, topics)
    if former is not None:
        named = ", ".join(sorted(former.drains))
        _LOG.warning("the program before reads what is unread in %s first: this one cannot", named, extra=extra)
    return former


def _handing_over(former: AppSpec, run: _Run, config: StreamsConfig, blobs: BlobStore, log: Log) -> AppSpec:
    """The program of before, as this run can have it: where things are may have changed."""
    checkpoint_id, noted = _check_log(config, blobs, log, former.topology, former.plan, former.plan_positions)
    ensure_topics_of_failures(config, log)
    return dataclasses.replace(
        former,
        endpoints=run.endpoints,
        slots=run.slots,
        first_slot=run.first_slot(former.plan),
        cluster=run.cluster,
        span_max_ms=run.span_max_ms,
        term=_begin(config, blobs, checkpoint_id, noted),
        log=log_config(config),
        options=dataclasses.replace(former.options, registry_settings=config.schema_registry),
        checkpoint=config.checkpoint_dir,
        checkpoint_fsync=config.checkpoint_fsync,
        folders=state_folders(config),
        followers_dir=str(followers_folder(config)),
        state_root=str(config.state_dir),
        exactly_once=config.exactly_once,
        machine=current_boot_id(),
        files_access=config.files_group_access,
    )


def _begin(config: StreamsConfig, blobs: BlobStore, checkpoint_id: str, noted: Claim) -> int:
    """The term of this run, which claims the log."""
    Floor(blobs, checkpoint_id).begin()
    term = begin_term(blobs)
    if config.exactly_once:  # takes a broker most of a second, which Spark needs longer than anyway
        claiming = (log_config(config), blobs, config.application_id, checkpoint_id, term, noted)
        threading.Thread(target=_claim_log, args=claiming, name="hayase-claim", daemon=True).start()
    return term
