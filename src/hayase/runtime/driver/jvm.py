"""The JVM of a Spark session: whether it still runs, and what PySpark keeps of one that has ended.

PySpark keeps its connection, context and session in class variables, and only a JVM that answers gives them back. So
after the JVM was killed no session can be stopped, and none started, until they are forgotten here.
"""

from __future__ import annotations

import contextlib
import logging
import signal
import socket
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.sql import SparkSession

_REAP_S = 2.0
"""A connection is closed a moment before the process that held it can be waited for."""
_PROBE_S = 5.0

LOST: tuple[type[Exception], ...] = (Py4JError, ConnectionError, EOFError)
"""What PySpark's calls raise when the JVM does not answer any more."""


def expect_end() -> None:
    """Have no traces printed of calls that the JVM leaves without an answer: it ends together with this program.

    A signal that goes to the process group of a program, as service managers send it, ends both at the same time. Lasts
    until the next JVM is started.
    """
    if _shown_before:
        return
    _shown_before.append(threading.excepthook)
    threading.excepthook = _without_traces
    for name in _SPEAKERS:
        logging.getLogger(name).addFilter(_nothing)
    logging.getLogger().addFilter(_not_of_py4j)
    server: Any = getattr(SparkContext._active_spark_context, "_accumulatorServer", None)
    if server is not None:  # it prints that the connection of the JVM has ended
        server.handle_error = _nothing


def expect_no_end() -> None:
    """A JVM is started: have traces printed as before."""
    if not _shown_before:
        return
    threading.excepthook = _shown_before.pop()
    for name in _SPEAKERS:
        logging.getLogger(name).removeFilter(_nothing)
    logging.getLogger().removeFilter(_not_of_py4j)


_SPEAKERS = ("py4j", "py4j.java_gateway", "py4j.clientserver", "pyspark")
_shown_before: list[Callable[[threading.ExceptHookArgs], object]] = []
"""The hook for exceptions that end threads, while the end is expected."""


def _without_traces(failed: threading.ExceptHookArgs) -> None:
    if not issubclass(failed.exc_type, LOST):
        _shown_before[0](failed)


def _nothing(*_: object) -> bool:
    return False


def _not_of_py4j(record: logging.LogRecord) -> bool:
    """Py4j says some of it by the root logger."""
    return "py4j" not in Path(record.pathname).parts


class Jvm:
    """The JVM that PySpark of this process is connected to now."""

    def __init__(self) -> None:
        self._gateway: Any = SparkContext._gateway

    @property
    def pid(self) -> int | None:
        """Its process id; `None` if this process has not started it."""
        process: subprocess.Popen[bytes] | None = getattr(self._gateway, "proc", None)
        return None if process is None else process.pid

    def end(self, *, wait: bool = False) -> str | None:
        """How it ended, e.g. `killed by SIGKILL`; `None` as long as it runs.

        Args:
            wait: a connection to it was just lost, so if it ends it does so within moments.
        """
        process: subprocess.Popen[bytes] | None = getattr(self._gateway, "proc", None)
        if process is None:  # `spark-submit` started the JVM, and the JVM this process
            return None if self._answers() else "it does not answer"
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_REAP_S if wait else 0)
        code = process.poll()
        return None if code is None else _how(code)

    def stop(self, timeout_s: float) -> None:
        """Have a JVM that this process has started end, and wait for that: it ends when its standard input is closed.

        Raises:
            subprocess.TimeoutExpired: it has not ended in time.
        """
        process: subprocess.Popen[bytes] = self._gateway.proc
        self._gateway.shutdown()
        if process.stdin is not None:
            process.stdin.close()
        process.wait(timeout_s)

    def forget(self) -> None:
        """Have PySpark forget it, if it has not forgotten it: it has ended."""
        if SparkContext._gateway is not self._gateway:
            return
        from pyspark.sql.context import SQLContext

        context = SparkContext._active_spark_context
        with SparkContext._lock:
            SparkContext._active_spark_context = None
            SparkContext._gateway = SparkContext._jvm = None
        SparkSession._instantiatedSession = SparkSession._activeSession = None
        SQLContext._instantiatedContext = None
        if context is not None:
            context._jsc = None
            server = getattr(context, "_accumulatorServer", None)
            if server is not None:
                server.shutdown()
                context._accumulatorServer = None  # type: ignore[assignment] # as PySpark leaves it itself
        with contextlib.suppress(*LOST, OSError):
            self._gateway.shutdown()  # type: ignore[union-attr] # one is connected

    def _answers(self) -> bool:
        if self._gateway is None:
            return False
        parameters = self._gateway.java_parameters
        try:
            socket.create_connection((parameters.address, parameters.port), _PROBE_S).close()
        except TimeoutError:  # stopped for a while, or busy
            return True
        except OSError:
            return False
        return True


def forget_ended() -> None:
    """Forget the JVM that PySpark is connected to, if there is one and it has ended."""
    if SparkContext._gateway is not None and (jvm := Jvm()).end() is not None:
        jvm.forget()


def _how(code: int) -> str:
    if code >= 0:
        return f"with exit code {code}"
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"killed by signal {-code}"
