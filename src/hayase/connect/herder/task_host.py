"""Where tasks of connectors run: the contract, and threads of this process."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from hayase.connect.contracts import SinkPartition
from hayase.connect.herder.environment import WorkerEnvironment
from hayase.connect.herder.states import State
from hayase.connect.herder.task_loops import TaskSpec, start_task
from hayase.connect.herder.task_thread import TaskThread

Report = Callable[[State, str | None], None]
"""Called with every change of a task's state, with a trace."""


class RunningTask(Protocol):
    """A task that was started, in this process or elsewhere. The methods return at once, but `join`."""

    @property
    def error(self) -> Exception | None:
        """What ended it, if it failed, or could not finish what it had begun when it was stopped."""
        ...

    def start(self, *, paused: bool = False) -> None:
        """Begin."""
        ...

    def pause(self) -> None:
        """Stop polling or putting when the current call has returned."""
        ...

    def resume(self) -> None:
        """Go on."""
        ...

    def request_stop(self) -> None:
        """Ask it to end; `join` waits for it."""
        ...

    def abandon(self) -> None:
        """Interrupt a call of the task that does not return; its generation is fenced, so it cannot write."""
        ...

    def join(self, timeout_s: float) -> bool:
        """Wait for its end; `False` if it takes longer."""
        ...

    def idle_s(self) -> float:
        """For how long the task has had nothing to do."""
        ...

    def hurry(self) -> None:
        """Let a sink write records without waiting for further ones."""
        ...

    def positions(self) -> Mapping[SinkPartition, int]:
        """Of a sink: the offset behind what it has written, of each partition."""
        ...

    def metrics(self) -> dict[str, float]:
        """Values by name; none before it has started."""
        ...


class TaskHost(Protocol):
    """Runs tasks. Thread-safe."""

    def new_task(self, env: WorkerEnvironment, spec: TaskSpec, report: Report, lost: Callable[[], None]) -> RunningTask:
        """A task that has not begun.

        Args:
            env: of the connector.
            spec: of the task.
            report: called with every change of its state.
            lost: called if the task is to be started again, in a generation of its own: what ran it is gone, or it is
                to run elsewhere.
        """
        ...


class ThreadHost:
    """Runs tasks in threads of this process."""

    def new_task(self, env: WorkerEnvironment, spec: TaskSpec, report: Report, lost: Callable[[], None]) -> RunningTask:
        """See `TaskHost`; no task is lost."""
        del lost
        return TaskThread(f"task-{spec.connector}-{spec.task}", lambda sleep: start_task(env, spec, sleep), report)
