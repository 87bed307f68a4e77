"""Epochs of runs in the server's process: as many records as end soon and fit in memory."""

from __future__ import annotations

import numpy as np
import pytest

from hayase.log.protocol import OutputBatch, RecordBatch
from hayase.server.local_run.epoch_size import RECORDS_MAX, EpochSize, parts_of, size_of


def batch(partition: int, count: int) -> RecordBatch:
    values = [str(number).encode() for number in range(count)]
    return RecordBatch("t", partition, np.arange(count), np.arange(count), list(values), list(values))


def note(size: EpochSize, records: int, rows: int = 0) -> None:
    size.begin()
    size.note(records, [OutputBatch("rows", [None] * rows, [b"x" * 900] * rows, [0] * rows)])


def test_the_first_epoch_has_one_record_and_the_next_ones_twice_as_many_up_to_a_limit() -> None:
    size = EpochSize()
    seen = []
    for _ in range(16):
        seen.append(size.records)
        note(size, size.records)
    assert seen[:5] == [1, 2, 4, 8, 16]
    assert seen[-1] == RECORDS_MAX


def test_epochs_of_few_records_do_not_make_the_next_one_larger() -> None:
    size = EpochSize()
    note(size, 1)
    note(size, 1)
    assert size.records == 2


def test_an_epoch_that_has_written_much_makes_the_next_one_smaller() -> None:
    size = EpochSize()
    for _ in range(10):
        note(size, size.records)
    note(size, 1000, rows=20_000)
    assert 80 <= size.records <= 120


def test_an_epoch_that_has_taken_long_makes_the_next_one_smaller(monkeypatch: pytest.MonkeyPatch) -> None:
    size = EpochSize()
    for _ in range(10):
        note(size, size.records)
    now_s = iter([0.0, 2.0])
    monkeypatch.setattr("hayase.server.local_run.epoch_size.time.monotonic", lambda: next(now_s))
    note(size, 1000)
    assert size.records == 100


@pytest.mark.parametrize("records", [1, 2, 3, 7, 100])
def test_parts_have_all_records_in_order_and_each_about_the_same_share_of_each_batch(records: int) -> None:
    size = EpochSize()
    size.records = records
    given = [batch(0, 20), batch(1, 5), batch(2, 1)]
    parts = list(parts_of(given, size))
    assert all(1 <= size_of(part) <= records for part in parts)
    for one in given:
        values = [value for part in parts for each in part if each.partition == one.partition for value in each.values]
        assert values == one.values
    if records == 7:
        assert {each.partition for each in parts[0]} == {0, 1, 2}


@pytest.mark.parametrize("records", [1, 2, 3, 4, 9, 100])
def test_records_of_a_partition_stay_in_order_where_it_has_several_batches(records: int) -> None:
    size = EpochSize()
    size.records = records
    given = [batch(number % 2, count) for number, count in enumerate([1, 3, 1, 0, 2, 5, 1, 1, 4])]
    for number, each in enumerate(given):
        each.values[:] = [b"%d of batch %d" % (row, number) for row in range(len(each))]
    parts = list(parts_of(given, size))
    assert all(1 <= size_of(part) <= records for part in parts)
    for partition in (0, 1):
        wanted = [value for each in given if each.partition == partition for value in each.values]
        found = [value for part in parts for each in part if each.partition == partition for value in each.values]
        assert found == wanted


def test_no_records_are_no_parts() -> None:
    assert list(parts_of([], EpochSize())) == []
