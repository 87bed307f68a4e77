"""Child processes that answer requests, each within a time limit, started when they are wanted, ended when idle."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from hayase.server.children.frames import receive, send

_START_S = 60.0
_IDLE_S = 60.0
"""A process holds some ten megabytes of its own, and starts again in half a second."""
_SLOW_FACTOR = 10
_TICK_S = 0.01
"""What the system counts a process's time in."""
_PASSED_ON = ("PATH", "PYTHONPATH", "LANG", "LC_ALL", "TZ", "VIRTUAL_ENV")
"""The environment of a child: what it needs to start, and no secrets of the server."""
T = TypeVar("T")


class ChildrenBusyError(Exception):
    """All processes were at work for as long as could be waited."""


class ChildEndedError(Exception):
    """The process has ended, or has sent what cannot be read; it is gone."""


class Child:
    """One process.

    Args:
        module: its program, which serves the socket whose number is its first argument; the second is the number of the
            server's process.

    Attributes:
        known: what it was sent before and keeps, by whatever the sender chooses.

    Raises:
        ChildEndedError: it does not start.
    """

    def __init__(self, module: str) -> None:
        self.known: set[bytes] = set()
        self._socket, theirs = socket.socketpair()
        environment = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", module, str(theirs.fileno()), str(os.getpid())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=environment,
                start_new_session=True,  # Ctrl-C is for the server, which ends it
            )
        try:
            started = receive(self._socket, _START_S)
        except OSError:
            started = None
        if started is None:
            self.end()
            raise ChildEndedError("it cannot be started")

    def ask(self, request: bytes, timeout_s: float, max_bytes: int, *, of_processor: bool = False) -> bytes:
        """The answer; raises TimeoutError, OSError or EOFError.

        Args:
            request: the message.
            timeout_s: how long the answer may take.
            max_bytes: the largest answer that is taken.
            of_processor: the processor's time counts, and ten times as long by the clock: on a busy machine the process
                may not get a turn.
        """
        self._socket.settimeout(timeout_s)
        before_s = self._processor_s()
        send(self._socket, request)
        if of_processor and before_s is not None:
            self._wait_for_answer(before_s, timeout_s)
        answer = receive(self._socket, timeout_s, max_bytes)
        if answer is None:
            raise EOFError
        return answer

    def _wait_for_answer(self, before_s: float, timeout_s: float) -> None:
        until_s = time.monotonic() + _SLOW_FACTOR * timeout_s
        left_s = timeout_s
        while not select.select([self._socket], [], [], left_s)[0]:
            used_s = (self._processor_s() or 0.0) - before_s
            left_s = min(timeout_s - used_s, until_s - time.monotonic())
            if left_s <= _TICK_S:
                raise TimeoutError

    def _processor_s(self) -> float | None:
        """The processor's time that the process has had; `None`: the system does not say."""
        try:
            stat = Path(f"/proc/{self._process.pid}/stat").read_text("ascii")
        except OSError:
            return None
        user, system = stat.rpartition(")")[2].split()[11:13]
        return (int(user) + int(system)) * _TICK_S

    def end(self) -> None:
        """End the process, whatever it does."""
        self._socket.close()
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        self._process.wait()


class ChildPool:
    """Processes of one program, which are ended when a request takes too long, or there is none. Thread-safe.

    Args:
        module: see Child.
        at_most: so many there may be.
        max_bytes: of an answer.
        of_processor: see Child.ask.
        idle_s: for so long a process that has nothing to do is kept.

    Attributes:
        ended: processes that were ended at a time limit.
    """

    def __init__(
        self, module: str, at_most: int, max_bytes: int, *, of_processor: bool = False, idle_s: float = _IDLE_S
    ) -> None:
        self.ended = 0
        self._module = module
        self._max_bytes = max_bytes
        self._of_processor = of_processor
        self._free = threading.BoundedSemaphore(at_most)
        self._idle_s = idle_s
        self._idle: list[tuple[float, Child]] = []
        """Since when, and which; the one that was used last is the last."""
        self._ending: threading.Timer | None = None
        self._lock = threading.Lock()
        self._closed = False

    def ask(self, request: Callable[[Child], bytes], read: Callable[[bytes], T], timeout_s: float) -> T:
        """What an answer says.

        Args:
            request: makes the message for a process.
            read: reads the answer. Whatever it raises, the process is ended: what it runs may have written anything.
            timeout_s: how long a free process is waited for, and then the answer.

        Raises:
            TimeoutError: there is no answer in time; the process is ended.
            ChildrenBusyError, ChildEndedError: see there.
        """
        child = self.take(timeout_s)
        try:
            message = request(child)
        except BaseException:
            self.end(child)
            raise
        found = self.asked(child, message, read, timeout_s)
        self.give_back(child)
        return found

    def take(self, timeout_s: float) -> Child:
        """A process for several requests, until `give_back`, `end`, or `asked` ends it.

        Raises:
            ChildrenBusyError, ChildEndedError: see there.
        """
        if not self._free.acquire(timeout=timeout_s):
            raise ChildrenBusyError
        with self._lock:
            child = self._idle.pop()[1] if self._idle else None
        try:
            return Child(self._module) if child is None else child
        except BaseException:
            self._free.release()
            raise

    def asked(self, child: Child, request: bytes, read: Callable[[bytes], T], timeout_s: float) -> T:
        """What the answer of a taken process says; raises as `ask`, and has ended the process then."""
        try:
            return read(child.ask(request, timeout_s, self._max_bytes, of_processor=self._of_processor))
        except TimeoutError:
            self.end(child)
            with self._lock:
                self.ended += 1
            raise
        except Exception as error:
            self.end(child)
            raise ChildEndedError(str(error) or "it may have no more memory") from error

    def give_back(self, child: Child) -> None:
        """A taken process is free again."""
        with self._lock:
            is_kept = not self._closed
            if is_kept:
                self._idle.append((time.monotonic(), child))
                self._end_idle_later()
        if not is_kept:
            child.end()
        self._free.release()

    def end(self, child: Child) -> None:
        """End a taken process."""
        child.end()
        self._free.release()

    def close(self) -> None:
        """End all processes."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
            if self._ending is not None:
                self._ending.cancel()
        for _, child in idle:
            child.end()

    def _end_idle_later(self) -> None:
        """Look at idle processes when the first of them may have been idle for long; with the lock held."""
        if self._ending is None and self._idle:
            self._ending = threading.Timer(self._idle[0][0] + self._idle_s - time.monotonic(), self._end_idle)
            self._ending.daemon = True
            self._ending.start()

    def _end_idle(self) -> None:
        with self._lock:
            since_s = time.monotonic() - self._idle_s
            old = [child for idle_s, child in self._idle if idle_s <= since_s]
            self._idle = [each for each in self._idle if each[0] > since_s]
            self._ending = None
            self._end_idle_later()
        for child in old:
            child.end()
