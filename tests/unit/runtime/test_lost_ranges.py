"""Input that retention removed before it was read: found before an epoch says that it is read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from tests.unit.runtime.planner_scene import Scene

from hayase.core.errors import SourceRangeLostError, TopologyError
from hayase.core.offset_reset import AutoOffsetReset
from hayase.core.records import TopicPartition
from hayase.log.protocol import RecordBatch
from hayase.runtime.epochs.source_checks import RangeCheck
from hayase.runtime.worker.lost_ranges import SkippingReader
from hayase.task.epoch_record import Epochs

FIRST = TopicPartition("in", 0)


def expire(scene: Scene, before: int) -> int:
    """Remove records of the first partition; where it begins then."""
    scene.log.delete_records({FIRST: before})
    return scene.log.start_offsets([FIRST])[FIRST]


def begun(scene: Scene) -> int:
    """An epoch that is done; where it ended in the first partition."""
    scene.put(*range(40))
    planner = scene.planner(max_records_per_epoch=1_000)
    planner.next_epoch(-1)
    assert planner.next_epoch(0) == 0
    return planner.record(0).ranges["in"][0][1]


def lose(scene: Scene) -> tuple[int, int]:
    """Where the application has read to, and where the log begins by then."""
    end = begun(scene)
    scene.put(*range(100, 140))
    scene.put(*range(200, 240))
    lost = scene.log.end_offsets([FIRST])[FIRST] - 5
    first = expire(scene, lost)
    assert first > end
    return end, first


def test_a_range_that_is_gone_is_not_recorded(scene: Scene) -> None:
    lose(scene)
    for _ in range(2):  # the next start says the same
        with pytest.raises(SourceRangeLostError) as refused:
            scene.planner().next_epoch(0)
        assert refused.value.condition == "SOURCE_RANGE_LOST"
        assert "source.range.lost=reset" in refused.value.message
        assert "in" in str(refused.value)
    assert Epochs(scene.blobs).recorded() == [0]


@pytest.mark.parametrize("reset", ["earliest", "latest"])
def test_with_reset_it_goes_on_where_the_offset_reset_says_and_counts_what_is_passed_over(
    scene: Scene, reset: str
) -> None:
    end, first = lose(scene)
    planner = scene.planner(
        on_range_lost="reset", resets={"in": getattr(AutoOffsetReset, reset)()}, max_records_per_epoch=1_000
    )
    assert planner.next_epoch(0) == 1
    ends = scene.log.end_offsets([FIRST, TopicPartition("in", 1)])
    begin = first if reset == "earliest" else ends[FIRST]
    assert planner.record(1).ranges["in"] == {0: (begin, ends[FIRST]), 1: planner.record(1).ranges["in"][1]}
    assert scene.status().lost_offsets == begin - end


def test_with_reset_and_no_place_to_go_on_it_says_so(scene: Scene) -> None:
    lose(scene)
    with pytest.raises(TopologyError) as refused:
        scene.planner(on_range_lost="reset", resets={"in": AutoOffsetReset.none()}).next_epoch(0)
    assert refused.value.condition == "NO_POSITION"


def test_an_epoch_that_was_left_open_is_refused_when_its_range_is_gone_and_finished_with_reset(scene: Scene) -> None:
    scene.put(*range(40))
    scene.put(*range(40))
    scene.planner(max_records_per_epoch=1_000, term=1).next_epoch(-1)
    first = expire(scene, scene.log.end_offsets([FIRST])[FIRST] - 5)
    assert first > 0
    with pytest.raises(SourceRangeLostError, match=r"source\.range\.lost"):
        scene.planner(term=2).next_epoch(-1)
    planner = scene.planner(term=2, on_range_lost="reset")
    assert planner.next_epoch(-1) == 0
    planner.next_epoch(0)
    assert scene.status().lost_offsets == first


class Shrinking:
    """A log whose partition begins later and later."""

    def __init__(self, first: int, later: int, at: int) -> None:
        self.first, self._later, self._at = first, later, at

    def start_offsets(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, self.first)

    def fetch(self, partition: TopicPartition, start: int, end: int) -> Iterator[RecordBatch]:
        for offset in range(start, end):
            if offset == self._at:
                self.first = self._later
            if offset < self.first:
                raise SourceRangeLostError("SOURCE_RANGE_LOST", "gone")
            yield RecordBatch(partition.topic, 0, np.array([offset]), np.array([0]), [None], [b"v"])

    def close(self) -> None:
        return


@pytest.mark.parametrize(
    ("first", "later", "at", "expected"),
    [(0, 0, 99, [2, 3, 4, 5]), (4, 4, 99, [4, 5]), (0, 5, 3, [2, 5]), (9, 9, 99, [])],
    ids=["nothing is gone", "the beginning is gone", "more goes while it is read", "all is gone"],
)
def test_a_reader_passes_over_what_is_gone(first: int, later: int, at: int, expected: list[int]) -> None:
    log = Shrinking(first, later, at)
    reader = SkippingReader(log, log)  # type: ignore[arg-type]
    assert [int(batch.offsets[0]) for batch in reader.fetch(FIRST, 2, 6)] == expected


def test_a_range_that_ends_behind_the_log_is_still_an_error(scene: Scene) -> None:
    scene.put(1)
    reader = SkippingReader(scene.log, scene.log.reader())
    with pytest.raises(SourceRangeLostError):
        list(reader.fetch(FIRST, 0, 1_000))
    reader.close()


def test_what_is_gone_from_an_internal_topic_is_never_passed_over(scene: Scene) -> None:
    lose(scene)
    check = RangeCheck(scene.log.start_offsets, "reset", lambda _: {}, lambda: 0.0, {"in"})
    with pytest.raises(SourceRangeLostError, match="the checkpoint is an older copy"):
        check.starts({FIRST: 0}, scene.log.end_offsets([FIRST]))


def test_where_a_reset_goes_on_holds_until_an_epoch_says_so(scene: Scene) -> None:
    """Records that come later are read from there, and what is gone is counted once."""
    end, _ = lose(scene)
    now = 0.0
    latest = scene.log.end_offsets([FIRST])[FIRST]
    check = RangeCheck(
        scene.log.start_offsets, "reset", lambda partitions: dict.fromkeys(partitions, latest), lambda: now
    )
    assert check.starts({FIRST: end}, {FIRST: latest}) == {FIRST: latest}
    now = 0.01
    assert check.starts({FIRST: end}, {FIRST: latest + 3}) == {FIRST: latest}
    now = 5.0
    assert check.starts({FIRST: end}, {FIRST: latest + 3}) == {FIRST: latest}
    assert check.passed_over == latest - end
    assert check.starts({FIRST: latest + 3}, {FIRST: latest + 3}) == {FIRST: latest + 3}  # an epoch said so
    assert check.passed_over == 0


@pytest.mark.long
@pytest.mark.parametrize("reset", ["earliest", "latest"])
@pytest.mark.parametrize("dies", ["before the record", "after it", "after more epochs"])
def test_what_a_run_has_passed_over_is_counted_once_though_its_planner_is_replaced(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, reset: str, dies: str
) -> None:
    end, first = lose(scene)
    changes: dict[str, Any] = {
        "on_range_lost": "reset",
        "resets": {"in": getattr(AutoOffsetReset, reset)()},
        "max_records_per_epoch": 1_000,
    }
    planner, after = scene.planner(**changes), 0
    begin = first if reset == "earliest" else scene.log.end_offsets([FIRST])[FIRST]
    if dies == "before the record":
        monkeypatch.setattr(planner, "_publish", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            planner.next_epoch(0)
    else:
        assert planner.next_epoch(0) == 1
    if dies == "after more epochs":
        for after in (1, 2):
            scene.put(300)
            planner.next_epoch(after)
        after = 3
    assert scene.status().lost_offsets == begin - end
    for _ in range(2):
        planner = scene.planner(**changes)
        scene.put(400)
        after = planner.next_epoch(after)
        planner.next_epoch(after)
        recorded = Epochs(scene.blobs).record(1)
        assert recorded is not None
        assert scene.status().lost_offsets == recorded.ranges["in"][0][0] - end > 0


def test_what_is_gone_of_an_open_epoch_is_counted_once_though_the_planner_that_adopted_it_is_replaced(
    scene: Scene,
) -> None:
    scene.put(*range(40))
    scene.put(*range(40))
    scene.planner(max_records_per_epoch=1_000, term=1).next_epoch(-1)
    first = expire(scene, scene.log.end_offsets([FIRST])[FIRST] - 5)
    for _ in range(3):
        assert scene.planner(term=2, on_range_lost="reset").next_epoch(-1) == 0
        assert scene.status().lost_offsets == first


@pytest.mark.long
def test_a_run_does_not_count_what_the_run_before_has_passed_over(scene: Scene) -> None:
    lose(scene)
    assert scene.planner(on_range_lost="reset", max_records_per_epoch=1_000).next_epoch(0) == 1
    (scene.folder / "control" / "status").unlink()  # a run has a control folder of its own
    planner = scene.planner(on_range_lost="reset")
    assert planner.next_epoch(0) == 1 and planner.next_epoch(1) == 1
    assert scene.status().lost_offsets == 0
