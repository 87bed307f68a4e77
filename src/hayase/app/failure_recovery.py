"""Recovery of a running application that fails: it ends, or continues with the open epoch."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from hayase.core.errors import HayaseError

_LOG = logging.getLogger("hayase.app")

REPLACEMENTS_MAX = 10
"""Replacements in a row, without a completed epoch in between, before the application gives up."""
_FIRST_DELAY_S = 0.5
_DELAY_MAX_S = 30.0
_ERRORS_KEPT = 10
_TRANSIENT = frozenset(
    {
        "BROKER_UNAVAILABLE",
        "BUNDLE_OWNED_ELSEWHERE",
        "DISK_FULL",
        "EXECUTOR_LOST",
        "PLANNER_LOST",
        "PROCESS_NOT_STARTED",
        "ROWS_MISSING",
        "S3_UNREACHABLE",
        "STATE_MOVED",
    }
)
"""Conditions that pass by themselves.

Tried again without a call of the handler, for as long as `task.timeout.ms` allows.
"""
_FINAL = frozenset({"SPARK_GONE"})
"""Conditions in which there is nothing left to go on with."""


class StreamThreadExceptionResponse(Enum):
    """The reaction to an error that no exception handler of a record handled (Kafka Streams' KIP-671).

    REPLACE_THREAD: the query is started again, in the same process, and goes on with the epoch that is open; where
        Spark's JVM died (SPARK_DIED), in a new session. An error that comes back, such as a poison record, comes back
        at once; so replacements are some time apart (0.5 s, doubled up to 30 s), and after ten of them without progress
        the application ends with the error.
    SHUTDOWN_CLIENT: the application ends in the state ERROR. The default.
    SHUTDOWN_APPLICATION: all copies of the application end. Only one runs at a time, so it is the same here.
    """

    REPLACE_THREAD = "REPLACE_THREAD"
    SHUTDOWN_CLIENT = "SHUTDOWN_CLIENT"
    SHUTDOWN_APPLICATION = "SHUTDOWN_APPLICATION"


UncaughtExceptionHandler = Callable[[HayaseError], StreamThreadExceptionResponse]
"""Called with the error; if it raises, or gives something else, the application ends."""


def shut_down_client(error: HayaseError) -> StreamThreadExceptionResponse:
    """The default handler."""
    return StreamThreadExceptionResponse.SHUTDOWN_CLIENT


@dataclass(frozen=True, slots=True)
class FailureRecord:
    """One failure of an application: when, in milliseconds since 1970, and with which error."""

    timestamp_ms: int
    error: HayaseError


class Recovery:
    """Decides after each failure whether the query is started again, and when.

    Args:
        handler: asked about errors that do not pass by themselves.
        task_timeout_s: how long those that do are tried again without any progress; 0: not at all.
        monotonic: the clock for intervals, in seconds.
        wall_clock: the time that failures carry, in seconds since 1970.
    """

    def __init__(
        self,
        handler: UncaughtExceptionHandler,
        task_timeout_s: float,
        monotonic: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._wall_clock = wall_clock
        self._handler = handler
        self._task_timeout_s = task_timeout_s
        self._monotonic = monotonic
        self._epochs = 0
        self._in_a_row = 0
        self._asked_in_a_row = 0
        self._stalled_since: float | None = None
        self.replaced = 0
        """How often the query was started again."""
        self.failed = 0
        """How often it failed."""
        self.errors: deque[FailureRecord] = deque(maxlen=_ERRORS_KEPT)
        """The last failures, oldest first."""

    def delay_s(self, error: HayaseError, epochs: int) -> float | None:
        """Seconds to wait before the query is started again; `None`: the application ends with the error.

        Args:
            error: why the query ended.
            epochs: how many epochs have completed so far: an error after progress is the first of a new row.
        """
        self.failed += 1
        self.errors.append(FailureRecord(round(self._wall_clock() * 1000), error))
        if epochs > self._epochs:
            self._epochs, self._in_a_row, self._asked_in_a_row, self._stalled_since = epochs, 0, 0, None
        if error.condition in _FINAL or not (self._passes(error) or self._told_to_replace(error)):
            return None
        delay = min(_DELAY_MAX_S, _FIRST_DELAY_S * 2.0 ** min(self._in_a_row, 10))
        self._in_a_row += 1
        self.replaced += 1
        _LOG.warning("the query is started again in %.1f s: %s", delay, error)
        return delay

    def _passes(self, error: HayaseError) -> bool:
        if error.condition not in _TRANSIENT or self._task_timeout_s <= 0:
            return False
        now = self._monotonic()
        if self._stalled_since is None:
            self._stalled_since = now
        return now - self._stalled_since <= self._task_timeout_s

    def _told_to_replace(self, error: HayaseError) -> bool:
        try:
            answer = StreamThreadExceptionResponse(self._handler(error))
        except Exception:  # the user's function may raise anything
            _LOG.exception("the uncaught exception handler failed, so the application ends")
            return False
        if answer is not StreamThreadExceptionResponse.REPLACE_THREAD:
            return False
        self._asked_in_a_row += 1
        if self._asked_in_a_row > REPLACEMENTS_MAX:
            _LOG.error("%d replacements in a row made no progress, so the application ends", REPLACEMENTS_MAX)
            return False
        return True
