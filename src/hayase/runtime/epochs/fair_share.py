"""How many records an epoch of a lagging topology reads while other topologies of its runtime want the slots, too."""

from __future__ import annotations

TARGET_S = 0.1
"""Duration of an epoch while others want its slots, where its fixed cost is less than a seventh of that."""
EPOCH_S_MAX = 0.4
"""Longest duration for the sake of throughput, where the fixed cost is more."""
_RECORDS_TO_FIXED = 6.0
"""Time for records in terms of the fixed cost, within that: six sevenths of an epoch are for records."""
FIRST_RECORDS_MAX = 5_000
"""The bound before any epoch has shown how long records take."""
_STEP_MAX = 4.0
"""The bound changes by no more than this factor from one epoch to the next: one slow epoch says little."""
_MEASURED_FROM = 0.5
"""An epoch counts if it reads at least this part of the bound: a smaller one is mostly fixed cost."""


class FairShare:
    """One per topology. Nothing waits longer for a slot than an epoch takes, so what bounds epochs bounds the wait.

    The bound settles where an epoch with its fixed cost takes `TARGET_S`, or up to `EPOCH_S_MAX` where the fixed cost
    would take much of that. Where the fixed cost alone is half of `EPOCH_S_MAX` or more, the records may take as long
    as it: fewer records would hardly make epochs shorter.
    """

    def __init__(self) -> None:
        self._records = float(FIRST_RECORDS_MAX)
        self._compared: tuple[int, float] | None = None
        self._fixed_s: float | None = None

    def records_max(self, *, others_want_slots: bool) -> int | None:
        """The bound for the next epoch; `None`: none beside `max.records.per.epoch`."""
        return max(1, int(self._records)) if others_want_slots else None

    def completed(self, records: int, busy_s: float) -> None:
        """Note how many records an epoch had, and how long it kept its slots."""
        if records < int(self._records) * _MEASURED_FROM or busy_s <= 0:
            return
        self._compare(records, busy_s)
        fixed_s = min(self._fixed_s or 0.0, busy_s)
        records_s = max(busy_s - fixed_s, busy_s / 2)
        wanted = records * _wanted_s(fixed_s) / records_s
        self._records = max(1.0, min(max(wanted, self._records / _STEP_MAX), self._records * _STEP_MAX))

    def _compare(self, records: int, busy_s: float) -> None:
        """Learn the fixed cost from two epochs, one with twice as many records as the other, or more."""
        if self._compared is None:
            self._compared = records, busy_s
            return
        before, before_s = self._compared
        if max(records, before) >= 2 * min(records, before):
            fixed_s = max(0.0, busy_s - records * max(0.0, (busy_s - before_s) / (records - before)))
            self._fixed_s = fixed_s if self._fixed_s is None else (self._fixed_s + fixed_s) / 2
            self._compared = records, busy_s


def _wanted_s(fixed_s: float) -> float:
    """How long the records of an epoch should take, beside its fixed cost."""
    return max(TARGET_S - fixed_s, min(_RECORDS_TO_FIXED * fixed_s, EPOCH_S_MAX - fixed_s), fixed_s)
