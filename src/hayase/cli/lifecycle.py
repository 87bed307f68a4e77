"""Running an application from the command line: until its end, or until it is asked to stop."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from datetime import timedelta
from types import FrameType, TracebackType

from hayase.app.app import StreamsApp
from hayase.app.report import ProgressReport
from hayase.app.states import State
from hayase.core.errors import StreamsStoppedError

_TICK = timedelta(milliseconds=250)
SignalHandler = Callable[[int, FrameType | None], object] | int | signal.Handlers | None
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class StopRequest:
    """Set by Ctrl-C or SIGTERM while entered; a second one ends the process at once, as without it."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self._before: dict[int, SignalHandler] = {}

    @property
    def asked(self) -> bool:
        """Whether it was asked."""
        return self._event.is_set()

    def wait(self, seconds: float) -> bool:
        """Wait for a request; whether there was one."""
        return self._event.wait(seconds)

    def __enter__(self) -> StopRequest:
        for number in _SIGNALS:
            self._before[number] = signal.signal(number, self._ask)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        self._event.set()
        signal.signal(number, signal.SIG_DFL)


def run_app(
    app: StreamsApp,
    stop: StopRequest,
    *,
    to_end: bool,
    close_timeout: timedelta,
    on_tick: Callable[[ProgressReport], None],
    may_close: Callable[[ProgressReport], bool] = lambda _: True,
) -> bool:
    """Run an application until it ends or is asked to stop; whether it stopped between epochs.

    Args:
        app: not started yet.
        stop: asks for a graceful close.
        to_end: stop at the end of the input as it is now.
        close_timeout: how long the epoch at work may take to finish; what is then left, the next start finishes.
        on_tick: called a few times a second with the progress, and once at the end.
        may_close: once a stop is asked for, asked whether the application is far enough.

    Raises:
        HayaseError: it could not be started, or failed.
    """
    starter = _Starter(app, to_end)
    starter.start()
    clean = True
    while not _ended(app, starter):
        report = app.progress()
        on_tick(report)
        if stop.asked and may_close(report):
            clean = app.close(close_timeout)  # while it is starting this only asks; the loop waits for the end
        app.wait(_TICK)
    starter.join()
    on_tick(app.progress())
    failure = starter.error or app.error
    if failure is not None and not (stop.asked and isinstance(failure, StreamsStoppedError)):
        raise failure
    return clean


class _Starter(threading.Thread):
    """Starts the application beside the main thread: signals go there, and Spark would take Ctrl-C for itself."""

    def __init__(self, app: StreamsApp, to_end: bool) -> None:
        super().__init__(name="hayase-starter", daemon=True)
        self._app = app
        self._to_end = to_end
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            if self._to_end:
                self._app.run_to_end()
            else:
                self._app.start()
        except Exception as error:  # raised again by the main thread
            self.error = error


def _ended(app: StreamsApp, starter: _Starter) -> bool:
    return app.state in (State.NOT_RUNNING, State.ERROR) or (starter.error is not None and not starter.is_alive())
