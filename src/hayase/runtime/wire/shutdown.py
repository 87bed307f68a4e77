"""Closing processors when an application stops: Spark ends its workers without a word, so they are asked to before.

A worker with processors leaves a file in the control folder of the run. The driver, once no epoch is at work, puts
another one beside it and waits until those of living workers are gone. A thread of the worker sees it and interrupts
the main thread, which is waiting for Spark, with a signal: processors are closed in the thread that has made them, as
connections of databases want it. On a cluster the folder is not seen from other machines: there processors just end.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

from hayase.core.private_files import write_file

_ASKED = "leave"
_WITH_PROCESSORS = "processors-"
_SIGNAL = signal.SIGUSR2
_POLL_S = 0.1
_WAIT_S = 5.0


class ShutdownListener:
    """Closes the processors of a worker when its application stops.

    Args:
        control_dir: of the run.
        close: closes the processors that are not at work; called in the main thread.
    """

    def __init__(self, control_dir: str, close: Callable[[], None]) -> None:
        self._asked = Path(control_dir) / _ASKED
        self._mine = Path(control_dir) / f"{_WITH_PROCESSORS}{os.getpid()}"
        self._close = close
        self._ended = threading.Event()

    def start(self) -> None:
        """From now on the driver may ask.

        Nothing happens in other threads than the main one, or where the folder is not seen.
        """
        if threading.current_thread() is not threading.main_thread() or not self._asked.parent.is_dir():
            return
        write_file(self._mine, b"")
        signal.signal(_SIGNAL, lambda *_: self._leave())
        threading.Thread(target=self._listen, name="hayase-shutdown", daemon=True).start()

    def stop(self) -> None:
        """There is nothing to be closed any more."""
        self._ended.set()
        self._mine.unlink(missing_ok=True)

    def _listen(self) -> None:
        main = threading.main_thread().ident
        assert main is not None
        while not self._ended.wait(_POLL_S):
            if self._asked.exists():
                signal.pthread_kill(main, _SIGNAL)
                return

    def _leave(self) -> None:
        try:
            self._close()
        finally:
            self.stop()


def have_processors_closed(control_dir: Path) -> None:
    """In the driver, when no epoch is at work: have workers on this machine close their processors.

    Waits for them, not for long.
    """
    if not _living(control_dir):
        return
    write_file(control_dir / _ASKED, b"")
    deadline = time.monotonic() + _WAIT_S
    while _living(control_dir) and time.monotonic() < deadline:
        time.sleep(0.01)


def _living(control_dir: Path) -> bool:
    return any(
        _runs(int(file.name.removeprefix(_WITH_PROCESSORS))) for file in control_dir.glob(f"{_WITH_PROCESSORS}*")
    )


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
