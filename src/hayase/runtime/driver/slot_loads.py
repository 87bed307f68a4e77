"""How many bundles each slot of a shared runtime has: the next topology begins where there are few."""

from __future__ import annotations

import threading
from collections import Counter

from hayase.runtime.wire.app_spec import slot_of_bundles
from hayase.task.plan import Plan


class SlotLoads:
    """The loads, counted in bundles, as Kafka Streams counts tasks. Thread-safe.

    Args:
        slots: how many slots there are.
    """

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._lock = threading.Lock()
        self._first: dict[str, int] = {}
        self._bundles: dict[str, Counter[int]] = {}

    def first_slot(self, application_id: str, plan: Plan) -> int:
        """The slot of a topology's first bundle.

        One that was here before keeps it, whatever its plan is now: the processes have its states open.
        """
        with self._lock:
            first = self._first.get(application_id)
            if first is None:
                first = min(range(self._slots), key=lambda slot: (self._unevenness(plan, slot), slot))
            self._first[application_id] = first
            self._bundles[application_id] = self._of(plan, first)
            return first

    def remove(self, application_id: str) -> None:
        """Forget a topology that was removed."""
        with self._lock:
            self._first.pop(application_id, None)
            self._bundles.pop(application_id, None)

    def _unevenness(self, plan: Plan, first: int) -> int:
        """Sum of the squares of the loads: the least is that of the most even ones."""
        loads = sum((*self._bundles.values(), self._of(plan, first)), Counter[int]())
        return sum(load * load for load in loads.values())

    def _of(self, plan: Plan, first: int) -> Counter[int]:
        return Counter(slot_of_bundles(plan, first, self._slots).values())
