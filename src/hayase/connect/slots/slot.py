"""The process of a slot: runs tasks in threads, as the worker at the other end of the connection asks."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pickle
import socket
import threading
import time
from multiprocessing.connection import Connection
from urllib.parse import urlsplit, urlunsplit

import msgspec

from hayase.connect.config.references import ReferencePolicy
from hayase.connect.config.worker_config import WorkerConfig
from hayase.connect.exceptions import ConnectError
from hayase.connect.herder.environment import WorkerEnvironment
from hayase.connect.herder.states import State
from hayase.connect.herder.task_loops import TaskSpec, start_task
from hayase.connect.herder.task_thread import TaskThread
from hayase.connect.plugins import Plugins
from hayase.connect.slots.messages import (
    WORKER_ENDED,
    AbandonTask,
    HurryTask,
    JoinWorker,
    PauseTask,
    ResumeTask,
    SlotAlive,
    SlotReport,
    SlotRequest,
    SlotSetup,
    StartTask,
    StopTask,
    TaskAddress,
    TaskEnded,
    TaskProgress,
    TaskState,
    TopicUsed,
)
from hayase.core.decoding import decode_msgpack
from hayase.core.errors import HayaseError
from hayase.core.time import SystemClock
from hayase.log.open import open_log
from hayase.log.protocol import LogConfig

_PROGRESS_S = 0.25


def run_slot(connection: Connection, slot: int) -> None:
    """Run tasks until the worker ends. All tasks have ended, or are abandoned, when it returns or raises.

    Args:
        connection: to the worker; closed at the end.
        slot: number of the slot.

    Raises:
        ConnectError: `WORKER_LOST`: the connection broke, or the worker has given the tasks to other slots.
    """
    try:
        connection.send_bytes(msgspec.msgpack.encode(JoinWorker(slot, os.getpid())))
        setup = decode_msgpack(connection.recv_bytes(), as_type=SlotSetup)
    except (EOFError, OSError) as error:
        connection.close()
        raise _lost() from error
    config_of_log = LogConfig(setup.log_kind, setup.log_location, setup.log_options)
    config = WorkerConfig(setup.props)
    plugins = Plugins(config.plugin_folders)
    log = open_log(config_of_log)
    env = WorkerEnvironment(config, plugins, ReferencePolicy(), config_of_log, log, setup.worker_id, SystemClock())
    try:
        _Slot(env, connection).run()
    finally:
        connection.close()
        log.close()


class _Slot:
    """Runs tasks of one worker."""

    def __init__(self, env: WorkerEnvironment, connection: Connection) -> None:
        self._env = env
        self._connection = connection
        self._sending = threading.Lock()
        self._tasks: dict[int, TaskThread] = {}
        self._ended = threading.Event()

    def run(self) -> None:
        """Follow requests until the worker ends, then stop all tasks."""
        threading.Thread(target=self._report_progress, name="connect-progress", daemon=True).start()
        try:
            while (data := self._connection.recv_bytes()) != WORKER_ENDED:
                self._follow(decode_msgpack(data, as_type=SlotRequest))
        except (EOFError, OSError) as error:
            raise _lost() from error
        finally:
            self._ended.set()
            self._stop_all()

    def _follow(self, request: SlotRequest) -> None:
        if isinstance(request, StartTask):
            self._start(request)
            return
        task = self._tasks.get(request.run)
        if task is None:  # it has ended meanwhile
            return
        match request:
            case PauseTask():
                task.pause()
            case ResumeTask():
                task.resume()
            case StopTask():
                task.request_stop()
            case HurryTask():
                task.hurry()
            case AbandonTask():
                task.request_stop()
                threading.Thread(target=task.abandon, name="connect-abandon", daemon=True).start()

    def _start(self, request: StartTask) -> None:
        run = request.run
        try:
            spec = pickle.loads(request.spec)  # of our own worker
            assert isinstance(spec, TaskSpec)
        except Exception as error:  # a plug-in that is not on this machine, for example
            trace = f"the task cannot be made in its slot: {type(error).__name__}: {error}"
            self._send(TaskState(run, str(State.FAILED), trace))
            self._send(TaskEnded(run, trace, "TASK_NOT_MADE"))
            return
        spec = dataclasses.replace(
            spec,
            topic_used=lambda topic: self._send(TopicUsed(run, topic)),
            advertised=lambda url: self._send(TaskAddress(run, _reachable(url, self._connection))),
        )
        env = self._env
        task = TaskThread(
            f"task-{spec.connector}-{spec.task}",
            lambda sleep: start_task(env, spec, sleep),
            lambda state, trace: self._send(TaskState(run, str(state), trace)),
            lambda: self._end(run),
        )
        self._tasks[run] = task
        task.start(paused=request.paused)

    def _end(self, run: int) -> None:
        task = self._tasks.pop(run)
        self._send_progress(run, task)
        error = task.error
        condition = error.condition if isinstance(error, HayaseError) else "TASK_FAILED"
        self._send(TaskEnded(run, "" if error is None else str(error) or type(error).__name__, condition))

    def _report_progress(self) -> None:
        while not self._ended.wait(_PROGRESS_S):
            self._send(SlotAlive())
            for run, task in list(self._tasks.items()):
                self._send_progress(run, task)

    def _send_progress(self, run: int, task: TaskThread) -> None:
        self._send(TaskProgress(run, task.idle_s(), task.metrics(), list(task.positions().items())))

    def _send(self, report: SlotReport) -> None:
        data = msgspec.msgpack.encode(report)
        with self._sending, contextlib.suppress(OSError):  # the thread that reads notices that the worker is gone
            self._connection.send_bytes(data)

    def _stop_all(self) -> None:
        tasks = list(self._tasks.values())
        for task in tasks:
            task.request_stop()
        deadline = time.monotonic() + self._env.config.int("task.shutdown.graceful.timeout.ms") / 1000
        for task in tasks:
            if not task.join(max(0.0, deadline - time.monotonic())):
                task.abandon()


def _lost() -> ConnectError:
    return ConnectError(
        "WORKER_LOST", "this slot has lost the connection to its worker; its tasks end here, and start in other slots"
    )


def _reachable(url: str, connection: Connection) -> str:
    """A URL by which the worker reaches a task of this process: with the address by which this reaches the worker."""
    parts = urlsplit(url)
    with socket.socket(fileno=os.dup(connection.fileno())) as opened:
        if parts.hostname not in ("0.0.0.0", "::") or opened.family == socket.AF_UNIX:
            return url
        host = str(opened.getsockname()[0])
    shown = f"[{host}]" if ":" in host else host
    return urlunsplit(parts._replace(netloc=f"{shown}:{parts.port}"))
