"""A shared runtime: many named topologies in one Spark application."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from datetime import timedelta
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING

from hayase.app.failure_recovery import Recovery, UncaughtExceptionHandler, shut_down_client
from hayase.app.input_ends import ends_now
from hayase.app.main_guard import check_not_loading
from hayase.app.membership import Membership
from hayase.app.named_topology import NamedTopology
from hayase.app.plan_switch import check_change
from hayase.app.report import ProgressReport
from hayase.app.reset import reset_application
from hayase.app.run_status import RUNS
from hayase.app.runtime_service import RuntimeService
from hayase.app.runtime_settings import check_runtime_settings, own_config, topology_config
from hayase.app.states import ENDS, NEXT, State
from hayase.app.stop_request import OF_STOPPING, run_until_stopped
from hayase.app.topology_set import Program, TopologySet
from hayase.core.config import StreamsConfig
from hayase.core.errors import HayaseError, StreamsStoppedError
from hayase.core.logs import configure_logging
from hayase.core.metrics_registry import MetricName, Value
from hayase.dsl.builder import StreamsBuilder, topology_of
from hayase.log.config import log_config
from hayase.log.open import open_log, open_log_of_user
from hayase.storage.open import open_blobs, probe_put_if_absent
from hayase.topology.topology import Topology

if TYPE_CHECKING:
    from hayase.app.app import StateListener
    from hayase.app.metrics_server import MetricsServer
    from hayase.runtime.driver.lease import Lease
    from hayase.runtime.driver.shared_query import SharedQuery
    from hayase.runtime.driver.slot_loads import SlotLoads

_LOG = logging.getLogger("hayase.app")

_STOP_AT_START = timedelta(seconds=60)
_POLL_S = 0.05


class StreamsRuntime:
    """Runs many topologies in one Spark query (ksqlDB's shared runtime, with Kafka Streams' named topologies).

    A topology is what an application is otherwise: it has an `application.id` of its own (`<runtime>-<name>`), its
    checkpoint, epochs, serdes, failure policies and guarantee. An error of one topology does not concern the others.
    Topologies are added, paused, resumed, restarted and removed while the others go on. What Spark, the log, the state
    folder and security need are settings of the runtime.

    The runtime remembers its topologies: after a restart those run that were there before, also without the files that
    they came from, and those that were paused are paused. The object may be used from several threads.

    Example:
        >>> runtime = StreamsRuntime({"application.id": "shop", "log.dir": "data/log"})  # doctest: +SKIP
        >>> runtime.start()  # doctest: +SKIP
        >>> runtime.add_topology("revenue", topology, {"commit.interval.ms": 1000})  # doctest: +SKIP
        >>> runtime.topology("revenue").store("revenue").get("book")  # doctest: +SKIP
    """

    def __init__(self, config: Mapping[str, object], *, recall: bool = True) -> None:
        """Check the settings; nothing is started, created or contacted yet.

        Args:
            config: settings of the runtime.
            recall: whether topologies of earlier runs run, too, that this program does not add. `False`: they are
                forgotten; their state stays.

        Raises:
            ConfigError: a setting is unknown, missing, belongs to a topology, or its value is not allowed.
        """
        self.config = check_runtime_settings(config)
        self._given = dict(config)
        self._recalls = recall
        self._own = own_config(config)
        self._blobs = open_blobs(self._own.checkpoint_dir, fsync=self._own.checkpoint_fsync)
        self._lock = threading.RLock()
        self._state = State.CREATED
        self._error: HayaseError | None = None
        self._set = TopologySet(self.config.application_id, self._config_of)
        self._lease: Lease | None = None
        self._shared: SharedQuery | None = None
        self._loads: SlotLoads | None = None
        self._metrics: MetricsServer | None = None
        self._service: RuntimeService | None = None
        self._watcher: threading.Thread | None = None
        self._starting = False
        self._stopping = threading.Event()
        self._recovery = Recovery(shut_down_client, self.config.task_timeout_ms / 1000)

    @property
    def state(self) -> State:
        """Where the runtime is in its life. An error of a topology is that topology's state alone."""
        return self._state

    @property
    def error(self) -> HayaseError | None:
        """The error that ended the runtime; `None` unless the state is ERROR."""
        return self._error

    @property
    def topologies(self) -> dict[str, NamedTopology]:
        """The topologies as they are now, by name."""
        return self._set.topologies

    def topology(self, name: str) -> NamedTopology:
        """A topology as it is now.

        Raises:
            TopologyError: `UNKNOWN_TOPOLOGY`.
        """
        return self._set.topology(name)

    def add_topology(
        self,
        name: str,
        topology: Topology | StreamsBuilder,
        settings: Mapping[str, object] | None = None,
        *,
        application_id: str | None = None,
        state_listener: StateListener | None = None,
        uncaught_exception_handler: UncaughtExceptionHandler | None = None,
        delete_removed_stores: bool = False,
        paused: bool | None = None,
    ) -> NamedTopology:
        """Add a topology; in a running runtime it is started at once.

        Of a name that the runtime remembers from an earlier run, the program given here takes the place of the
        remembered one, and goes on with its state.

        Args:
            name: letters, digits, `_` and `.`.
            topology: what runs; a StreamsBuilder is built.
            settings: of the topology, e.g. `commit.interval.ms`; see docs/operations.md for the list.
            application_id: adopts the checkpoint of a stopped application of that id; default `<runtime>-<name>`.
            state_listener: see `StreamsApp.set_state_listener`.
            uncaught_exception_handler: see `StreamsApp.set_uncaught_exception_handler`.
            delete_removed_stores: see `StreamsApp.delete_removed_stores`.
            paused: `True`: it begins no epoch until `resume`; `False`: it runs, also if the runtime remembers that it
                was paused; default: as the runtime remembers, and else it runs.

        Raises:
            ConfigError: a name or setting is not allowed.
            TopologyError: `TOPOLOGY_EXISTS`: the runtime runs one of that name, or one with that `application.id`, or
                has it itself; `INVALID_ARGUMENT`: it is no topology.
            StreamsStoppedError: the runtime has ended.
            HayaseError: the topology cannot be started as it is; the runtime does not keep it.
        """
        program = Program(
            topology_of(topology), dict(settings or {}), application_id, state_listener, uncaught_exception_handler,
            delete_removed_stores,
        )  # fmt: skip
        with self._set.changing(name):
            with self._lock:  # it is in the set when all are started, or is started here
                self._check_open()
                app = self._set.add(name, program, paused=paused)
                started = self._state is State.RUNNING
            if started:
                try:
                    self._start_topology(app)
                except HayaseError:
                    self._forget(name, app)
                    self._check_open()
                    raise
        self._publish()
        return app

    def remove_topology(
        self, name: str, *, delete_state: bool = False, timeout: timedelta = timedelta(seconds=60)
    ) -> None:
        """Stop a topology and forget it.

        Args:
            name: its name.
            delete_state: also remove its checkpoint, state, internal topics, markers and committed offsets, as
                `hayase app reset` does; else the same name goes on with them when it is added again.
            timeout: how long the epoch at work may take to end.

        Raises:
            TopologyError: `UNKNOWN_TOPOLOGY`.
            StreamsStoppedError: the runtime has ended.
        """
        with self._set.changing(name):
            self._check_open()
            app = self.topology(name)
            app.close(timeout)
            self._forget(name, app)
            self._publish()
            if delete_state:
                log = open_log(log_config(app.config))
                try:
                    reset_application(app.config, log)
                finally:
                    log.close()

    def pause(self, name: str) -> None:
        """Begin no new epochs of a topology, also after a restart of the runtime, until `resume`. Returns at once.

        Raises:
            TopologyError: `UNKNOWN_TOPOLOGY`.
            StreamsStoppedError: the runtime has ended.
        """
        self._check_open()
        self._set.set_paused(name, True)
        self._publish()

    def resume(self, name: str) -> None:
        """Have a paused topology go on.

        Raises:
            TopologyError: `UNKNOWN_TOPOLOGY`.
            StreamsStoppedError: the runtime has ended.
        """
        self._check_open()
        self._set.set_paused(name, False)
        self._publish()

    def restart(self, name: str) -> NamedTopology:
        """Stop a topology, if it runs, and start it again, e.g. after an error. It goes on where it was.

        Raises:
            TopologyError: `UNKNOWN_TOPOLOGY`.
            StreamsStoppedError: the runtime has ended.
            HayaseError: the topology cannot be started as it is.
        """
        with self._set.changing(name):
            self._check_open()
            self.topology(name).close()
            app, started = self._put(name, self._set.program(name))
            if started:
                try:
                    self._start_topology(app)
                except HayaseError:
                    self._check_open()
                    raise
        return app

    def replace_topology(
        self,
        name: str,
        topology: Topology | StreamsBuilder,
        settings: Mapping[str, object] | None = None,
        *,
        delete_removed_stores: bool = False,
        timeout: timedelta = timedelta(seconds=60),
    ) -> NamedTopology:
        """Have another topology take the place of one, between two epochs; it goes on with its state.

        Nodes, sinks, branches and whole sub-topologies may come and go. Stores that stay need the name, kind and key
        that they have; new ones begin empty, and rows of those that are gone are kept, but not read, unless they are
        to be deleted: `NamedTopology.topology_changes` of what is returned tells. Internal topics that go, or are
        written otherwise, are emptied by the old topology first, which reads nothing else meanwhile. Where the new
        topology is refused, the old one goes on.

        Args:
            name: its name.
            topology: what runs from now on; a StreamsBuilder is built.
            settings: of the topology from now on; default: those that it has.
            delete_removed_stores: delete the rows of stores that are gone, also of earlier changes; see
                `StreamsApp.delete_removed_stores`.
            timeout: how long the epoch at work may take to end, and likewise emptying internal topics.

        Raises:
            TopologyError: `UNKNOWN_TOPOLOGY`.
            StreamsStoppedError: the runtime has ended; `TIMED_OUT`: the old topology was not through in time.
            CheckpointError: `PLAN_CHANGED`: it cannot go on with the state, with the reasons and what to do;
                `OPEN_EPOCH_OF_ANOTHER_PLAN`; `UNREAD_INTERNAL_RECORDS`; `STORE_SCHEMA_CHANGED`.
            HayaseError: it cannot be started as it is, or an open epoch of the old one fails.
        """
        with self._set.changing(name):
            self._check_open()
            old_app, old = self.topology(name), self._set.program(name)
            program = replace(
                old, topology=topology_of(topology), settings=old.settings if settings is None else dict(settings),
                delete_removed_stores=delete_removed_stores, lost=None,
            )  # fmt: skip
            app = self._set.make(name, program)
            check_change(app.topology, app.config)
            old_app.close(timeout)
            app, started = self._put(name, program, app)
            self._publish()  # first: a runtime that is killed meanwhile goes on with the one that was wanted
            if started:
                try:
                    self._start_replacing(name, app, timeout)
                except HayaseError:
                    before, _ = self._put(name, old)
                    self._publish()
                    self._try_to_start(before, bounded=False)
                    raise
        return app

    def start(self) -> None:
        """Start Spark and all topologies, those of earlier runs too. Returns when they are started.

        A topology that cannot be started is in the state ERROR; the others go on.

        Raises:
            StreamsStoppedError: it was started before.
            LeaseHeldError: another copy of the runtime runs.
            HayaseError: Spark does not start.
        """
        self._start(bounded=False)

    def run_to_end(
        self, timeout: timedelta | None = None, *, after: Mapping[str, Collection[str]] | None = None
    ) -> dict[str, ProgressReport]:
        """Process what is in the source topics of every topology at the call, then stop.

        What one topology writes meanwhile, another one reads only if it comes after it: then it reads what is there
        when it starts.

        Args:
            timeout: how long it may take.
            after: for names of topologies, those that are to be at their end before it starts. Topologies that wait for
                each other start together.

        Raises:
            HayaseError: the first error of a topology or of the runtime, once all have ended.
            TopologyError: `UNKNOWN_TOPOLOGY`: `after` has a name that the program has not added.
            StreamsStoppedError: `TIMED_OUT`; the runtime has been stopped then.
        """
        for name in {name for each, others in (after or {}).items() for name in (each, *others)}:
            self.topology(name)
        waits_for = {name: set(others) for name, others in (after or {}).items()}
        self._start(bounded=True, later={name for name, others in waits_for.items() if others})
        deadline = None if timeout is None else time.monotonic() + timeout.total_seconds()
        while self._state is State.RUNNING and self._start_next(waits_for):
            if deadline is not None and time.monotonic() > deadline:
                self.close()
                raise StreamsStoppedError(
                    "TIMED_OUT", f"not all topologies were at the end of their input in {timeout}"
                )
            time.sleep(_POLL_S)
        reports = {name: app.progress() for name, app in self.topologies.items()}
        self.close()  # first: a runtime that is failing has its error only when it has ended
        errors = [error for error in (self._error, *(a.error for a in self.topologies.values())) if error is not None]
        for another in errors[1:]:
            _LOG.error("another topology failed, too: %s", another)
        if errors:
            raise errors[0]
        return reports

    def _start_next(self, waits_for: Mapping[str, Collection[str]]) -> bool:
        """Start the topologies whose turn it is; whether any is at work."""
        topologies = self.topologies
        waiting = [name for name, app in topologies.items() if app.state is State.CREATED]
        at_work = any(app.state not in (*ENDS, State.CREATED) for app in topologies.values())
        unfinished = {name for name, app in topologies.items() if app.state not in ENDS}
        ready = [name for name in waiting if unfinished.isdisjoint(waits_for.get(name, ()))]
        if not ready and not at_work:
            ready = waiting  # they wait for each other
        for name in ready:
            self._try_to_start(topologies[name], bounded=True)
        return at_work or bool(ready)

    def run(self) -> None:
        """Start and go on until `close`, Ctrl-C or a failure of the runtime.

        In the main thread Ctrl-C and SIGTERM stop all topologies between epochs, and `run` returns.

        Raises:
            HayaseError: what `start` raises, or what made the runtime fail.
        """
        check_not_loading()
        run_until_stopped(self.start, self.wait, self.close)
        if self._error is not None:
            raise self._error

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Wait until the runtime has stopped or failed; `False` if it has not within the timeout."""
        deadline = None if timeout is None else time.monotonic() + timeout.total_seconds()
        while self._state not in ENDS:
            if deadline is not None and time.monotonic() > deadline:
                return False
            time.sleep(_POLL_S)
        return True

    def close(self, timeout: timedelta = timedelta(seconds=60)) -> bool:
        """Stop all topologies between epochs, or after the timeout in mid-epoch, and Spark, if the runtime started it.

        Nothing is lost or written twice either way. Does nothing if the runtime has stopped. Thread-safe. While `start`
        is at work it only asks for the stop; `wait` returns when that has happened.

        Returns:
            Whether all topologies stopped between epochs.
        """
        with self._lock:
            if self._state in ENDS:
                return True
            already = self._state in (State.PENDING_SHUTDOWN, State.PENDING_ERROR)
            if not already:
                self._move(State.PENDING_SHUTDOWN)
            if self._starting:  # start() sees the state and stops what it started
                return True
        return self.wait(timeout) if already else self._end(None, timeout)

    def metrics(self) -> dict[str, dict[MetricName, Value]]:
        """The metrics of every topology, by name; see `StreamsApp.metrics`."""
        return {name: app.metrics() for name, app in self.topologies.items()}

    @property
    def metrics_url(self) -> str:
        """Where the metrics of all topologies are served for Prometheus; empty without `metrics.port`."""
        return self._metrics.url if self._metrics is not None else ""

    def __enter__(self) -> StreamsRuntime:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # how it works

    def _start(self, *, bounded: bool, later: Collection[str] = ()) -> None:
        check_not_loading()
        with self._lock:
            if self._state is not State.CREATED:
                raise StreamsStoppedError(
                    "ALREADY_STARTED", f"the runtime is {self._state.value}; make a new StreamsRuntime to start again"
                )
            self._move(State.REBALANCING)
            self._starting = True
        if self.config.log_format is not None:
            form, level = self.config.log_format, self.config.log_level or "INFO"
            configure_logging(form=form, level=level, secrets=self.config.secrets)
        try:
            self._open(bounded=bounded, later=later)
            self._start_all(bounded=bounded, later=later)
        except BaseException as error:
            known = error if isinstance(error, HayaseError) else None
            self._end(known, timedelta(0))
            raise
        with self._lock:
            self._starting = False
            if self.state is State.RUNNING:
                self._watcher = threading.Thread(target=self._watch, name="hayase-runtime", daemon=True)
                self._watcher.start()
                return
        self._end(None, _STOP_AT_START)

    def _start_all(self, *, bounded: bool, later: Collection[str]) -> None:
        with self._lock:
            if self.state is State.REBALANCING:
                self._move(State.RUNNING)
            apps = [app for name, app in self.topologies.items() if name not in later]
        for app in apps:
            if self.state is State.RUNNING:
                self._try_to_start(app, bounded=bounded)
        self._publish()

    def _open(self, *, bounded: bool, later: Collection[str]) -> None:
        """Take the lease, read the membership, start Spark."""
        from hayase.app.folders import settle_runtime_folders
        from hayase.app.metrics_server import MetricsServer
        from hayase.runtime.driver.lease import lease_for
        from hayase.runtime.driver.session import default_slots, settings_of_session
        from hayase.runtime.driver.shared_query import SharedQuery
        from hayase.runtime.driver.slot_loads import SlotLoads

        own = self._own
        settle_runtime_folders(own, self._blobs)
        probe_put_if_absent(self._blobs, exactly_once=True)
        lease = lease_for(self._blobs, own.application_id)
        lease.__enter__()
        self._lease = lease
        membership = Membership(self._blobs)
        if self._recalls:
            membership.begin()
        membership.forget_programs()
        self._set.recall(membership, programs=self._recalls)
        if bounded:
            self._end_now([app for name, app in self.topologies.items() if name not in later])
        known = settings_of_session(own.spark_properties)
        if own.metrics_port is not None:
            self._metrics = MetricsServer(
                own.metrics_host, own.metrics_port, own.application_id, self._all_metrics, self._report,
                own.metrics_allowed_hosts,
            )  # fmt: skip
        self._shared = SharedQuery(
            own.application_id,
            own.state_dir / own.application_id / RUNS,
            own.num_stream_threads or default_slots(known),
            own.spark_properties,
            known,
            job_s=own.epoch_span_max_ms / 1000,
            log_level=own.log_level or "WARNING",
            checkpoint=own.checkpoint_dir,
            fsync=own.checkpoint_fsync,
            patience_ms=own.task_timeout_ms,
            slot_memory_max_bytes=own.slot_memory_max_bytes or 0,
            delay_s=lambda error: self._recovery.delay_s(error, self._epochs()),
        )
        self._loads = SlotLoads(self._shared.slots)
        self._shared.start()
        self._service = RuntimeService(self, self._shared.folder, membership.program)

    def _end_now(self, apps: Collection[NamedTopology]) -> None:
        """Let a run to the end read what these topologies have to read now: none reads what others write meanwhile."""
        if not apps:
            return
        log = open_log_of_user(log_config(self._own))
        try:
            ends = ends_now(log, [app.topology for app in apps])
        finally:
            log.close()
        for app in apps:
            app.end_at(ends)

    def _config_of(self, name: str, program: Program) -> StreamsConfig:
        return topology_config(self._given, name, program.settings, program.application_id)

    def _put(self, name: str, program: Program, app: NamedTopology | None = None) -> tuple[NamedTopology, bool]:
        """Put a start in the place of one that is closed; with whether the caller has to start it."""
        app = self._set.make(name, program) if app is None else app
        with self._lock:  # it is in the set when all are started, or when all are closed
            self._check_open()
            self._set.put(name, program, app)
            return app, self._state is State.RUNNING

    def _start_topology(self, app: NamedTopology, *, bounded: bool = False) -> None:
        shared, loads = self._shared, self._loads
        assert shared is not None and loads is not None
        app.run_in(shared, loads)
        if bounded:
            app.start_to_end()
        else:
            app.start()

    def _forget(self, name: str, app: NamedTopology) -> None:
        self._set.remove(name)
        if self._loads is not None:
            self._loads.remove(app.config.application_id)

    def _start_replacing(self, name: str, app: NamedTopology, timeout: timedelta) -> None:
        """Start a topology in the place of another one, and wait until that one has done what is left to it.

        One that is to be paused, or changed again, is left to that.
        """
        self._start_topology(app)
        deadline = time.monotonic() + timeout.total_seconds()
        while app.is_preceded and app.state not in ENDS and not self._set.is_paused(name):
            if self._stopping.is_set() or self._set.is_awaited(name):
                return
            if time.monotonic() > deadline:
                app.close(timedelta(0))
                raise StreamsStoppedError(
                    "TIMED_OUT",
                    f"the topology that was {name!r} before has not finished its open epoch, or read its internal "
                    f"topics, in {timeout}; it goes on: replace it later, or give a longer timeout",
                )
            time.sleep(_POLL_S)
        if app.is_preceded and app.error is not None:
            raise app.error

    def _try_to_start(self, app: NamedTopology, *, bounded: bool) -> None:
        with self._set.changing(app.name):
            if app.state is not State.CREATED:  # it was removed, or restarted, meanwhile
                return
            try:
                self._start_topology(app, bounded=bounded)
            except HayaseError as error:  # its state says so; the others go on
                _LOG.error("topology %s could not be started: %s", app.name, error)

    def _publish(self) -> None:
        """Remember the topologies as they are now."""
        if self._state is State.RUNNING:
            self._set.publish()

    def _watch(self) -> None:
        while not self._stopping.wait(_POLL_S):
            assert self._shared is not None and self._lease is not None
            error = self._shared.error or self._lease.lost()
            if error is not None:
                with self._lock:
                    if self._state is not State.RUNNING:
                        return
                    self._move(State.PENDING_ERROR)
                self._end(error, timedelta(0))
                return
            if self._service is not None:
                self._service.serve()

    def _end(self, error: HayaseError | None, timeout: timedelta) -> bool:
        self._stopping.set()
        if error is None and self._shared is not None:
            error = self._shared.error  # which nothing has looked at yet
        if error is not None and error.condition in OF_STOPPING and self._state is State.PENDING_SHUTDOWN:
            error = None  # a signal to the process group has ended Spark as well
        deadline = time.monotonic() + timeout.total_seconds()
        clean = self._close_topologies(deadline)
        steps: list[Callable[[], object]] = []
        if self._shared is not None:
            steps.append(self._shared.close)
        if self._metrics is not None:
            steps.append(self._metrics.close)
        if self._lease is not None:
            steps.append(partial(self._lease.__exit__, None, None, None))
        for step in steps:
            try:
                step()
            except Exception:
                _LOG.exception("something could not be closed at the end of the runtime")
        with self._lock:
            self._error = error
            if error is None:
                self._move(State.PENDING_SHUTDOWN)
                self._move(State.NOT_RUNNING)
            else:
                self._move(State.PENDING_ERROR)
                self._move(State.ERROR)
        return clean

    def _close_topologies(self, deadline: float) -> bool:
        """Close all at the same time: each waits for the epoch that it is at."""
        clean: list[bool] = []

        def close(app: NamedTopology) -> None:
            clean.append(app.close(timedelta(seconds=max(0.0, deadline - time.monotonic()))))

        threads = [threading.Thread(target=close, args=(app,), daemon=True) for app in self.topologies.values()]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return all(clean)

    def _check_open(self) -> None:
        if self._state in (*ENDS, State.PENDING_SHUTDOWN, State.PENDING_ERROR):
            raise StreamsStoppedError(
                "NOT_RUNNING", f"the runtime {self.config.application_id!r} is {self._state.value}; make a new one"
            )

    def _epochs(self) -> int:
        return sum(app.progress().epochs for app in self.topologies.values())

    def _all_metrics(self) -> dict[MetricName, Value]:
        named: dict[MetricName, Value] = {}
        for name, metrics in self.metrics().items():
            for metric, value in metrics.items():
                tags = (*metric.tags, ("topology", name))
                named[MetricName(metric.group, metric.name, tags, metric.description)] = value
        return named

    def _report(self) -> ProgressReport:
        reports = [app.progress() for app in self.topologies.values()]
        lags = [report.lag_records for report in reports if report.lag_records is not None]
        return ProgressReport(
            self._state,
            sum(report.epochs for report in reports),
            max((report.last_epoch for report in reports), default=-1),
            sum(report.consumed for report in reports),
            sum(report.produced for report in reports),
            sum(report.late for report in reports),
            sum(report.dropped for report in reports),
            sum(report.dead_letters for report in reports),
            sum(lags) if lags else None,
            waiting=next((report.waiting for report in reports if report.waiting), ""),
            lost_offsets=sum(report.lost_offsets for report in reports),
        )

    def _move(self, new: State) -> None:
        if new is self._state:
            return
        assert new in NEXT[self._state], (self._state, new)
        _LOG.info("runtime %s: state %s -> %s", self.config.application_id, self._state.value, new.value)
        self._state = new
