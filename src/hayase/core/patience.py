"""Waiting for something that is away: brokers, or the store of a checkpoint."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable

from hayase.core.steps import moved

_LOG = logging.getLogger("hayase.core.patience")

_FIRST_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 5.0
_SAY_AFTER_S = 2.0
"""What is back so soon is not worth a word."""


class Patience:
    """How long to wait for a service that is away, and where that is reported.

    Args:
        limit_s: after so long without an answer the error is passed on; the last attempt is made after that time.
        tell: called with why something waits, and with an empty text when it goes on.
        monotonic: the clock, in seconds.
        sleep: waits that many seconds between two attempts.
        chance: a number from 0 to 1, by which pauses differ from process to process.
    """

    def __init__(
        self,
        limit_s: float,
        tell: Callable[[str], object] = lambda _: None,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self.limit_s = limit_s
        self.tell = tell
        self.monotonic = monotonic
        self.sleep = sleep
        self.chance = chance

    def begin(self) -> Wait:
        """For one call that may have to be made again and again."""
        return Wait(self)


class Wait:
    """One call's wait. Costs next to nothing until something fails."""

    __slots__ = ("_asked", "_attempts", "_patience", "_since", "_told")

    def __init__(self, patience: Patience) -> None:
        self._patience = patience
        self._asked = patience.monotonic()
        self._since: float | None = None
        self._attempts = 0
        self._told = False

    def ask(self) -> None:
        """An attempt begins; for calls that have been idle since they were begun, or since the last answer."""
        if self._since is None:
            self._asked = self._patience.monotonic()

    def again(self, why: object) -> bool:
        """After a failure that may pass: wait a moment; `False` at once if that has been done for long enough."""
        patience = self._patience
        now = patience.monotonic()
        if self._since is None:
            self._since = now
        waited_s = now - self._since
        if waited_s >= patience.limit_s:
            self._tell_over()
            return False
        if now - self._asked >= _SAY_AFTER_S and not self._told:
            self._told = True
            _LOG.warning("waiting, for up to %g s: %s", patience.limit_s, why)
            patience.tell(str(why))
        pause_s = min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2.0 ** min(self._attempts, 10)) * (0.5 + patience.chance() / 2)
        self._attempts += 1
        moved()
        patience.sleep(pause_s)
        moved()
        return True

    def over(self) -> None:
        """There was an answer; what fails from now on is waited for again."""
        if self._since is not None:
            if self._told:
                _LOG.warning("goes on after %.0f s", self._patience.monotonic() - self._since)
            self._tell_over()
            self._since, self._attempts = None, 0
            self._asked = self._patience.monotonic()

    def _tell_over(self) -> None:
        if self._told:
            self._told = False
            self._patience.tell("")


IMPATIENT = Patience(0.0)
"""Waits for nothing."""
