"""A cleaner that hangs blocks no other process, and does no harm if it wakes up."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path

import pytest
from tests.unit.log.keeping import WHERE, Row, bounds, local_bytes, put, put_each, rows, stored_bytes

from hayase.core.errors import LogError
from hayase.core.time import ManualClock
from hayase.log.embedded.log import EmbeddedLog
from hayase.log.protocol import LogConfig

SPAWN = multiprocessing.get_context("spawn")
PATIENCE_S = 60
TIMEOUT_MS = 300
COMPACTED = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0"}


def opened(folder: Path, timeout_ms: int = TIMEOUT_MS, **options: str) -> EmbeddedLog:
    given = {"fsync": "false", "cleaner.interval.ms": "0", "cleaner.timeout.ms": str(timeout_ms), **options}
    return EmbeddedLog(LogConfig("embedded", str(folder), given), clock=ManualClock(10_000))


@contextmanager
def made(folder: Path, config: dict[str, str], **options: int) -> Iterator[EmbeddedLog]:
    log = opened(folder / "log", **options)
    log.create_topic("t", 1, config)
    yield log
    log.close()


def _clean_when_told(folder: str, orders: Connection) -> None:
    log = opened(Path(folder))
    with log._cleaner.lock.held() as turn:
        orders.send("locked")
        orders.recv()
        orders.send(turn.renew())


@contextmanager
def stopped_cleaner(folder: Path) -> Iterator[Callable[[], bool]]:
    """A process that hangs in its cleaning; the function wakes it up and says whether it goes on."""
    ours, theirs = SPAWN.Pipe()
    child = SPAWN.Process(target=_clean_when_told, args=(str(folder), theirs), daemon=True)
    child.start()
    assert ours.poll(PATIENCE_S) and ours.recv() == "locked"
    assert child.pid is not None
    os.kill(child.pid, signal.SIGSTOP)

    def woken() -> bool:
        assert child.pid is not None
        os.kill(child.pid, signal.SIGCONT)
        ours.send("go on")
        assert ours.poll(PATIENCE_S)
        return bool(ours.recv())

    try:
        yield woken
    finally:
        child.kill()
        child.join()


@pytest.mark.long
def test_records_are_deleted_while_a_cleaner_hangs(tmp_path: Path) -> None:
    with made(tmp_path, {}, timeout_ms=300_000) as log:
        put_each(log, *[(b"k", b"%d" % n, n) for n in range(4)])
        with stopped_cleaner(tmp_path / "log"):
            log.delete_records({WHERE: 3})
            assert bounds(log) == (3, 4)


@pytest.mark.long
def test_another_process_takes_over_from_a_cleaner_that_hangs(tmp_path: Path) -> None:
    with made(tmp_path, {"retention.ms": "1"}) as log:
        put(log, (b"a", b"1", 0))
        with stopped_cleaner(tmp_path / "log") as woken:
            deadline = time.monotonic() + PATIENCE_S
            while bounds(log) == (0, 1):
                try:
                    log.clean(1_000)
                except LogError as error:
                    busy = error
                    assert time.monotonic() < deadline
                    time.sleep(0.02)
            assert busy.condition == "CLEANER_BUSY" and "cleaner.timeout.ms" in busy.message
            assert woken() is False
            put(log, (b"a", b"2", 0))
            assert log.clean(1_000).expired_records == 1
        assert list((tmp_path / "log").glob("cleaner.lock.*")) == []


@pytest.mark.long
def test_another_thread_takes_over_from_one_that_hangs(tmp_path: Path) -> None:
    with made(tmp_path, {"retention.ms": "1"}) as log:
        put(log, (b"a", b"1", 0))
        with log._cleaner.lock.held() as turn:
            with pytest.raises(LogError, match="CLEANER_BUSY"):
                log.clean(1_000)
            time.sleep(TIMEOUT_MS / 1_000)
            assert log.clean(1_000).expired_records == 1
            assert not turn.renew()
        put(log, (b"a", b"2", 0))
        assert log.clean(1_000).expired_records == 1


@pytest.mark.long
def test_a_cleaner_that_gets_on_keeps_its_turn_however_long_it_takes(tmp_path: Path) -> None:
    with made(tmp_path, {"retention.ms": "1"}) as log, log._cleaner.lock.held() as turn:
        for _ in range(6):
            time.sleep(TIMEOUT_MS / 3_000)
            assert turn.renew()
            with pytest.raises(LogError, match="CLEANER_BUSY"):
                log.clean(1_000)


def test_the_next_writer_brings_back_a_background_cleaner_whose_thread_died(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class DiesAtOnce(threading.Thread):
        def run(self) -> None:
            return

        def start(self) -> None:
            super().start()
            self.join()

    with made(tmp_path, {"retention.ms": "1"}) as log:
        log.close()
    log = opened(tmp_path / "log", **{"cleaner.interval.ms": "5"})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hayase.log.embedded.cleaner.threading.Thread", DiesAtOnce)
        log.writer()
    put(log, (b"a", b"1", 0))
    deadline = time.monotonic() + PATIENCE_S
    while bounds(log) != (1, 1):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    log.close()


STEPS = {
    "compaction": (COMPACTED, ("before_swap", "after_swap", "before_cleaned")),
    "tiers": (
        {"remote.storage.enable": "true", "local.retention.ms": "100", "segment.ms": "1", "segment.bytes": "300"},
        ("before_part", "after_part", "after_move"),
    ),
    "retention": ({"retention.ms": "9990"}, ("before_retention", "after_retention")),
}
CASES = [
    (kind, step, other)
    for kind, (_, steps) in STEPS.items()
    for step in steps
    for other in ("clean", "delete", "clean and delete", "clean twice")
]


@pytest.mark.long
@pytest.mark.parametrize(("kind", "step", "other"), CASES)
def test_a_cleaner_that_wakes_up_after_another_took_over_does_no_harm(
    tmp_path: Path, kind: str, step: str, other: str
) -> None:
    config = STEPS[kind][0]
    if kind == "tiers":
        config = {**config, "remote.storage.url": str(tmp_path / "old")}
    with made(tmp_path, config, timeout_ms=1) as log:
        put_each(log, *[(b"k%d" % (n % 3), b"%d" % n * 20, n) for n in range(24)])
        before = rows(log)
        visits = 0

        def meanwhile(name: str, **_: object) -> None:
            nonlocal visits
            if name != step:
                return
            visits += 1
            if visits != (2 if kind == "tiers" else 1):
                return
            time.sleep(0.005)  # longer than a cleaner may take for a step
            with pytest.MonkeyPatch.context() as inner:
                for module in ("compaction", "tiers", "retention"):
                    inner.setattr(f"hayase.log.embedded.{module}.reach", lambda *_, **__: None)
                if "clean" in other:
                    log.clean(10_000)
                if "delete" in other:
                    log.delete_records({WHERE: 7})
                if "twice" in other:
                    put(log, (b"k1", b"more", 24))
                    time.sleep(0.005)
                    log.clean(10_001)

        with pytest.MonkeyPatch.context() as patch:
            for module in ("compaction", "tiers", "retention"):
                patch.setattr(f"hayase.log.embedded.{module}.reach", meanwhile)
            log.clean(10_000)
        assert visits
        if "twice" in other:
            before = [*before, Row(24, b"k1", b"more", 24)]
        check(log, kind, before, tmp_path)
        log.clean(10_001)
        check(log, kind, before, tmp_path)


def check(log: EmbeddedLog, kind: str, before: list[Row], folder: Path) -> None:
    start, end = bounds(log)
    found = rows(log)
    assert end == len(before)
    if kind == "compaction":
        last = {row.key: row for row in before}
        assert [row for row in found if row in last.values()] == sorted(
            row for row in last.values() if row.offset >= start
        )
        assert all(before[row.offset] == row for row in found)
    else:
        assert found == before[start:]
    assert local_bytes(log) == stored_bytes(log)
    named = {part.url for part in log.storage("t")[0].remote_parts}
    assert named <= {str(file) for file in folder.rglob("*.parquet")}
    with log._store.read() as tables:
        assert not named & {*tables.garbage()}


def test_a_file_whose_removal_began_is_not_moved_to(tmp_path: Path) -> None:
    config = {"remote.storage.enable": "true", "remote.storage.url": str(tmp_path / "old"), "local.retention.ms": "1"}
    with made(tmp_path, {**config, "segment.ms": "1"}) as log, pytest.MonkeyPatch.context() as patch:
        put_each(log, (b"a", b"1", 1), (b"a", b"2", 2))

        def meanwhile(name: str) -> None:
            if name == "after_part":
                with log._store.read() as tables:
                    (url,) = tables.garbage()
                log._store.write(lambda tables: tables.remove_from_now_on(url))

        patch.setattr("hayase.log.embedded.tiers.reach", meanwhile)
        log.clean(10_000)
        assert log.storage("t")[0].remote_parts == () and len(rows(log)) == 2
        assert list(tmp_path.rglob("*.parquet")) == []
