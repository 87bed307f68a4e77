"""Ends a worker process whose step makes no progress (`max.poll.interval.ms`), so that Spark tries the task again.

A thread looks a few times within the interval whether there was a sign of life; only it says where the worker hangs. A
call that never lets go of Python's lock stops this thread as well, so it keeps a timer of `faulthandler`'s wound up,
which is a thread of C and ends the process a little later. For that timer, time in which the process is stopped counts,
for the thread it does not: a worker that is stopped for longer than the timer is ended when it goes on. Either leaves
its account in the file that Spark's JVM reads when a worker of its has died, and puts into the error of the task.
"""

from __future__ import annotations

import contextlib
import faulthandler
import logging
import mmap
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import IO, Any, NamedTuple

import polars as pl

from hayase.core.call_site import is_users_file
from hayase.core.errors import HayaseError
from hayase.core.private_files import write_file
from hayase.core.steps import STEPS, Step
from hayase.kernel.node.column_node import ColumnNode
from hayase.kernel.node.row_node import LivingProcessor, RowNode
from hayase.runtime.wire.step_hung import heading, hung_error
from hayase.task.row_epoch import RowEpoch

_LOG = logging.getLogger("hayase.runtime")

FAULT_DIR = "PYTHON_FAULTHANDLER_DIR"
"""Set by Spark for its workers: where it looks for the file with the number of one that died."""
_LOOKS = 10
_LOOK_MAX_S = 5.0
_TIMER_MORE = 1.25
_TIMER_MORE_S = 1.0
"""The timer is for what the thread cannot see, so it is set to more than the interval."""
_HEAD_BYTES = 256
_POLARS = str(Path(pl.__file__).parent) + os.sep
_ASKING_MIN_S = 150.0
"""Calls to brokers and stores give up by themselves, at the latest after this."""


class _Sign(NamedTuple):
    """What is the same at two looks if nothing has happened between them."""

    step: Step
    signs: int
    entry: FrameType | None
    """The outermost call of the user's code, or of what Polars calls of it.

    While it goes on it is the same object; the call for
    the next record is another one."""
    row: tuple[object, int] | None

    def same(self, other: _Sign | None) -> bool:
        if other is None or self.step is not other.step or self.signs != other.signs or self.entry is not other.entry:
            return False
        if self.row is None or other.row is None:
            return self.row is other.row
        return self.row[0] is other.row[0] and self.row[1] == other.row[1]


class Watchdog:
    """One per worker process; watches the main thread.

    Args:
        limit_s: how long a step may be without a sign of life.
        account: a file for the account, made here; `None`: that of Spark, if there is one.
        kill: ends this process, at once.
        monotonic: the clock, in seconds.

    Attributes:
        on_hung: called with the error, as a line of a trace, before the process ends; may raise.
    """

    def __init__(
        self,
        limit_s: float,
        *,
        account: Path | None = None,
        kill: Callable[[], object] = lambda: os.kill(os.getpid(), signal.SIGKILL),
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._limit_s = limit_s
        self._kill = kill
        self._monotonic = monotonic
        self._look_s = min(_LOOK_MAX_S, limit_s / _LOOKS)
        self._stopped = threading.Event()
        self._last: _Sign | None = None
        self._looked = 0.0
        self._still_s = 0.0
        self._timer_runs = False
        self._steps = 0
        self._steps_before = 0
        self._report = _HangReport(limit_s, account)
        self.on_hung: Callable[[str], object] | None = None

    def start(self) -> None:
        """Begin to watch, until `stop`."""
        self._looked = self._monotonic()
        STEPS.on_step = self.begin
        threading.Thread(target=self._watch, name="hayase-watchdog", daemon=True).start()

    def stop(self) -> None:
        """Stop watching."""
        if STEPS.on_step == self.begin:
            STEPS.on_step = None
        self._stopped.set()
        self._report.remove()

    def set_limit(self, limit_s: float) -> None:
        """How long steps may be without a sign of life from now on; call it between two steps."""
        changed, self._limit_s = limit_s != self._limit_s, limit_s
        self._look_s = min(_LOOK_MAX_S, limit_s / _LOOKS)
        self._report.limit_s = limit_s
        if changed and self._timer_runs:  # a step that never lets go of Python's lock leaves no other moment for it
            self._restart_timer()

    def begin(self, step: Step | None) -> None:
        """A step begins; or none is at work any more.

        Takes a microsecond, unless there was nothing to do for a while.
        """
        self._report.head(step)
        if step is not None:
            self._steps += 1
            if not self._timer_runs:
                self._restart_timer()

    def _watch(self) -> None:
        while not self._stopped.wait(self._look_s):
            try:
                self.look()
            except Exception:  # a worker that is not watched is better than one that failed for that
                _LOG.exception("the watchdog of a worker failed once")
                self._cancel_timer()
        self._cancel_timer()

    def look(self) -> None:
        """Look once; ends the process if there has been no sign of life for too long."""
        now = self._monotonic()
        # A process that was stopped meanwhile, or had no core, had no time to make progress.
        passed_s, self._looked = min(now - self._looked, 2 * self._look_s), now
        sign, before = _sign(), self._last
        self._last = sign
        busy, self._steps_before = self._steps != self._steps_before, self._steps
        if sign is None or not sign.same(before):
            self._still_s = 0.0
            if sign is None and not busy:
                self._cancel_timer()
            else:
                self._restart_timer()
            return
        self._still_s += passed_s
        if self._still_s >= self._patience_s():
            self._end(sign.step)

    def _patience_s(self) -> float:
        return max(self._limit_s, _ASKING_MIN_S) if STEPS.asking else self._limit_s

    def _end(self, step: Step) -> None:
        stacks = all_stacks()
        error = _hung(step, self._limit_s, _working())
        _LOG.error("%s. The worker is ended; what its threads were at:\n%s", error, stacks)
        self._cancel_timer()
        line = f"hayase.core.errors.{type(error).__name__}: {error}"
        self._report.write(f"{line}\n{stacks}")
        if self.on_hung is not None:
            with contextlib.suppress(Exception):  # the process ends whatever becomes of that
                self.on_hung(line)
        self._kill()

    def _restart_timer(self) -> None:
        """Start the timer again, with its full time."""
        faulthandler.dump_traceback_later(
            _TIMER_MORE * self._patience_s() + _TIMER_MORE_S, exit=True, file=self._report.behind_head()
        )
        self._timer_runs = True

    def _cancel_timer(self) -> None:
        if self._timer_runs:
            self._timer_runs = False
            faulthandler.cancel_dump_traceback_later()


class _HangReport:
    """The file that is read when this process has died, by Spark or the pool. Its head says which step is at work.

    The head is in memory that is mapped from the file, so it can be changed with every step.
    """

    def __init__(self, limit_s: float, own: Path | None) -> None:
        self.limit_s = limit_s
        folder = os.environ.get(FAULT_DIR)
        path = own if own is not None else Path(folder) / str(os.getpid()) if folder else None
        self._own = own
        if own is not None:
            write_file(own, b"")
        self._file: IO[str] | None = None
        self._head: mmap.mmap | None = None
        if path is not None and path.exists():
            self._file = path.open("r+", encoding="utf-8")
            self._file.truncate(_HEAD_BYTES)
            self._head = mmap.mmap(self._file.fileno(), _HEAD_BYTES)
            self.head(None)

    def head(self, step: Step | None) -> None:
        """Write which step is at work; `None`: no step."""
        if self._head is not None:
            text = "" if step is None else heading(step.bundle, step.epoch, self.limit_s).rstrip()
            self._head[:] = text.encode()[: _HEAD_BYTES - 1].ljust(_HEAD_BYTES - 1) + b"\n"

    def behind_head(self) -> IO[str]:
        """The file behind its head, where the timer writes the stacks; standard error if there is no file."""
        if self._file is None:
            return sys.stderr
        self._file.seek(_HEAD_BYTES)
        return self._file

    def remove(self) -> None:
        """Remove a file of its own: the process ends in order."""
        if self._own is not None:
            self._own.unlink(missing_ok=True)

    def write(self, text: str) -> None:
        """Write the whole report, without a head."""
        if self._file is not None:
            self.head(None)
            self._file.seek(_HEAD_BYTES)
            self._file.write(text)
            self._file.flush()


def _hung(step: Step, limit_s: float, frame: FrameType | None) -> HayaseError:
    """The error of a step whose thread is at that frame."""
    calls = [(each.f_code.co_filename, each.f_lineno, each.f_code.co_name) for each in _frames(frame)]
    return hung_error(step.bundle, step.epoch, limit_s, calls, node=_node(frame), **_record(frame))


def all_stacks() -> str:
    """What each thread of this process is at."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    parts = []
    for ident, frame in sys._current_frames().items():
        if ident != threading.get_ident():
            parts.append(f"thread {names.get(ident, ident)}:\n" + "".join(traceback.format_stack(frame)))
    return "\n".join(parts)


def _sign() -> _Sign | None:
    step, signs = STEPS.step, STEPS.signs
    if step is None:
        return None
    entry: FrameType | None = None
    row: tuple[object, int] | None = None
    frame = _working()
    for each in _frames(frame):
        file = each.f_code.co_filename
        if file.startswith(_POLARS):
            if entry is not None:  # it calls for one value after the other
                break
        elif is_users_file(file):
            entry = each
        elif each.f_code is RowEpoch.process.__code__:
            row = each.f_locals["raw"], each.f_locals["row"]
    return _Sign(step, signs, entry, row)


def _working() -> FrameType | None:
    return None if STEPS.main is None else sys._current_frames().get(STEPS.main)


def _frames(frame: FrameType | None) -> Iterator[FrameType]:
    """A frame and its callers."""
    while frame is not None:
        yield frame
        frame = frame.f_back


def _node(frame: FrameType | None) -> str | None:
    owners = (each.f_locals.get("self") for each in _frames(frame))
    return next((owner.name for owner in owners if isinstance(owner, RowNode | ColumnNode | LivingProcessor)), None)


def _record(frame: FrameType | None) -> dict[str, Any]:
    """Where the current record was read."""
    owners = (each.f_locals.get("self") for each in _frames(frame))
    task = next((owner for owner in owners if isinstance(owner, RowEpoch)), None)
    try:
        metadata = task.metadata() if task is not None else None
    except Exception:  # it has none, or not yet
        metadata = None
    return (
        {}
        if metadata is None
        else {"topic": metadata.topic, "partition": metadata.partition, "offset": metadata.offset}
    )
