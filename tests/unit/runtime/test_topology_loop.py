"""Loop of one topology in a shared runtime."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import NoReturn

import msgspec
import pytest
from tests.unit.runtime.planner_scene import Scene

from hayase.core.errors import LogError
from hayase.core.records import TopicPartition
from hayase.log.open import open_log
from hayase.runtime.epochs import topology_loop
from hayase.runtime.epochs.epoch_input import EpochInput
from hayase.runtime.epochs.log_watch import LogWatch
from hayase.runtime.epochs.slot_queue import Work
from hayase.runtime.epochs.topology_loop import TopologyLoop
from hayase.runtime.wire.row_files import RowFiles
from hayase.runtime.wire.slot_messages import TopologyRequest
from hayase.task.epoch_record import EpochRecord

_EPOCHS = 12


class Slots:
    """Slots that other topologies want, and that complete any request after some time.

    Attributes:
        committed: what the group had when each epoch began.
        records: of each epoch.
        separate_at: after how many epochs processes of its own were asked for.
        slots: for which.
    """

    def __init__(self, scene: Scene, *, may_separate: bool = False, seconds: float = 0.0) -> None:
        self.committed: list[int] = []
        self.records: list[int] = []
        self.separate_at: list[int] = []
        self.slots: set[int] = set()
        self._log = scene.log
        self._may_separate = may_separate
        self._seconds = seconds

    def run(self, work: Work, _: object) -> None:
        request = msgspec.msgpack.decode(work.requests[0], type=TopologyRequest)
        self.records.append(EpochRecord.from_bytes(request.record).records)
        self.committed.append(sum(self._log.group_offsets("app").values()))
        time.sleep(self._seconds)

    def others_want_slots(self, _: str) -> bool:
        return True

    def separate(self, _: str, slots: Collection[int]) -> bool:
        self.slots.update(slots)
        self.separate_at.append(len(self.records))
        return self._may_separate

    def own_slots(self, _: str) -> frozenset[int]:
        return frozenset({0}) if self._may_separate else frozenset()

    def cancel(self, _: str) -> None: ...


class Share:
    """Four records an epoch while others want the slots."""

    def records_max(self, *, others_want_slots: bool) -> int | None:
        return 4 if others_want_slots else None

    def completed(self, *_: object) -> None: ...


@contextmanager
def running_to_end(scene: Scene, slots: Slots, **settings: object) -> Iterator[TopologyLoop]:
    """A loop that runs all epochs of what is in the topic."""
    watch = LogWatch(open_log(scene.log_config))
    loop = TopologyLoop(
        scene.planner(**settings),
        {},
        slots,  # type: ignore[arg-type]
        watch,
        RowFiles(scene.blobs),
        bounded=True,
        places={},
        place=lambda *_: {},
    )
    loop.start()
    yield loop
    loop.join(30.0)
    watch.close()
    assert not loop.is_alive


def run_to_end(scene: Scene, slots: Slots, **settings: object) -> None:
    """Run all epochs of what is in the topic."""
    with running_to_end(scene, slots, **settings):
        pass


@pytest.mark.parametrize("error", [None, LogError("BROKER_UNAVAILABLE", "no broker answers")])
def test_a_loop_that_is_stopped_ends_though_its_run_to_the_end_waits(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, error: LogError | None
) -> None:
    """Another start takes its place, and must not meet it again."""
    scene.put(1)
    if error is None:
        scene.control.request_change(True)
    else:
        monkeypatch.setattr(EpochInput, "behind", lambda *_: raise_(error))
    with running_to_end(scene, Slots(scene)) as loop:
        while error is None and not scene.control.suspended():
            time.sleep(0.01)
        loop.stop()
        loop.join(5.0)
        assert not loop.is_alive
    assert scene.control.failure() is None
    assert not scene.control.ended()


def raise_(error: Exception) -> NoReturn:
    raise error


@pytest.mark.long
def test_the_offsets_of_the_group_move_while_short_epochs_follow_each_other_at_once(scene: Scene) -> None:
    scene.put(*range(10 * _EPOCHS))
    slots = Slots(scene, seconds=0.1)
    run_to_end(scene, slots)
    assert len(slots.committed) >= _EPOCHS
    half = slots.committed[len(slots.committed) // 2 :]
    assert 0 < half[0] < half[-1] < 10 * _EPOCHS
    ends = scene.log.group_offsets("app")
    assert ends == {TopicPartition("in", number): end for number, end in scene.ends().items()}


@pytest.mark.parametrize("may_separate", [True, False])
def test_a_topology_that_is_far_behind_beside_others_goes_on_without_a_bound_if_it_gets_processes_of_its_own(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, may_separate: bool
) -> None:
    monkeypatch.setattr(topology_loop, "FairShare", Share)
    scene.put(*range(300))
    slots = Slots(scene, may_separate=may_separate)
    run_to_end(scene, slots, max_records_per_epoch=100)
    assert sum(slots.records) == 300
    assert slots.separate_at[0] == 1 and slots.slots == {0}
    assert max(slots.records[1:]) == (100 if may_separate else 4)
    if may_separate:
        assert slots.separate_at == [1, 2], "they are kept while more than one more epoch is left to read"


def test_a_topology_that_is_a_little_behind_keeps_its_slots(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topology_loop, "FairShare", Share)
    scene.put(*range(60))
    slots = Slots(scene, may_separate=True)
    run_to_end(scene, slots, max_records_per_epoch=100)
    assert slots.separate_at == [] and max(slots.records) == 4


def test_topologies_of_one_interval_begin_their_epochs_at_the_same_moments_at_most_an_interval_apart() -> None:
    interval_s = 1.0
    begun = [100.0, 100.3, 100.999]
    ticks = {topology_loop.next_tick(each, interval_s) for each in begun}
    assert ticks <= {101.0, 102.0}
    assert all(0 < topology_loop.next_tick(each, interval_s) - each <= interval_s + 0.01 for each in begun)
    assert topology_loop.next_tick(101.0, interval_s) == topology_loop.next_tick(101.0004, interval_s) == 102.0


def test_without_an_interval_the_next_epoch_begins_at_once() -> None:
    assert topology_loop.next_tick(5.0, 0.0) == 5.0
