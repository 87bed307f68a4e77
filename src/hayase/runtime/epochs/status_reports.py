"""What the planner says about itself: at once, or together with what follows.

Each time a file is made, which takes ext4 about half a millisecond of CPU time, and the driver does not look more often
than ten times a second.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import msgspec

from hayase.runtime.wire.planner_control import PlannerControl, PlannerStatus

STATUS_EVERY_S = 0.25
"""So often it is published, at most, while one epoch follows the other."""


class StatusReports:
    """The statuses of one planner.

    Args:
        control: publishes them.
        monotonic: the clock for intervals, in seconds.
    """

    def __init__(self, control: PlannerControl, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._control = control
        self._monotonic = monotonic
        self._published_s = -STATUS_EVERY_S
        self._unpublished: PlannerStatus | None = None

    def publish(self, status: PlannerStatus) -> None:
        """Publish a status at once."""
        self._unpublished = None
        self._control.publish_status(msgspec.json.encode(status))
        self._published_s = self._monotonic()

    def publish_soon(self, status: PlannerStatus) -> None:
        """Publish a status, unless another one was published a moment ago.

        Then `flush` publishes it, or a later status replaces it.
        """
        if self._monotonic() - self._published_s >= STATUS_EVERY_S:
            self.publish(status)
        else:
            self._unpublished = status

    def flush(self) -> None:
        """Publish the last status of `publish_soon`, if it is not published yet."""
        if self._unpublished is not None:
            self.publish(self._unpublished)
