"""An application: a topology and its settings, started and stopped."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from hayase.app.failure_recovery import Recovery, UncaughtExceptionHandler, shut_down_client
from hayase.app.main_guard import check_not_loading
from hayase.app.program_connectors import connectors_of
from hayase.app.reading import StoreReading
from hayase.app.report import ProgressReport
from hayase.app.reset_command import name_application
from hayase.app.run_status import RUNS, leave_note, note_of_end
from hayase.app.states import ENDS, NEXT, State
from hayase.app.stop_request import OF_STOPPING, run_until_stopped
from hayase.app.telemetry import Telemetry
from hayase.compiler.options import configured
from hayase.core.config import StreamsConfig
from hayase.core.errors import ConfigError, HayaseError, StreamsStoppedError
from hayase.core.logs import configure_logging, log_context, log_fields
from hayase.core.metrics_registry import MetricName, Value
from hayase.dsl.builder import StreamsBuilder, topology_of
from hayase.query.local_folders import clear_memory
from hayase.query.standby import Standbys, standbys_of
from hayase.storage.open import open_blobs, probe_put_if_absent
from hayase.topology.topology import Topology

if TYPE_CHECKING:
    from hayase.app.connected_runner import ConnectedRunner
    from hayase.app.topic_changes import TopicChanges
    from hayase.compiler.plan_comparison import PlanDifference
    from hayase.connect.program import ProgramConnectors
    from hayase.runtime.driver.lease import Lease
    from hayase.runtime.driver.progress import EpochTiming
    from hayase.runtime.driver.query_runner import QueryRunner
    from hayase.runtime.driver.run import Run
    from hayase.runtime.driver.topology_runner import TopologyRunner
    from hayase.runtime.wire.app_spec import AppSpec
    from hayase.task.plan import Plan

    Runner = QueryRunner | TopologyRunner | ConnectedRunner

_LOG = logging.getLogger("hayase.app")

StateListener = Callable[[State, State], None]
"""Called as `(new, old)` after each change of state, in the thread that made it; what it raises is logged."""

_WAIT_POLL_S = 0.01
_WAIT_POLL_MAX_S = 0.05
_WAIT_POLL_FACTOR = 1.1
"""The pause between two looks grows: a wait of days does not look as often as one of a second."""
_STOP_AT_START_S = 60.0
FINAL = "final"
"""An attribute of the line of the log that says why the application failed."""


class StreamsApp(StoreReading):
    """Runs a topology on Spark (Kafka Streams' `KafkaStreams`).

    One running copy per `application.id`: a second one is refused. After a crash, or `close`, starting again goes on
    where the last finished epoch ended; with `processing.guarantee=exactly_once_v2` (the default) output topics and
    stores then hold what an undisturbed run would have made.

    The object may be used from several threads. Stores may be read from any process that has the same settings, whether
    it started the application or not.

    Example:
        >>> app = StreamsApp(topology, {"application.id": "sales", "log.dir": "data/log"})  # doctest: +SKIP
        >>> app.run_to_end()  # doctest: +SKIP
        >>> app.store("revenue").get("book")  # doctest: +SKIP
    """

    def __init__(self, topology: Topology | StreamsBuilder, config: StreamsConfig | Mapping[str, object]) -> None:
        """Check the settings; nothing is started, created or contacted yet.

        Args:
            topology: what to run; a StreamsBuilder is built.
            config: settings.

        Raises:
            ConfigError: a setting is unknown, missing, or its value not allowed.
            MissingRequirementError: the checkpoint is on a storage whose package is not installed.
            TopologyError: neither the topology nor the settings name a serde that is needed.
        """
        self.config = config if isinstance(config, StreamsConfig) else StreamsConfig(config)
        topology = topology_of(topology)
        self.topology = configured(topology, self.config)
        self._blobs = open_blobs(self.config.checkpoint_dir, fsync=self.config.checkpoint_fsync)
        self._state = State.CREATED
        self._listener: StateListener | None = None
        self._lock = threading.RLock()
        self._ended_event = threading.Event()
        self._error: HayaseError | None = None
        self._run: Run | None = None
        self._runner: Runner | None = None
        self._preceded = False
        self._connectors: ProgramConnectors | None = None
        self._lease: Lease | None = None
        self._standbys: Standbys | None = None
        self._watcher: threading.Thread | None = None
        self._recovery = Recovery(shut_down_client, self.config.task_timeout_ms / 1000)
        self._pause_asked = False
        self._announced = False
        self._deletes_removed_stores = False
        self._changes: list[str] = []
        self._telemetry = Telemetry(self.config, topology.describe(), self.progress, lambda: self._recovery)

    @property
    def state(self) -> State:
        """Where the application is in its life."""
        return self._state

    @property
    def error(self) -> HayaseError | None:
        """The error that ended the application; `None` unless the state is ERROR."""
        return self._error

    def set_state_listener(self, listener: StateListener) -> None:
        """Set the listener: `listener(new, old)` is called after each change of state.

        Raises:
            StreamsStoppedError: the application was started already.
        """
        if self._state is not State.CREATED:
            raise StreamsStoppedError("ALREADY_STARTED", "a state listener must be set before start()")
        self._listener = listener

    def set_uncaught_exception_handler(self, handler: UncaughtExceptionHandler) -> None:
        """Have `handler(error)` decide what happens when the application fails; see StreamThreadExceptionResponse.

        Called in a thread of its own, once for each failure, with the error that would end the application; the query
        is not at work meanwhile. Not asked about errors of `start`, nor about those that pass by themselves (brokers
        that do not answer, a Spark process that died): they are tried again for `task.timeout.ms`, and only then
        it is asked.

        Raises:
            StreamsStoppedError: the application was started already.

        Example:
            >>> def replace(error):
            ...     return StreamThreadExceptionResponse.REPLACE_THREAD
            >>> app.set_uncaught_exception_handler(replace)  # doctest: +SKIP
        """
        if self._state is not State.CREATED:
            raise StreamsStoppedError("ALREADY_STARTED", "the uncaught exception handler must be set before start()")
        self._recovery = Recovery(handler, self.config.task_timeout_ms / 1000)

    def delete_removed_stores(self) -> None:
        """Have the start delete the rows of stores that the topology does not have any more, also of earlier changes.

        Without this they stay in the checkpoint. Stores that the topology has are never touched, and nothing is deleted
        before the first epoch of the changed topology. Also `hayase run --delete-removed-stores`.

        Raises:
            StreamsStoppedError: `ALREADY_STARTED`.

        Example:
            >>> from hayase import *
            >>> builder = StreamsBuilder()
            >>> builder.stream("in").to("out")
            >>> app = StreamsApp(builder.build(), {"application.id": "copy"})
            >>> app.delete_removed_stores()
            >>> app.topology_changes
            []
        """
        if self._state is not State.CREATED:
            raise StreamsStoppedError(
                "ALREADY_STARTED", "removed stores are deleted by a start: call delete_removed_stores before it"
            )
        self._deletes_removed_stores = True

    @property
    def topology_changes(self) -> list[str]:
        """What the start has changed in the checkpoint's topology, with new and removed stores; empty if nothing."""
        return list(self._changes)

    def pause(self) -> None:
        """Begin no new epochs until `resume`; the one at work is finished. Returns at once.

        The state stays RUNNING; `is_paused` tells. May be called before `start`; lasts until the process ends
        (KIP-834). Nothing is read, written or punctuated meanwhile; stores can be read. `run_to_end` waits for the
        `resume`.
        """
        with self._lock:
            self._pause_asked = True
            if self._run is not None and self._state not in ENDS:
                self._run.control.request_pause(True)

    def resume(self) -> None:
        """Go on after `pause`, whether this program asked for it or `hayase app pause`."""
        with self._lock:
            self._pause_asked = False
            if self._run is not None and self._state not in ENDS:
                self._run.control.request_pause(False)

    @property
    def is_paused(self) -> bool:
        """Whether the application is paused, or about to be."""
        if self._run is None or self._state in ENDS:
            return self._pause_asked
        return self._run.control.pause_requested()

    def start(self) -> None:
        """Start and go on until `close`. Returns when the query is started; see `state` and `wait`.

        Raises:
            StreamsStoppedError: it was started before.
            LeaseHeldError: another copy is running.
            UnknownTopicError, TopologyError, CheckpointError, ConfigError: it cannot run as it is.
        """
        self._start(bounded=False)

    def start_to_end(self) -> None:
        """Start, and end when everything that is in the source topics now is processed; see `wait`.

        Raises:
            HayaseError: what start() raises.
        """
        self._start(bounded=True)

    def run_to_end(self, timeout: timedelta | None = None) -> ProgressReport:
        """Process everything that is in the source topics, and in streaming frames (`from_spark`), now, then stop.

        Raises:
            HayaseError: what start() raises, or what made it fail.
            StreamsStoppedError: TIMED_OUT; the application has been stopped then.
        """
        self._announced = True
        self.start_to_end()
        try:
            at_end = self.wait(timeout)
        except BaseException:  # Ctrl-C
            self.close()
            raise
        if not at_end:
            self.close()
            raise StreamsStoppedError("TIMED_OUT", f"the application was not at the end of its input after {timeout}")
        if self._error is not None:
            raise self._error
        return self.progress()

    def run(self) -> None:
        """Start and go on until `close`, Ctrl-C or a failure: what a program calls that runs one application.

        In the main thread Ctrl-C and SIGTERM stop it between epochs, and `run` returns; a second one ends the process
        at once. A signal for which the program has a handler of its own goes there.

        A program that calls `start` and `wait` instead looks at `state` or `error` behind them: `wait` never raises.

        Raises:
            HayaseError: what start() raises, or what made it fail.

        Example:
            >>> with StreamsApp(topology, settings) as app:  # doctest: +SKIP
            ...     app.run()
        """
        check_not_loading()
        self._announced = True
        run_until_stopped(self.start, self.wait, self.close)
        if self._error is not None:
            raise self._error

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Wait until it has stopped and its listener was called; `False` if it has not within the timeout.

        Never raises for a failed application: see `error`, or `run`. Before `start` it waits for the start too.
        """
        # Looks again and again instead of waiting for a lock: a signal handler that calls close() may interrupt it
        # anywhere.
        deadline = time.monotonic() + timeout.total_seconds() if timeout is not None else None
        poll_s = _WAIT_POLL_S
        while self._state not in ENDS or not self._ended_event.is_set():
            if deadline is not None and time.monotonic() > deadline:
                return False
            time.sleep(poll_s)
            poll_s = min(_WAIT_POLL_MAX_S, poll_s * _WAIT_POLL_FACTOR)
        return True

    def close(self, timeout: timedelta = timedelta(seconds=60)) -> bool:
        """Stop the application: between epochs, or after the timeout in mid-epoch. Kafka Streams' `close(Duration)`.

        Nothing is lost or written twice either way: the next start finishes an open epoch. The state is then
        `NOT_RUNNING`, processors are closed, and the object cannot be started again. Thread-safe, and may be called
        from a signal handler. Does nothing if the application has stopped or failed. While `start` is at work, in
        another thread or below a signal handler, it only asks for the stop; `wait` returns when that has happened.

        Args:
            timeout: how long the epoch at work may take to end. Stopping Spark comes on top.

        Returns:
            Whether it stopped between epochs, or had stopped already.

        Example:
            >>> from datetime import timedelta
            >>> from hayase import *
            >>> builder = StreamsBuilder()
            >>> builder.stream("in").to("out")
            >>> app = StreamsApp(builder.build(), {"application.id": "copy"})
            >>> app.close(timedelta(seconds=5)), app.state.value
            (True, 'NOT_RUNNING')
        """
        with self._lock:
            if self._state is State.CREATED:
                self._move(State.PENDING_SHUTDOWN)
                self._move(State.NOT_RUNNING)
                self._ended_event.set()
                return True
            if self._state in ENDS or self._state is State.PENDING_ERROR:
                return True
            self._move(State.PENDING_SHUTDOWN)
            watcher, runner = self._watcher, self._runner
        if watcher is None or runner is None:  # still starting: start() sees the state and stops what it started
            return True
        clean = runner.stop(timeout.total_seconds())
        if watcher is not threading.current_thread():
            watcher.join()
        return clean

    def progress(self) -> ProgressReport:
        """How far the application is, as one value: state, epochs, records read, written and dropped, lag.

        May be called in any state and thread; it reads counters in memory and a small file of the run, and asks no
        broker. Counts begin at 0 with the start of this object, and change when an epoch is complete, so they trail
        what is being processed; an epoch that is adopted from an earlier attempt counts no records. For totals over
        restarts compare offsets of the consumer group. `lag_records` is what the source topics hold beyond the last
        complete epoch, as a consumer group's lag; `None` before the first epoch is planned, and as of the last look at
        the ends of topics afterwards.

        Example:
            >>> from hayase import *
            >>> builder = StreamsBuilder()
            >>> builder.stream("in").to("out")
            >>> report = StreamsApp(builder.build(), {"application.id": "copy"}).progress()
            >>> report.state.value, report.epochs, report.last_epoch, report.lag_records
            ('CREATED', 0, -1, None)
        """
        run = self._run
        status = run.status() if run is not None else None
        counters: dict[str, int] = run.progress.counters() if run is not None else {}
        last_epoch = run.progress.last_epoch if run is not None else -1
        return ProgressReport(
            self._state,
            run.progress.epochs if run is not None else 0,
            last_epoch,
            run.progress.consumed(self._own_topics()) if run is not None else 0,
            counters.get("records-produced-total", 0),
            counters.get("late-records-total", 0),
            counters.get("dropped-records-total", 0),
            counters.get("dead-letter-records-total", 0),
            status.unprocessed(last_epoch) if status is not None else None,
            self.is_paused,
            status.waiting if status is not None else "",
            status.lost_offsets if status is not None else 0,
        )

    def _own_topics(self) -> set[str]:
        """Where the application sends records to itself, through the log or within an epoch."""
        fed = {source.topic for source in self.topology.spark_sources}
        fed |= {each.topic for each in self.topology.connectors if each.source}
        either = (self.topology, self.topology.earlier or self.topology)  # whichever its checkpoint names
        return {topic for each in either for topic in (*each.repartitions, *each.internal_topics)} - fed

    def metrics(self) -> dict[MetricName, Value]:
        """All metrics as they are now, sorted by group, name and tags (Kafka Streams' `KafkaStreams.metrics()`).

        Groups, names and tags are Kafka Streams' where the meaning exists; a thread is a slot. Counters begin at 0 with
        the object, rates, averages and maxima are over the last `metrics.num.samples` of `metrics.sample.window.ms`,
        and NaN if nothing happened in them. What an epoch did is seen when it is complete; an epoch that was adopted
        from an earlier attempt counts no records. docs/operations.md lists them.
        """
        return self._telemetry.registry.snapshot()

    @property
    def metrics_url(self) -> str:
        """Where they are served for Prometheus while the application is started; empty without `metrics.port`."""
        return self._telemetry.url

    def epoch_timings(self) -> list[EpochTiming]:
        """Where the time of the last epochs went: one `EpochTiming` each, oldest first, the last 1,000 at most.

        A copy, empty before the first epoch of this object. Times are in milliseconds; bundles run side by side, so
        their steps do not add up to `total_ms`. For latencies over time use `metrics()`. The names of steps may change
        between versions.

        Example:
            >>> for timing in app.epoch_timings()[-3:]:  # doctest: +SKIP
            ...     print(timing.epoch, timing.records, timing.total_ms)
        """
        return list(self._run.progress.timings) if self._run is not None else []

    def __enter__(self) -> StreamsApp:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _start(self, *, bounded: bool) -> None:
        from hayase.app.announcement import announce
        from hayase.app.topic_changes import TopicChanges
        from hayase.runtime.driver.session import settings_of_session

        check_not_loading()
        with self._lock:
            if self._state is not State.CREATED:
                raise StreamsStoppedError(
                    "ALREADY_STARTED", f"the application is {self._state.value}; make a new StreamsApp to start again"
                )
            self._move(State.REBALANCING)
        if self.config.log_format is not None:
            form, level = self.config.log_format, self.config.log_level or "INFO"
            configure_logging(form=form, level=level, secrets=self.config.secrets)
        run: Run | None = None
        try:
            self._connectors = connectors_of(self.topology, self.config)
            self._take_folders()
            self._create_topics()
            spark_settings = settings_of_session(self.config.spark_properties)
            run = self._new_run(self.config.state_dir / self.config.application_id / RUNS, spark_settings)
            self._telemetry.serve()
            plan = partial(self._prepared, run, spark_settings)
            shipped = plan()
            with self._lock:
                self._run = run
                run.control.request_pause(self._pause_asked)
            self._standbys = standbys_of(self.config)
            if self._announced:
                announce(shipped, self.config)
            if shipped.hands_over:
                run.control.request_change(True)
            runner = self._runner = self._with_connectors(self._new_runner(run, shipped, bounded=bounded), bounded)
            runner.start()
        except HayaseError as error:
            self._ended(run, error, raised=True)
            raise
        except Exception as error:
            failure = ConfigError(
                "START_FAILED", f"the application could not be started: {type(error).__name__}: {error}"
            )
            self._ended(run, failure, raised=True)
            raise failure from error
        except BaseException:
            self._ended(run, None)
            raise
        with self._lock:
            changes = TopicChanges(self.topology, self.config, self._blobs, runner, plan, shipped, watch=not bounded)
            watcher = threading.Thread(
                target=self._watch, args=(runner, changes, bounded), name="hayase-watcher", daemon=True
            )
            watcher.start()
            self._watcher = watcher
            asked_to_stop = self.state is State.PENDING_SHUTDOWN
        if asked_to_stop:
            runner.stop(_STOP_AT_START_S)

    def _prepared(self, run: Run, spark_settings: Mapping[str, str], unfinished: int | None = None) -> AppSpec:
        """What workers get; its metrics are followed from now on."""
        from hayase.app.prepare import prepare

        self._settle_producers()
        forget = self._connectors.forget_offsets if self._connectors is not None else lambda: None
        shipped = prepare(
            self.topology, self.config, self._blobs, run.endpoints, spark_settings, self._first_slot, forget,
            delete_removed_stores=self._deletes_removed_stores, on_change=self._changed, unfinished=unfinished,
        )  # fmt: skip
        self._telemetry.follow(shipped, run.progress)
        self._preceded = shipped.hands_over
        return shipped

    def _settle_producers(self) -> None:
        """Have the bundles published under ids of their own, if a shared runtime published them last."""
        from hayase.app.slot_producers import give_bundles_back

        give_bundles_back(self.config)

    def _changed(self, difference: PlanDifference) -> None:
        from hayase.app.plan_switch import store_lines

        self._changes = [*difference.changes, *store_lines(difference)]

    def _new_run(self, folder: Path, spark_settings: Mapping[str, str]) -> Run:
        from hayase.runtime.driver.run import Run

        return Run.make(folder, spark_settings)

    def _first_slot(self, plan: Plan) -> int:
        """The slot of the first bundle: an application has the slots to itself."""
        return 0

    def _new_runner(self, run: Run, shipped: AppSpec, *, bounded: bool) -> Runner:
        from hayase.runtime.driver.query_runner import QueryRunner

        return QueryRunner(
            run, shipped, self._blobs, self.config.spark_properties, self.topology,
            interval_ms=self.config.commit_interval_ms, bounded=bounded,
        )  # fmt: skip

    def _with_connectors(self, runner: Runner, bounded: bool) -> Runner:
        from hayase.app.connected_runner import ConnectedRunner

        if self._connectors is None or isinstance(runner, ConnectedRunner):
            return runner
        return ConnectedRunner(runner, self._connectors, bounded=bounded)

    def _take_folders(self) -> None:
        """Make the application's folders private and take its lease: what is in them is then this process's alone."""
        from hayase.app.folders import settle_folders
        from hayase.runtime.driver.lease import lease_for

        settle_folders(self.topology, self.config, self._blobs)
        probe_put_if_absent(self._blobs, exactly_once=self.config.exactly_once)
        self._lease = lease_for(self._blobs, self.config.application_id)
        self._lease.__enter__()
        clear_memory(self.config)

    def _create_topics(self) -> None:
        """For subclasses: make the topics that processors need with settings of their own."""

    def _watch(self, runner: Runner, changes: TopicChanges | None, bounded: bool) -> None:
        """The only place that ends a started application."""
        from hayase.app.supervisor import Supervisor

        with log_context(application_id=self.config.application_id):
            try:
                supervisor = Supervisor(self, runner, self._recovery, self.metrics_url, self._standbys, changes)
                error = supervisor.until_end()
            except BaseException as failed:  # whatever it is, the application ends, and lets go of its lease
                _LOG.exception("the supervisor failed")
                error = runner.why_lost(failed)
            self._ended(runner.run, error, raised=bounded)  # by run_to_end

    def lease_lost(self) -> HayaseError | None:
        """The reason why another copy may run now; `None` as long as the lease is held."""
        return self._lease.lost() if self._lease is not None else None

    def _ended(self, run: Run | None, error: HayaseError | None, *, raised: bool = False) -> None:
        """The end; an error that a caller gets as well is logged only where logs are collected."""
        self._let_go(run)
        if self._state is State.PENDING_SHUTDOWN and error is not None and error.condition in OF_STOPPING:
            error = None
        if error is not None:
            name_application(error, self.config.application_id)
        self._error = error
        if run is not None:
            end = State.ERROR if error is not None else State.NOT_RUNNING
            try:
                leave_note(
                    self.config, note_of_end(replace(self.progress(), state=end), self._recovery.replaced, error)
                )
            except OSError as failed:
                _LOG.warning("no note of the end was left for `hayase app status`: %s", failed)
        if error is not None:
            level = logging.DEBUG if raised and self.config.log_format is None else logging.ERROR
            fields = {**log_fields(error, self.config.application_id), FINAL: True}
            _LOG.log(level, "the application failed: %s", error, extra=fields)
            self._move(State.PENDING_ERROR)
            self._move(State.ERROR)
        else:
            self._move(State.PENDING_SHUTDOWN)
            self._move(State.NOT_RUNNING)
        self._ended_event.set()

    def _let_go(self, run: Run | None) -> None:
        """Close all that the run opened, each on its own: what fails must not keep the others, nor the lease."""
        steps: list[Callable[[], object]] = [self._telemetry.close]
        if self._runner is not None:
            steps.append(self._runner.close)
        if self._connectors is not None:
            steps.append(self._connectors.close)
        if run is not None:
            # The memory goes here, not with the lease: an application that was refused it has no run.
            steps += [run.close, partial(clear_memory, self.config)]
        if self._standbys is not None:
            steps.append(self._standbys.stop)
        if self._lease is not None:
            steps.append(partial(self._lease.__exit__, None, None, None))
        for step in steps:
            try:
                step()
            except Exception:
                _LOG.exception("something could not be closed at the end of the application")
        self._lease = None

    def move_if(self, old: State, new: State) -> bool:
        """Change the state if it is `old`; for the supervisor, not for users."""
        with self._lock:
            if self._state is not old:
                return False
            self._move(new)
            return True

    def _move(self, new: State) -> None:
        with self._lock:
            old = self._state
            if new is old:
                return
            assert new in NEXT[old], (old, new)
            self._state = new
        _LOG.info("state %s -> %s", old.value, new.value, extra={"application_id": self.config.application_id})
        if self._listener is not None:
            try:
                self._listener(new, old)
            except Exception:  # a listener must not stop the application
                _LOG.exception("the state listener failed")
