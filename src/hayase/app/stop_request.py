"""Ctrl-C, SIGTERM and SIGHUP as requests to stop between epochs, and a start that they cannot break off."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable
from datetime import timedelta
from types import FrameType, TracebackType

from hayase.core.errors import HayaseError, StreamsStoppedError
from hayase.core.signal_event import SignalEvent

OF_STOPPING = frozenset({"PLANNER_LOST", "SPARK_DIED", "SPARK_FAILED", "SPARK_GONE"})
"""What may come of it when a query is stopped in mid-epoch, or a signal ends Spark, too: no failure of the
application."""
_TICK = timedelta(milliseconds=250)
SignalHandler = Callable[[int, FrameType | None], object] | int | signal.Handlers | None
_DEFAULTS: dict[int, SignalHandler] = {
    signal.SIGINT: signal.default_int_handler,
    signal.SIGTERM: signal.SIG_DFL,
    signal.SIGHUP: signal.SIG_DFL,
}
"""What Python does with the signals that ask for a stop, unless a program says otherwise."""


class StopRequest:
    """Set by Ctrl-C, SIGTERM or SIGHUP while entered; a second one ends the process at once, as without it.

    SIGHUP, which comes when a terminal is closed, stays ignored where it is, as under `nohup`.

    Args:
        keep_handlers: signals for which the program has a handler of its own go there.
    """

    def __init__(self, *, keep_handlers: bool = False) -> None:
        self._event = SignalEvent()
        self._keep_handlers = keep_handlers
        self._before: dict[int, SignalHandler] = {}

    @property
    def asked(self) -> bool:
        """Whether it was asked."""
        return self._event.is_set()

    def ask(self) -> None:
        """Ask, as a signal does."""
        self._event.set()

    def wait(self, seconds: float) -> bool:
        """Wait for a request; whether there was one."""
        return self._event.wait(seconds)

    def __enter__(self) -> StopRequest:
        for number, default in _DEFAULTS.items():
            before = signal.getsignal(number)
            if number == signal.SIGHUP and before is signal.SIG_IGN:
                continue
            if not self._keep_handlers or _is_default(before, default):
                self._before[number] = signal.signal(number, self._ask)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        self._event.set()
        jvm = sys.modules.get("hayase.runtime.driver.jvm")
        if jvm is not None:  # a signal to a process group ends Spark's JVM as well
            jvm.expect_end()
        signal.signal(number, signal.SIG_DFL)


def _is_default(handler: SignalHandler, default: SignalHandler) -> bool:
    """Whether the program has no handler of its own: Spark puts one in place of Python's when its session starts."""
    return handler is default or getattr(handler, "__module__", "").startswith("pyspark.")


def is_of_stopping(error: BaseException | None) -> bool:
    """Whether an error only says what was asked for, once a stop was asked for."""
    return isinstance(error, StreamsStoppedError) or (isinstance(error, HayaseError) and error.condition in OF_STOPPING)


class Starter(threading.Thread):
    """Starts an application beside the main thread: signals go there, and Spark would take Ctrl-C for itself."""

    def __init__(self, start: Callable[[], object]) -> None:
        super().__init__(name="hayase-starter", daemon=True)
        self._start_app = start
        self.error: Exception | None = None

    @property
    def failed(self) -> bool:
        """Whether it has ended with an error."""
        return self.error is not None and not self.is_alive()

    def run(self) -> None:
        """Start it; the thread that waits raises the error."""
        try:
            self._start_app()
        except Exception as error:
            self.error = error


def run_until_asked(
    start: Callable[[], object],
    wait: Callable[[timedelta], bool],
    close: Callable[[], object],
    stop: StopRequest,
) -> None:
    """Start beside the main thread, and wait there for the end, or for a request to stop; then close.

    Args:
        start: starts, or runs to an end.
        wait: waits that long for the end; whether it has come.
        close: stops it. While it is starting it only asks for that, and `start` sees to it.
        stop: the request.

    Raises:
        Exception: what `start` raised, unless it says that a stop was asked for, as it was.
    """
    starter = Starter(start)
    starter.start()
    try:
        while not starter.failed and not wait(_TICK):
            if stop.asked:
                close()
    finally:
        close()
        starter.join()
        close()
    if starter.error is not None and not (stop.asked and is_of_stopping(starter.error)):
        raise starter.error


def run_until_stopped(
    start: Callable[[], object], wait: Callable[[timedelta | None], bool], close: Callable[[], object]
) -> None:
    """Start, wait for the end, and close. In the main thread Ctrl-C and SIGTERM are requests to stop.

    Args:
        start: starts.
        wait: waits that long for the end, `None`: without limit; whether it has come.
        close: stops it; see `run_until_asked`.

    Raises:
        Exception: what `start` raised.
    """
    if threading.current_thread() is threading.main_thread():
        with StopRequest(keep_handlers=True) as stop:
            run_until_asked(start, wait, close, stop)
        return
    try:
        start()
        wait(None)
    finally:
        close()
