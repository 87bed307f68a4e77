"""How many records an epoch of a lagging topology reads while other topologies of its runtime want the slots, too."""

from __future__ import annotations

TARGET_S = 0.1
"""So long an epoch should keep its slots then."""
FIRST_RECORDS_MAX = 5_000
"""The bound before any epoch has shown how long records take."""
_STEP_MAX = 4.0
"""The bound changes by no more than this factor from one epoch to the next: one slow epoch says little."""
_MEASURED_FROM = 0.5
"""An epoch counts if it reads at least this part of the bound: a smaller one is mostly fixed cost."""


class FairShare:
    """One per topology. Nothing waits longer for a slot than an epoch takes, so what bounds epochs bounds the wait.

    The bound settles where an epoch with its fixed cost takes `TARGET_S`.
    """

    def __init__(self) -> None:
        self._records = float(FIRST_RECORDS_MAX)

    def records_max(self, *, others_want_slots: bool) -> int | None:
        """The bound for the next epoch; `None`: none beside `max.records.per.epoch`."""
        return max(1, int(self._records)) if others_want_slots else None

    def completed(self, records: int, busy_s: float) -> None:
        """Note how many records an epoch had, and how long it kept its slots."""
        if records < self._records * _MEASURED_FROM or busy_s <= 0:
            return
        wanted = records * TARGET_S / busy_s
        self._records = max(1.0, min(max(wanted, self._records / _STEP_MAX), self._records * _STEP_MAX))
