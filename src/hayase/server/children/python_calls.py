"""Calls of Python functions in child processes, each with a time limit."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from hayase.server.children.frames import receive, send
from hayase.server.children.values import pack, unpack
from hayase.sql.errors import FunctionError
from hayase.sql.functions.python_source import PythonFunction

_AT_MOST = 4
_START_S = 60.0
_PAUSE_S = 30.0
_RESULT_BYTES_MAX = 64 << 20
_PASSED_ON = ("PATH", "PYTHONPATH", "LANG", "LC_ALL", "TZ", "VIRTUAL_ENV")
"""The environment of a child: what it needs to start, and no secrets of the server."""


class PythonCalls:
    """Calls functions of CREATE FUNCTION in child processes, which are ended when a call takes too long. Thread-safe.

    A function that took too long is not called again for a while, so that a query over many rows ends.

    Args:
        timeout_s: how long one call may take.
        at_most: so many processes there may be; they start with the first calls.
        now_s: a clock that only goes forward.

    Attributes:
        ended: processes that were ended at the limit.
    """

    def __init__(self, timeout_s: float, at_most: int = _AT_MOST, now_s: Callable[[], float] = time.monotonic) -> None:
        self.ended = 0
        self._timeout_s = timeout_s
        self._now_s = now_s
        self._free = threading.BoundedSemaphore(at_most)
        self._idle: list[_Child] = []
        self._late_until_s: dict[tuple[str, str], float] = {}
        self._lock = threading.Lock()
        self._closed = False

    def __call__(self, function: PythonFunction, values: Sequence[Any]) -> Any:
        """The result of a call, not checked yet.

        Raises:
            FunctionError: the function raises, takes too long, or ends its process.
        """
        self._check_late(function)
        request = pack([function.name, function.parameters, function.body, list(values)])
        if not self._free.acquire(timeout=self._timeout_s):
            raise FunctionError("FUNCTION_BUSY", f"{function.name}: too many functions are at work; try again later")
        try:
            answered, result = self._asked(function, request)
        finally:
            self._free.release()
        if not answered:
            raise FunctionError("FUNCTION_FAILED", f"{function.name}: {result}")
        return result

    def close(self) -> None:
        """End all processes."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for child in idle:
            child.end()

    def _asked(self, function: PythonFunction, request: bytes) -> tuple[bool, Any]:
        with self._lock:
            child = self._idle.pop() if self._idle else None
        if child is None:
            child = _Child()
        try:
            answered, result = unpack(child.ask(request, self._timeout_s))
        except TimeoutError as error:
            child.end()
            with self._lock:
                self.ended += 1
                self._late_until_s[function.name, function.body] = self._now_s() + _PAUSE_S
            raise FunctionError(
                "FUNCTION_TIMEOUT",
                f"{function.name} took longer than {self._timeout_s:g} s and was ended "
                "(hayase.server.function.timeout.ms)",
            ) from error
        except Exception as error:  # what a child sends may be anything: a function may have written it
            child.end()
            why = str(error) or "it may have no more memory"
            raise FunctionError("FUNCTION_ENDED", f"{function.name} has ended its process: {why}") from error
        with self._lock:
            is_kept = not self._closed
            if is_kept:
                self._idle.append(child)
        if not is_kept:
            child.end()
        return bool(answered), result

    def _check_late(self, function: PythonFunction) -> None:
        with self._lock:
            until_s = self._late_until_s.get((function.name, function.body))
            if until_s is None:
                return
            if until_s > self._now_s():
                raise FunctionError(
                    "FUNCTION_TIMEOUT",
                    f"{function.name} took longer than {self._timeout_s:g} s before, and is not called again for "
                    f"{_PAUSE_S:g} s",
                )
            del self._late_until_s[function.name, function.body]


class _Child:
    """One process; raises FunctionError if it does not start."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair()
        environment = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "hayase.server.children.python_worker", str(theirs.fileno()), str(os.getpid())],
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
            raise FunctionError("FUNCTION_NOT_STARTED", "the process for Python functions cannot be started")

    def ask(self, request: bytes, timeout_s: float) -> bytes:
        """The answer; raises TimeoutError, OSError or EOFError."""
        self._socket.settimeout(timeout_s)
        send(self._socket, request)
        answer = receive(self._socket, timeout_s, _RESULT_BYTES_MAX)
        if answer is None:
            raise EOFError
        return answer

    def end(self) -> None:
        """End the process, whatever it does."""
        self._socket.close()
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        self._process.wait()
