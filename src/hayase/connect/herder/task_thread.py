"""The thread of a task: it drives the task's loop until it is stopped or fails."""

from __future__ import annotations

import logging
import threading
import time
import traceback
from collections.abc import Callable

from hayase.connect.contracts import SinkPartition
from hayase.connect.exceptions import ConnectError, RetriableError
from hayase.connect.herder.states import State
from hayase.connect.herder.task_loops import StartedTask
from hayase.connect.sink_loop import SinkTaskLoop

_LOG = logging.getLogger(__name__)
_IDLE_S = 0.02
_STEPS_OF_REST = 3
_FIRST_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 10.0

Sleep = Callable[[float], None]


class _StoppingError(Exception):
    """The thread was asked to stop while it waited."""


class TaskThread:
    """Runs one task.

    Args:
        name: of the thread.
        start: makes and starts the task; gets a `sleep` that ends when the thread is to stop. A `RetriableError` of it
            is tried again.
        report: called with every change of state, with a trace.
        ended: called when everything is let go of.
    """

    def __init__(
        self,
        name: str,
        start: Callable[[Sleep], StartedTask],
        report: Callable[[State, str | None], None],
        ended: Callable[[], None] = lambda: None,
    ) -> None:
        self.state = State.UNASSIGNED
        self._start = start
        self._report = report
        self._ended = ended
        self._stop = threading.Event()
        self._paused = threading.Event()
        self.error: Exception | None = None
        """What ended it, if it failed, or could not finish what it had begun when it was stopped."""
        self._rested_since_s: float | None = None
        self._steps = 0
        self._started: StartedTask | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self, *, paused: bool = False) -> None:
        """Begin."""
        if paused:
            self._paused.set()
        self._thread.start()

    def pause(self) -> None:
        """Stop polling or putting when the current call has returned."""
        self._paused.set()

    def resume(self) -> None:
        """Go on."""
        self._paused.clear()

    def request_stop(self) -> None:
        """Ask it to end; `join` waits for it."""
        self._stop.set()

    def abandon(self) -> None:
        """Interrupt a call of the task that does not return; its generation is fenced, so it cannot write."""
        started = self._started
        if started is not None:
            try:
                started.task.stop()
            except Exception:  # it ends in any case
                _LOG.exception("%s: stop failed", self._thread.name)

    def join(self, timeout_s: float) -> bool:
        """Wait for its end; `False` if it takes longer."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def idle_s(self) -> float:
        """For how long the task has had nothing to do; 0 where it has not said so several times."""
        since = self._rested_since_s
        return 0.0 if since is None or self._steps < _STEPS_OF_REST else time.monotonic() - since

    def hurry(self) -> None:
        """Let a sink write records without waiting for further ones."""
        loop = None if self._started is None else self._started.loop
        if isinstance(loop, SinkTaskLoop):
            loop.hurry = True

    def positions(self) -> dict[SinkPartition, int]:
        """Of a sink that has started: the offset behind what it has written, of each partition."""
        loop = None if self._started is None else self._started.loop
        return dict(loop.positions) if isinstance(loop, SinkTaskLoop) else {}

    def metrics(self) -> dict[str, float]:
        """Values by name; none before it has started."""
        started = self._started
        return {} if started is None else started.metrics()

    def _sleep(self, seconds: float) -> None:
        if self._stop.wait(seconds):
            raise _StoppingError

    def _change(self, state: State, trace: str | None = None) -> None:
        if state is not self.state or trace is not None:
            self.state = state
            self._report(state, trace)

    def _run(self) -> None:
        try:
            self._started = self._start_patiently()
            self._drive(self._started)
        except _StoppingError:
            self._change(State.STOPPED)
        except Exception as error:  # whatever the task, its plug-ins or the log raise
            self.error = error
            if self._stop.is_set():
                _LOG.warning("%s ended with an error while it was stopped: %s", self._thread.name, error)
                self._change(State.STOPPED)
            else:
                superseded = isinstance(error, ConnectError) and error.condition == "SUPERSEDED"
                _LOG.error("%s failed: %s", self._thread.name, error, exc_info=not superseded)
                self._change(State.FAILED, "".join(traceback.format_exception(error)))
        finally:
            self._close()
            self._ended()

    def _start_patiently(self) -> StartedTask:
        pause_s = _FIRST_PAUSE_S
        while True:
            try:
                return self._start(self._sleep)
            except RetriableError as error:
                self._change(State.UNASSIGNED, f"waiting, tried again in {pause_s:g} s: {error}")
                self._sleep(pause_s)
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    def _drive(self, started: StartedTask) -> None:
        while not self._stop.is_set():
            if self._paused.is_set():
                self._change(State.PAUSED)
                self._sleep(_IDLE_S)
                continue
            self._change(State.RUNNING)
            begun = time.monotonic()
            acted = started.loop.step()
            self._note_rest(acted or started.loop.retrying, begun)
            if not acted and time.monotonic() - begun < _IDLE_S:
                self._stop.wait(_IDLE_S)
        started.loop.drain()
        self._change(State.STOPPED)

    def _note_rest(self, acted: bool, begun_s: float) -> None:
        if acted:
            self._rested_since_s, self._steps = None, 0
        else:
            self._rested_since_s = begun_s if self._rested_since_s is None else self._rested_since_s
            self._steps += 1

    def _close(self) -> None:
        if self._started is not None:
            try:
                self._started.close()
            except Exception:  # it has ended in any case
                _LOG.exception("%s: closing failed", self._thread.name)
