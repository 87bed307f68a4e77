"""Loop of one topology in a shared runtime."""

from __future__ import annotations

import time
from typing import Any

from tests.unit.runtime.planner_scene import Scene

from hayase.core.records import TopicPartition
from hayase.log.open import open_log
from hayase.runtime.epochs.log_watch import LogWatch
from hayase.runtime.epochs.topology_loop import TopologyLoop
from hayase.runtime.wire.row_files import RowFiles

_EPOCHS = 12


class Slots:
    """Slots that need a tenth of a second for anything, and note what the group had when they began."""

    def __init__(self, scene: Scene) -> None:
        self._log = scene.log
        self.committed: list[int] = []

    def run(self, work: Any, _: object) -> None:
        offsets = self._log.group_offsets("app")
        self.committed.append(sum(offsets.values()))
        time.sleep(0.1)

    def others_want_slots(self, _: str) -> bool:
        return True

    def own_slots(self, _: str) -> frozenset[int]:
        return frozenset()

    def cancel(self, _: str) -> None: ...


def test_the_offsets_of_the_group_move_while_short_epochs_follow_each_other_at_once(scene: Scene) -> None:
    scene.put(*range(10 * _EPOCHS))
    planner = scene.planner(exactly_once=True)
    slots, watch = Slots(scene), LogWatch(open_log(scene.log_config))
    loop = TopologyLoop(
        planner,
        {},
        slots,
        watch,
        RowFiles(scene.blobs),
        bounded=True,
        places={},
        place=lambda *_: {},  # type: ignore[arg-type]
    )
    loop.start()
    loop.join(30.0)
    assert len(slots.committed) >= _EPOCHS
    half = slots.committed[len(slots.committed) // 2 :]
    assert 0 < half[0] < half[-1] < 10 * _EPOCHS
    ends = scene.log.group_offsets("app")
    assert ends == {TopicPartition("in", number): end for number, end in scene.ends().items()}
