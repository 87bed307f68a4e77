"""Where the bundles of a topology run: the slots of each level, and level and slot of each task."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from hayase.runtime.wire.span_protocol import RowFile
from hayase.state.delta.journal import EdgeRow
from hayase.task.plan import Plan


class SlotLayout:
    """The layout of one plan.

    Args:
        plan: the plan.
        slot_of: bundle → slot.

    Attributes:
        levels: for each level the slots that have bundles of it.
    """

    def __init__(self, plan: Plan, slot_of: Mapping[str, int]) -> None:
        self._level_and_slot = {
            task.id: (bundle.level, slot_of[bundle.id]) for bundle in plan.bundles for task in bundle.tasks
        }
        self.levels = [
            frozenset(slot_of[bundle.id] for bundle in plan.bundles if bundle.level == level)
            for level in range(plan.levels)
        ]

    @property
    def slots(self) -> frozenset[int]:
        """All slots that have bundles."""
        return frozenset[int]().union(*self.levels)

    def files_of(self, level: int, files: Iterable[RowFile]) -> dict[int, list[str]]:
        """For each slot of a level the files with rows for its tasks."""
        files_of: dict[int, list[str]] = {slot: [] for slot in self.levels[level]}
        for file in files:
            if file.level == level:
                files_of[file.slot].append(file.path)
        return files_of

    def rows_of(self, level: int, rows: Iterable[EdgeRow]) -> dict[int, list[EdgeRow]]:
        """For each slot of a level the rows that go to its tasks."""
        rows_of: dict[int, list[EdgeRow]] = {slot: [] for slot in self.levels[level]}
        for row in rows:
            at, slot = self._level_and_slot[row.task]
            if at == level:
                rows_of[slot].append(row)
        return rows_of
