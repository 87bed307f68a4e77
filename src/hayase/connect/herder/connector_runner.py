"""Brings one connector to the state that its user asks for: a thread that starts, stops and fences."""

from __future__ import annotations

import dataclasses
import logging
import threading
import time
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from hayase.connect.config.references import with_references
from hayase.connect.connector_parts import connector_class
from hayase.connect.connector_validation import typed_config
from hayase.connect.contracts import Connector, SinkConnector, SinkPartition
from hayase.connect.exceptions import RetriableError
from hayase.connect.generations import Generations
from hayase.connect.herder.environment import WorkerEnvironment
from hayase.connect.herder.generation_plan import plan_generation, plan_task_restart, task_configs
from hayase.connect.herder.states import State, Status, TargetState
from hayase.connect.herder.stores import KeepsStatuses, KeepsTasks, StoredConnector
from hayase.connect.herder.task_host import RunningTask, TaskHost, ThreadHost
from hayase.connect.herder.task_loops import TaskSpec
from hayase.connect.herder.topics_of_sink import sink_partitions
from hayase.connect.plugins import version_of
from hayase.core.errors import ConfigError, LogError

_LOG = logging.getLogger(__name__)
_LOOK_S = 2.0
"""How often references and the topics of a sink are looked at."""
_FIRST_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 10.0


@dataclass(slots=True)
class _PendingChanges:
    """What was asked for since the last look."""

    props: dict[str, str] | None = None
    restart_connector: bool = False
    restart_tasks: set[int] = field(default_factory=set)
    reconfigure: bool = False
    delete: bool = False
    close: bool = False


class Failure(NamedTuple):
    """Why a connector or a task has failed.

    Attributes:
        task: its id; `None`: the connector.
        trace: of the error.
        error: it itself, if it is known.
    """

    task: int | None
    trace: str
    error: Exception | None


class ConnectorRunner:
    """Runs one connector with its tasks.

    Args:
        name: of the connector.
        stored: its configuration and target state.
        env: of the worker.
        configs: keeps configurations of tasks.
        statuses: keeps states.
        host: runs the tasks; default: threads of this process.
    """

    def __init__(
        self,
        name: str,
        stored: StoredConnector,
        env: WorkerEnvironment,
        configs: KeepsTasks,
        statuses: KeepsStatuses,
        host: TaskHost | None = None,
    ) -> None:
        self.name = name
        self.stored = stored
        self.topics: set[str] = set()
        self.status = Status(State.UNASSIGNED, env.worker_id)
        self.task_statuses: dict[int, Status] = {}
        self.working = threading.RLock()
        """Held while the connector is started or stopped, and while its offsets are changed."""
        self._shared = env
        self._env = env
        self._configs = configs
        self._statuses = statuses
        self._host = host or ThreadHost()
        self._generations = Generations(env.log, env.config.group)
        self._generation = 0
        self._error: Exception | None = None
        self.stop_error: Exception | None = None
        """Why a task could not finish what it had begun when it was stopped."""
        self._pending = _PendingChanges(props=dict(stored.props))
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._connector: Connector | None = None
        self._resolved: dict[str, str] = {}
        self._running_props: dict[str, str] | None = None
        self._tasks: dict[int, RunningTask] = {}
        self._addresses: dict[int, str] = {}
        self._specs: dict[int, TaskSpec] = {}
        self._partitions: list[SinkPartition] = []
        self._stale = False
        self._thread = threading.Thread(target=self._run, name=f"connector-{name}", daemon=True)

    # what others ask for

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def reconfigure(self, props: Mapping[str, str]) -> None:
        """Run with another configuration; what failed with the one before is shown as restarting from now on."""
        if self.stored.target is TargetState.STARTED:
            self._forget_failures()
        with self._lock:
            self.stored.props = dict(props)
            self._pending.props = dict(props)
        self._wake.set()

    def _forget_failures(self) -> None:
        for task, status in dict(self.task_statuses).items():
            if status.state is State.FAILED:
                self._set_task_status(task, State.RESTARTING)
        if self.status.state is State.FAILED:
            self._set_status(State.RESTARTING)

    def set_target(self, target: TargetState) -> None:
        """Start, pause or stop."""
        with self._lock:
            self.stored.target = target
        self._wake.set()

    def restart(self, *, connector: bool, tasks: set[int]) -> None:
        """Restart the connector, or tasks."""
        with self._lock:
            self._pending.restart_connector |= connector
            self._pending.restart_tasks |= tasks
        for task in tasks:
            self._set_task_status(task, State.RESTARTING)
        if connector:
            self._set_status(State.RESTARTING)
        self._wake.set()

    def request_task_reconfiguration(self) -> None:
        """See `ConnectorContext`."""
        with self._lock:
            self._pending.reconfigure = True
        self._wake.set()

    def raise_error(self, error: Exception) -> None:
        """See `ConnectorContext`."""
        self._error = error
        self._set_status(State.FAILED, "".join(traceback.format_exception(error)))

    def delete(self) -> None:
        """End and forget; `join` waits for it."""
        with self._lock:
            self._pending.delete = True
        self._wake.set()

    def close(self) -> None:
        """End with the worker; `join` waits for it."""
        with self._lock:
            self._pending.close = True
        self._wake.set()

    def join(self, timeout_s: float) -> bool:
        """Wait for the end; whether it came."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    @property
    def stopped(self) -> bool:
        """Whether it is stopped and no task is left; asked with `working` held."""
        return self.stored.target is TargetState.STOPPED and not self._tasks and self._connector is None

    def idle_s(self) -> float:
        """For how long all tasks have had nothing to do; 0 while something starts, waits or has failed."""
        threads = list(dict(self._tasks).values())
        if self.status.state is not State.RUNNING or len(threads) != len(self.stored.tasks):
            return 0.0
        return min((thread.idle_s() for thread in threads), default=0.0)

    def hurry(self) -> None:
        """Let tasks of a sink write records without waiting for further ones."""
        for running in dict(self._tasks).values():
            running.hurry()

    def positions(self) -> dict[SinkPartition, int]:
        """The offset behind what a sink has written, of each partition whose task has started."""
        return {
            partition: offset
            for running in dict(self._tasks).values()
            for partition, offset in running.positions().items()
        }

    def failure(self) -> Failure | None:
        """Why the connector or one of its tasks has failed, if it has."""
        if self.status.state is State.FAILED:
            return Failure(None, self.status.trace or "", self._error)
        for task, status in sorted(dict(self.task_statuses).items()):
            if status.state is State.FAILED:
                thread = self._tasks.get(task)
                return Failure(task, status.trace or "", None if thread is None else thread.error)
        return None

    def address(self) -> str | None:
        """Where a task takes requests; `None` if none does."""
        return next(iter(dict(self._addresses).values()), None)

    def metrics(self) -> dict[int, dict[str, float]]:
        """Metrics of each task."""
        return {task: thread.metrics() for task, thread in dict(self._tasks).items()}

    # the thread

    def _run(self) -> None:
        self._env = self._shared.with_own_log()
        self._generations = Generations(self._env.log, self._env.config.group)
        try:
            self._serve()
        finally:
            self._shared.close_task_log(self._env.log)

    def _serve(self) -> None:
        pause_s = _FIRST_PAUSE_S
        while True:
            pending = self._take_pending()
            try:
                with self.working:
                    if pending.delete or pending.close:
                        self._end(forget=pending.delete)
                        return
                    self._reconcile(pending)
                pause_s, wait_s = _FIRST_PAUSE_S, _LOOK_S
            except (RetriableError, LogError) as error:
                _LOG.warning("connector %s waits and tries again: %s", self.name, error)
                self._set_status(State.UNASSIGNED, f"waiting, tried again in {pause_s:g} s: {error}")
                self._give_back(pending)
                wait_s, pause_s = pause_s, min(2 * pause_s, _LONGEST_PAUSE_S)
            except Exception as error:  # whatever a plug-in raises
                _LOG.exception("connector %s failed", self.name)
                self._error = error
                self._set_status(State.FAILED, "".join(traceback.format_exception(error)))
                wait_s = _LOOK_S
            self._wake.wait(wait_s)

    def _take_pending(self) -> _PendingChanges:
        with self._lock:
            pending, self._pending = self._pending, _PendingChanges()
            self._wake.clear()
            return pending

    def _give_back(self, pending: _PendingChanges) -> None:
        with self._lock:
            now = self._pending
            now.props = now.props if now.props is not None else pending.props
            now.restart_connector |= pending.restart_connector
            now.restart_tasks |= pending.restart_tasks
            now.reconfigure |= pending.reconfigure
            now.delete |= pending.delete
            now.close |= pending.close

    def _reconcile(self, pending: _PendingChanges) -> None:
        target = self.stored.target
        if target is TargetState.STOPPED:
            self._stop_all()
            return
        changed = pending.props is not None or self._references_changed()
        if target is TargetState.PAUSED:
            self._pause(changed)
        else:
            self._resume(changed, pending)
        for task in sorted(pending.restart_tasks & self._specs.keys()):
            self._restart_task(task)

    def _references_changed(self) -> bool:
        """Whether a secret has changed, and the connector wants to be restarted for that."""
        props = self._running_props
        if props is None or self._connector is None or props.get("config.action.reload", "restart") != "restart":
            return False
        return self._env.references.resolved(props) != self._resolved

    def _pause(self, changed: bool) -> None:
        for thread in self._tasks.values():
            thread.pause()
        self._stop_connector()
        self._stale |= changed  # the next start is with the new configuration
        self._set_status(State.PAUSED)

    def _resume(self, changed: bool, pending: _PendingChanges) -> None:
        changed |= self._stale
        asked = changed or pending.restart_connector
        if self.status.state is State.FAILED and not asked and not pending.reconfigure:
            return
        if self._connector is None or asked:
            self._stop_connector()
            self._start_connector()
            self._set_status(State.RUNNING)
            pending.reconfigure = True
        partitions = self._sink_partitions()
        if changed or pending.reconfigure or partitions != self._partitions:
            self._configure_tasks(partitions, always=changed)
        self._stale = False
        self._set_status(State.RUNNING)
        for thread in self._tasks.values():
            thread.resume()

    # the connector

    def _start_connector(self) -> None:
        props = dict(self.stored.props)
        self._resolved = self._env.references.resolved(props)
        connector = connector_class(self._env.plugins, self._resolved)()
        connector.initialize(self)
        try:
            connector.start(self._resolved)
        except BaseException:
            self._connector = connector
            self._stop_connector()
            raise
        self._connector = connector
        self._running_props = props

    def _stop_connector(self) -> None:
        connector, self._connector = self._connector, None
        if connector is not None:
            try:
                connector.stop()
            except Exception:  # it is let go of in any case
                _LOG.exception("connector %s: stop failed", self.name)

    # its tasks

    def _sink_partitions(self) -> list[SinkPartition]:
        if not isinstance(self._connector, SinkConnector):
            return []
        return sink_partitions(self._env, typed_config(type(self._connector), self._resolved))

    def _configure_tasks(self, partitions: list[SinkPartition], *, always: bool) -> None:
        """Ask the connector for its tasks, and run them if they are others than before."""
        connector = self._connector
        assert connector is not None
        configs = task_configs(self.name, connector, self._resolved)
        props = self._running_props or {}
        kept = [with_references(config, props, self._resolved) for config in configs]  # secrets stay where they are
        if not always and self._tasks and kept == self.stored.tasks and partitions == self._partitions:
            return
        self._stop_tasks()
        self._generation, self._specs = plan_generation(
            self._env, self.name, connector, self._resolved, configs, partitions, self._topic_used
        )
        self._partitions = partitions
        self.stored.tasks = kept
        self._configs.put_tasks(self.name, kept)
        for task in range(len(configs), max(self.task_statuses, default=-1) + 1):
            self._forget_task(task)
        for task in self._specs:
            self._start_task(task)

    def _start_task(self, task: int) -> None:
        spec = self._specs[task]
        generation = spec.generation
        spec = dataclasses.replace(spec, advertised=lambda url: self._advertised(task, generation, url))
        self._addresses.pop(task, None)
        self._set_task_status(task, State.UNASSIGNED)
        running = self._host.new_task(
            self._env,
            spec,
            lambda state, trace: self._set_task_status(task, state, trace),
            lambda: self._task_lost(task, generation),
        )
        self._tasks[task] = running
        running.start(paused=self.stored.target is TargetState.PAUSED)

    def _advertised(self, task: int, generation: int, url: str) -> None:
        spec = self._specs.get(task)
        if spec is not None and spec.generation == generation:
            self._addresses[task] = url

    def _task_lost(self, task: int, generation: int) -> None:
        """Start a task again that ran in this generation; one of a later generation goes on."""
        with self._lock:
            spec = self._specs.get(task)
            if spec is None or spec.generation != generation:
                return
            self._pending.restart_tasks.add(task)
        self._set_task_status(task, State.UNASSIGNED)
        self._wake.set()

    def _restart_task(self, task: int) -> None:
        """Restart one task, in a generation of its own: the others go on."""
        self._stop_threads({task: self._tasks.pop(task)} if task in self._tasks else {})
        self._specs[task] = plan_task_restart(self._env, self._specs[task])
        self._start_task(task)

    def _topic_used(self, task: int, topic: str) -> None:
        if topic not in self.topics and self._env.config.bool("topic.tracking.enable"):
            self.topics.add(topic)
            self._statuses.add_topic(self.name, task, topic)

    def _stop_tasks(self) -> None:
        threads, self._tasks = self._tasks, {}
        self._stop_threads(threads)

    def _stop_threads(self, threads: Mapping[int, RunningTask]) -> None:
        for task in threads:
            self._addresses.pop(task, None)
        for thread in threads.values():
            thread.request_stop()
        deadline = time.monotonic() + self._env.config.int("task.shutdown.graceful.timeout.ms") / 1000
        for task, thread in threads.items():
            if not thread.join(max(0.0, deadline - time.monotonic())):
                _LOG.warning("task %s-%d does not end in time; it is fenced and left alone", self.name, task)
                thread.abandon()
            self.stop_error = self.stop_error or thread.error

    def _stop_all(self) -> None:
        if self._connector is None and not self._tasks and self.status.state is State.STOPPED:
            return
        self._stop_tasks()
        self._stop_connector()
        self._generation = self._generations.begin(self.name, ())
        self._specs, self._partitions, self._running_props = {}, [], None
        if self.stored.tasks:
            self.stored.tasks = []
            self._configs.put_tasks(self.name, [])
        for task in list(self.task_statuses):
            self._forget_task(task)
        self._set_status(State.STOPPED)

    def _end(self, *, forget: bool) -> None:
        self._stop_tasks()
        self._stop_connector()
        if forget:
            self._generations.begin(self.name, ())
            for task in list(self.task_statuses):
                self._forget_task(task)
            self._statuses.put(self.name, None, None)
            self._statuses.remove_topics(self.name, sorted(self.topics))

    # states

    def _set_status(self, state: State, trace: str | None = None) -> None:
        status = Status(state, self._env.worker_id, self._generation, trace, self._version())
        if status != self.status:
            self.status = status
            self._keep(None, status)

    def _version(self) -> str | None:
        try:
            return version_of(connector_class(self._env.plugins, self.stored.props))
        except (ConfigError, ImportError):
            return None

    def _set_task_status(self, task: int, state: State, trace: str | None = None) -> None:
        if state is State.STOPPED:  # of a thread that is replaced, or goes with its connector
            return
        spec = self._specs.get(task)
        version = None if spec is None else version_of(spec.task_class)
        self.task_statuses[task] = Status(state, self._env.worker_id, self._generation, trace, version)
        self._keep(task, self.task_statuses[task])

    def _forget_task(self, task: int) -> None:
        self.task_statuses.pop(task, None)
        self._keep(task, None)

    def _keep(self, task: int | None, status: Status | None) -> None:
        try:
            self._statuses.put(self.name, task, status)
        except LogError as error:  # the state is known here; the topic shows it to others
            _LOG.warning("a state of the connector %s is not kept: %s", self.name, error)
