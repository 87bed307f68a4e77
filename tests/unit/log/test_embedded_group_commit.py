"""Writes of several threads share a commit, and all or nothing of each is written."""

from __future__ import annotations

import itertools
import os
import threading
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hayase.core.errors import LogError
from hayase.core.records import TopicPartition
from hayase.log.embedded.group_commit import GroupCommit
from hayase.log.embedded.log import EmbeddedLog
from hayase.log.embedded.tables import Tables
from hayase.log.protocol import LogConfig, Marker, OutputBatch, StoredBatch

PATIENCE_S = 60


@pytest.fixture
def log(tmp_path: Path) -> Any:
    opened = EmbeddedLog(LogConfig("embedded", str(tmp_path), {"fsync": "false", "cleaner.interval.ms": "0"}))
    for topic in ("one", "two"):
        opened.create_topic(topic, 1)
    yield opened
    opened.close()


def ends(log: EmbeddedLog) -> list[int]:
    return list(log.end_offsets([TopicPartition(topic, 0) for topic in ("one", "two")]).values())


def batch(topic: str, *values: bytes) -> OutputBatch:
    return OutputBatch(topic, [None] * len(values), list(values), [0] * len(values))


@pytest.mark.parametrize("fails_at", [1, 2, 3])
def test_of_an_epoch_whose_stored_batch_cannot_be_loaded_all_or_nothing_is_written(
    log: EmbeddedLog, fails_at: int
) -> None:
    calls = 0

    def load() -> OutputBatch:
        nonlocal calls
        calls += 1
        if calls == fails_at:
            raise LogError("AWAY", "the storage of the batch does not answer")
        return batch("two", b"b")

    batches = [batch("one", b"a"), StoredBatch("two", 1, load)]
    publish: Callable[[], bool] = lambda: log.writer().publish_epoch("app", "0-0", Marker("L", 0, "d"), batches)  # noqa: E731
    failed = False
    try:
        assert publish()
    except LogError:
        failed = True
    if failed:
        assert ends(log) == [0, 0] and log.markers("app") == {}
        assert publish()
    assert ends(log) == [1, 1] and log.markers("app") == {"0-0": Marker("L", 0, "d")}
    assert not publish()


@pytest.mark.long
def test_an_epoch_of_stored_batches_is_loaded_once_and_never_in_memory_as_a_whole(log: EmbeddedLog) -> None:
    loads = 0

    def load() -> OutputBatch:
        nonlocal loads
        loads += 1
        return batch("one", *[os.urandom(1 << 16) for _ in range(16)])

    writer, batches = log.writer(), [StoredBatch("one", 16, load) for _ in range(40)]
    tracemalloc.start()
    try:
        writer.append(batches)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert loads == 40 and ends(log) == [640, 0]
    assert peak < 16 << 20, "40 MiB were written"


@pytest.mark.parametrize("error", [LogError("NO", "refused"), ValueError("a bug")])
def test_a_write_that_fails_half_way_is_undone_and_those_that_share_its_commit_are_not(
    log: EmbeddedLog, error: Exception
) -> None:
    store, first_runs, go_on = log._store, threading.Event(), threading.Event()
    told: list[BaseException | None] = []

    def first(_: Tables) -> None:
        first_runs.set()
        assert go_on.wait(PATIENCE_S)

    def half(tables: Tables) -> None:
        tables.put_group_offset("half", TopicPartition("one", 0), 1)
        raise error

    def whole(number: int) -> Callable[[Tables], None]:
        return lambda tables: tables.put_group_offset("whole", TopicPartition("one", number), number)

    def write(work: Callable[[Tables], None]) -> None:
        try:
            store.write(work)
        except Exception as raised:
            told.append(raised)
        else:
            told.append(None)

    threads = [threading.Thread(target=write, args=(work,)) for work in (first, whole(1), half, whole(2))]
    for number, thread in enumerate(threads):
        thread.start()
        assert first_runs.wait(PATIENCE_S)
        deadline = time.monotonic() + PATIENCE_S
        while len(store._commits._waiting) < number and time.monotonic() < deadline:
            time.sleep(0.001)
    go_on.set()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert sorted(map(repr, told)) == sorted(map(repr, [None, None, None, error]))
    assert log.group_offsets("half") == {}
    assert log.group_offsets("whole") == {TopicPartition("one", number): number for number in (1, 2)}


def test_a_thread_that_is_interrupted_while_it_commits_leaves_the_others_writes_to_them() -> None:
    group, written, interrupted = GroupCommit(), [], []
    runs = itertools.count()

    def transaction(run: Callable[[Any], None]) -> None:
        if next(runs) == 0:
            raise KeyboardInterrupt
        run(None)

    def write(number: int) -> None:
        try:
            group.write(lambda _: written.append(number), transaction)
        except KeyboardInterrupt:
            interrupted.append(number)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(3)]
    with group._committing:
        for thread in threads:
            thread.start()
        deadline = time.monotonic() + PATIENCE_S
        while len(group._waiting) < len(threads) and time.monotonic() < deadline:
            time.sleep(0.001)
    for thread in threads:
        thread.join(PATIENCE_S)
    assert len(interrupted) == 1 and sorted(written + interrupted) == [0, 1, 2]
