"""One process cleans an embedded log, and disturbs no other."""

from __future__ import annotations

import multiprocessing
import threading
import time
from multiprocessing.connection import Connection
from pathlib import Path

import pytest
from tests.unit.log.keeping import WHERE, bounds, kept_log, local_bytes, put, put_each, rows, stored_bytes

from hayase.core.errors import LogError
from hayase.core.time import ManualClock
from hayase.log.embedded import tables
from hayase.log.embedded.cleaner import Cleaner
from hayase.log.embedded.log import EmbeddedLog
from hayase.log.protocol import LogConfig

SPAWN = multiprocessing.get_context("spawn")
PATIENCE_S = 60


def _hold_the_lock(folder: str, orders: Connection) -> None:
    log = EmbeddedLog(LogConfig("embedded", folder, {"fsync": "false"}))
    with log._cleaner.lock.held():
        orders.send("locked")
        orders.recv()


def _until(found: object, wanted: object) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while found() != wanted:  # type: ignore[operator]
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_a_log_of_which_a_writer_was_taken_cleans_in_the_background(tmp_path: Path) -> None:
    clock = ManualClock(0)
    config = LogConfig("embedded", str(tmp_path), {"fsync": "false", "cleaner.interval.ms": "5"})
    others = set(threading.enumerate())
    log = EmbeddedLog(config, clock=clock)
    log.create_topic("t", 1, {"retention.ms": "100"})
    put(log, (b"a", b"1", 0))
    put(log, (b"a", b"2", 1_000))
    clock.advance_ms(1_000)
    _until(lambda: bounds(log), (1, 2))
    log.close()
    assert not [t for t in threading.enumerate() if t.name == "hayase-log-cleaner" and t not in others]


def test_a_log_that_another_cleaned_just_now_is_left_alone(tmp_path: Path) -> None:
    clock = ManualClock(0)
    config = LogConfig("embedded", str(tmp_path), {"fsync": "false", "cleaner.interval.ms": "0"})
    log = EmbeddedLog(config, clock=clock)
    assert Cleaner(log._store, log._new_id).cleaned_at_ms() is None
    log.clean(500)
    assert Cleaner(log._store, log._new_id).cleaned_at_ms() == 500
    log.close()


@pytest.mark.long
def test_one_process_cleans_at_a_time_and_its_death_frees_the_lock(tmp_path: Path) -> None:
    with kept_log({"retention.ms": "1"}, tmp_path) as log:
        put(log, (b"a", b"1", 0))
        ours, theirs = SPAWN.Pipe()
        child = SPAWN.Process(target=_hold_the_lock, args=(str(tmp_path), theirs), daemon=True)
        child.start()
        assert ours.poll(PATIENCE_S)
        with pytest.raises(LogError) as error:
            log.clean(1_000)
        assert error.value.condition == "CLEANER_BUSY"
        assert bounds(log) == (0, 1)
        child.kill()
        child.join()
        assert log.clean(1_000).expired_records == 1


def test_one_thread_cleans_at_a_time(tmp_path: Path) -> None:
    with kept_log({}, tmp_path) as log, log._cleaner.lock.held():
        with pytest.raises(LogError) as error:
            log.clean(0)
        assert error.value.condition == "CLEANER_BUSY"


def test_a_topic_that_is_removed_while_it_is_cleaned_is_left_alone() -> None:
    with kept_log({"cleanup.policy": "compact"}) as log, pytest.MonkeyPatch.context() as patch:
        put_each(log, (b"a", b"1", 1), (b"a", b"2", 2))
        patch.setattr(
            "hayase.log.embedded.compaction.reach",
            lambda name: log.delete_topic("t") if name == "before_swap" else None,
        )
        log.clean(10)
        assert log.topics() == []
        with log._store.read() as found:
            assert all(not list(found.scan(table, b"")) for table in ("batches", "partitions", "cleaned", "times"))


@pytest.mark.long
def test_readers_and_writers_go_on_while_a_log_is_cleaned(tmp_path: Path) -> None:
    with kept_log({"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0"}, tmp_path) as log:
        put_each(log, *[(b"k%d" % (number % 5), b"%d" % number, number) for number in range(20)])
        done = threading.Event()
        failures: list[BaseException] = []

        def read_for_ever() -> None:
            try:
                while not done.is_set():
                    high = bounds(log)[1]
                    last = {row.key: row.value for row in rows(log, 0, high)}
                    # Of each key a record at or behind the last one of this range is in the log, at least.
                    newest = {b"k%d" % (n % 5): n for n in range(high)}
                    assert all(int(value or b"") % 5 == int(key[1:]) for key, value in last.items() if key)
                    assert set(last) == set(newest) or bounds(log)[1] > high
            except BaseException as error:
                failures.append(error)

        readers = [threading.Thread(target=read_for_ever) for _ in range(2)]
        for thread in readers:
            thread.start()
        for number in range(20, 120):
            put(log, (b"k%d" % (number % 5), b"%d" % number, number))
            log.clean(number)
        done.set()
        for thread in readers:
            thread.join()
        assert not failures
        assert [row.offset for row in rows(log)] == [115, 116, 117, 118, 119]


def test_a_log_of_the_first_format_is_brought_up_to_date(tmp_path: Path) -> None:
    with kept_log({}, tmp_path) as log:
        put_each(log, (b"a", b"1", 1), (b"b", b"2", 2))
        size = stored_bytes(log)

        def make_old(found: tables.Tables) -> None:
            key, state = found.partition(WHERE)
            for name in {*tables.NAMES} - {"batches"}:
                for row, raw in list(found._scan(name, b"")):
                    found._put(name, row, raw[:-4])  # rows had no checksums
            found._put("partitions", key, tables._PARTITION_1.pack(state.start, state.end, state.max_timestamp_ms))
            found._put("meta", b"format", b"1")

        log._store.write(make_old)
    again = EmbeddedLog(LogConfig("embedded", str(tmp_path), {"fsync": "false"}))
    assert local_bytes(again) == size
    assert [row.value for row in rows(again)] == [b"1", b"2"]
    put(again, (b"c", b"3", 3))
    assert local_bytes(again) == stored_bytes(again)
    again.close()
