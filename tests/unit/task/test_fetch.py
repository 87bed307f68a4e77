"""Fetching the ranges of an epoch record from a log that has gaps."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hayase.log.embedded.log import EmbeddedLog
from hayase.log.protocol import LogConfig, OutputBatch
from hayase.task.epoch_record import EpochRecord
from hayase.task.input_merge import fetch_inputs
from hayase.task.plan import TaskPlan

COUNT = 40
KEYS = 7
TASK = TaskPlan("0_0", "0", 0, (("users-source", "users", 0),), ())


@pytest.fixture
def log(tmp_path: Path) -> Iterator[EmbeddedLog]:
    """A topic of which compaction has left the last record of each key, most of them at its end."""
    opened = EmbeddedLog(LogConfig("embedded", str(tmp_path), {"fsync": "false", "cleaner.interval.ms": "0"}))
    opened.create_topic("users", 1, {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0"})
    for number in range(COUNT):
        opened.writer().append([OutputBatch("users", [_key(number)], [b"%d" % number], [number])])
    opened.clean(COUNT)
    yield opened
    opened.close()


def _key(number: int) -> bytes:
    return b"rare" if number == 4 else b"k%d" % (number % KEYS)


def _fetch(log: EmbeddedLog, start: int, end: int) -> list[tuple[int, bytes | None, bytes | None]]:
    record = EpochRecord(0, "L", "plan", 0, {"users": {0: (start, end)}}, {})
    inputs = fetch_inputs(log.reader(), record, TASK)
    assert len(inputs) <= 1
    batches = [batch for _, fetched in inputs for batch in fetched]
    return [row for raw in batches for row in zip(raw.offsets.tolist(), raw.keys, raw.values, strict=True)]


def test_an_epoch_over_a_gap_has_no_input(log: EmbeddedLog) -> None:
    assert _fetch(log, 0, 4) == []
    assert _fetch(log, 5, COUNT - KEYS) == []


@pytest.mark.parametrize("size", [1, 2, 3, 10, 39, 40])
def test_epochs_cut_anywhere_are_together_what_compaction_left(log: EmbeddedLog, size: int) -> None:
    found = [row for start in range(0, COUNT, size) for row in _fetch(log, start, min(start + size, COUNT))]
    last = {_key(number): (number, _key(number), b"%d" % number) for number in range(COUNT)}
    assert found == sorted(last.values())


def test_an_epoch_that_was_planned_before_a_compaction_can_be_read_after_it(log: EmbeddedLog) -> None:
    log.writer().append([OutputBatch("users", [b"k1"] * 60, [b"new"] * 60, [99] * 60)])
    planned = (COUNT, COUNT + 60)
    log.clean(1_000)
    assert _fetch(log, *planned) == [(COUNT + 59, b"k1", b"new")]
