"""A task that runs in a slot, as its worker sees it."""

from __future__ import annotations

import dataclasses
import pickle
import threading
from collections.abc import Callable, Mapping
from typing import Protocol

from hayase.connect.contracts import SinkPartition
from hayase.connect.exceptions import ConnectError
from hayase.connect.herder.states import State
from hayase.connect.herder.task_host import Report
from hayase.connect.herder.task_loops import TaskSpec
from hayase.connect.slots.messages import (
    AbandonTask,
    HurryTask,
    PauseTask,
    ResumeTask,
    SlotReport,
    SlotRequest,
    StartTask,
    StopTask,
    TaskAddress,
    TaskEnded,
    TaskProgress,
    TaskState,
    TopicUsed,
)


class Placement(Protocol):
    """What brings tasks to slots."""

    def place(self, task: RemoteTask) -> None:
        """Give a task to a slot, now or when there is one."""
        ...

    def withdraw(self, task: RemoteTask) -> None:
        """Forget a task that no slot is to run any longer."""
        ...


class RemoteTask:
    """One run of a task. Thread-safe. See `RunningTask`.

    Args:
        run: number of the run.
        spec: of the task.
        report: called with every change of state.
        lost: called if the slot that runs it is gone.
        placement: brings it to a slot.
    """

    def __init__(
        self, run: int, spec: TaskSpec, report: Report, lost: Callable[[], None], placement: Placement
    ) -> None:
        self.run = run
        self.name = f"{spec.connector}-{spec.task}"
        self._spec = spec
        self._report = report
        self._lost = lost
        self._placement = placement
        self._lock = threading.Lock()
        self._send: Callable[[SlotRequest], None] | None = None
        self._paused = False
        self._stopping = False
        self._over = threading.Event()
        self._error: Exception | None = None
        self._progress = TaskProgress(run, 0.0, {}, [])

    # what the connector asks for

    @property
    def error(self) -> Exception | None:
        """See `RunningTask`."""
        return self._error

    def start(self, *, paused: bool = False) -> None:
        """See `RunningTask`; it begins when a slot has it."""
        self._paused = paused
        self._placement.place(self)

    def pause(self) -> None:
        """See `RunningTask`."""
        self._set_paused(True)

    def resume(self) -> None:
        """See `RunningTask`."""
        self._set_paused(False)

    def _set_paused(self, paused: bool) -> None:
        with self._lock:
            if self._paused == paused:
                return
            self._paused = paused
            self._ask(PauseTask(self.run) if paused else ResumeTask(self.run))

    def request_stop(self) -> None:
        """See `RunningTask`."""
        with self._lock:
            self._stopping = True
            if self._send is None:  # no slot has it
                self._over.set()
            else:
                self._ask(StopTask(self.run))
        self._placement.withdraw(self)

    def abandon(self) -> None:
        """See `RunningTask`; nothing more is heard of it."""
        with self._lock:
            self._ask(AbandonTask(self.run))
            self._over.set()

    def join(self, timeout_s: float) -> bool:
        """See `RunningTask`."""
        return self._over.wait(timeout_s)

    def idle_s(self) -> float:
        """See `RunningTask`."""
        return self._progress.idle_s

    def hurry(self) -> None:
        """See `RunningTask`."""
        with self._lock:
            self._ask(HurryTask(self.run))

    def positions(self) -> Mapping[SinkPartition, int]:
        """See `RunningTask`."""
        return dict(self._progress.positions)

    def metrics(self) -> dict[str, float]:
        """See `RunningTask`."""
        return dict(self._progress.metrics)

    # what the pool of slots does

    @property
    def over(self) -> bool:
        """Whether nothing more is to be done for it."""
        return self._over.is_set()

    def give(self, send: Callable[[SlotRequest], None]) -> None:
        """Start it in a slot.

        Args:
            send: sends a request to the slot; that it is gone is no error.
        """
        with self._lock:
            if self._over.is_set():
                return
            self._send = send
            spec = pickle.dumps(dataclasses.replace(self._spec, topic_used=_ignored, advertised=_ignored))
            send(StartTask(self.run, spec, self._paused))

    def take(self, report: SlotReport) -> None:
        """Take in what its slot says."""
        if self._over.is_set():
            return
        match report:
            case TaskState():
                self._report(State(report.state), report.trace)
            case TopicUsed():
                self._spec.topic_used(report.topic)
            case TaskAddress():
                self._spec.advertised(report.url)
            case TaskProgress():
                self._progress = report
            case TaskEnded():
                if report.error:
                    self._error = ConnectError(report.condition, report.error)
                self._over.set()

    def lose(self) -> None:
        """Its slot is gone. It may still be at work there: its next generation fences it."""
        with self._lock:
            if self._over.is_set():
                return
            self._over.set()
            stopping = self._stopping
        if not stopping:
            self._lost()

    def move(self) -> None:
        """Have it started again, which brings it to another slot."""
        self._lost()

    def _ask(self, request: SlotRequest) -> None:
        if self._send is not None and not self._over.is_set():
            self._send(request)


def _ignored(_: str) -> None:
    """Stands for a callback, which stays with the worker."""
