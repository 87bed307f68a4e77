"""A cleaner of the embedded log that is killed at any step loses nothing, and the next one finishes its work."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import signal
import time
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from hayase.core.failpoints import CLEANER_NAMES, VARIABLE
from hayase.core.records import TopicPartition
from hayase.log.embedded import blob
from hayase.log.embedded.log import EmbeddedLog
from hayase.log.protocol import LogConfig, OutputBatch

pytestmark = pytest.mark.crash

SPAWN = multiprocessing.get_context("spawn")
NOW_MS = 10_000
Rows = list[tuple[int, bytes | None, bytes | None]]


class Scene:
    """A log with a compacted topic, and one with tiers and retention; some of both was cleaned before."""

    def __init__(self, folder: Path) -> None:
        self.remote = folder / "remote"
        self.config = LogConfig("embedded", str(folder / "log"), {"fsync": "false", "cleaner.interval.ms": "0"})
        self.log = EmbeddedLog(self.config)
        self.log.create_topic("users", 1, {"cleanup.policy": "compact", "delete.retention.ms": "100"})
        tier = {"remote.storage.enable": "true", "remote.storage.url": str(self.remote), "segment.ms": "1"}
        self.log.create_topic("orders", 1, {**tier, "local.retention.ms": "1000", "retention.ms": "4000"})
        self._fill(0, 5_000)
        self.log.clean(6_500)
        self._fill(5_000, 10_000)

    def _fill(self, start_ms: int, end_ms: int) -> None:
        writer = self.log.writer()
        for now in range(start_ms, end_ms, 100):
            number = now // 100
            keys: list[bytes | None] = [b"k%d" % (number % 7), b"k%d" % (number % 11 + 20)]
            values: list[bytes | None] = [b"%d" % number, None if number % 3 == 0 else b"%d" % number]
            writer.append([OutputBatch(topic, keys, values, [now, now]) for topic in ("users", "orders")])

    def rows(self, topic: str) -> Rows:
        where = TopicPartition(topic, 0)
        start, end = self.log.start_offsets([where])[where], self.log.end_offsets([where])[where]
        parts = list(self.log.reader().fetch(where, start, end))
        return [row for part in parts for row in zip(part.offsets.tolist(), part.keys, part.values, strict=True)]

    def files(self) -> list[str]:
        return sorted(str(path) for path in self.remote.rglob("*.parquet"))

    def named_files(self) -> list[str]:
        return sorted(part.url for part in self.log.storage("orders")[0].remote_parts)


def _clean(config: LogConfig, now_ms: int) -> None:
    blob.MAX_RECORDS = 30
    log = EmbeddedLog(config)
    log.clean(now_ms)
    log.close()


def _clean_and_be_killed(scene: Scene, step: str, token: Path) -> None:
    armed = [{"name": step, "action": "kill_worker", "token": str(token)}]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(VARIABLE, json.dumps(armed))
        child = SPAWN.Process(target=_clean, args=(scene.config, NOW_MS))
        child.start()
        child.join(120)
        assert child.exitcode == -signal.SIGKILL
    assert token.exists()


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that there are several steps; child processes set it themselves."""
    monkeypatch.setattr(blob, "MAX_RECORDS", 30)


def _last_of_each_key(rows: Rows) -> set[tuple[int, bytes | None, bytes | None]]:
    return set({key: (offset, key, value) for offset, key, value in rows}.values())


@pytest.mark.parametrize("step", CLEANER_NAMES)
def test_killed_at_a_step(tmp_path: Path, step: str) -> None:
    undisturbed, scene = Scene(tmp_path / "a"), Scene(tmp_path / "b")
    undisturbed.log.clean(NOW_MS)
    users, orders = scene.rows("users"), scene.rows("orders")
    _clean_and_be_killed(scene, step, tmp_path / "token")
    left = scene.rows("users")
    assert set(left) <= set(users)
    # NOW_MS is beyond the horizon of tombstones that the first cleaning met.
    gone = _last_of_each_key(users) - _last_of_each_key(left)
    assert all(value is None and offset < 100 for offset, _, value in gone)
    kept = scene.rows("orders")
    assert kept == orders[len(orders) - len(kept) :]
    scene.log.clean(NOW_MS)
    for topic in ("users", "orders"):
        assert scene.rows(topic) == undisturbed.rows(topic)
    assert len(scene.rows("orders")) < len(orders)
    assert scene.files() == scene.named_files() != []
    scene.log.close()
    undisturbed.log.close()


def _append_and_clean_for_ever(config: LogConfig, started: Connection) -> None:
    blob.MAX_RECORDS = 30
    log = EmbeddedLog(config)
    where = TopicPartition("orders", 0)
    number = log.end_offsets([where])[where]
    started.send(None)
    while True:
        for _ in range(5):
            keys: list[bytes | None] = [b"k%d" % (number % 13)]
            values: list[bytes | None] = [b"%d" % number]
            log.writer().append([OutputBatch(topic, keys, values, [number]) for topic in ("users", "orders")])
            number += 1
        log.clean(number)


def test_killed_at_any_time(tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    config = LogConfig("embedded", str(tmp_path / "log"), {"fsync": "false", "cleaner.interval.ms": "0"})
    log = EmbeddedLog(config)
    log.create_topic("users", 1, {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.1"})
    tier = {"remote.storage.enable": "true", "remote.storage.url": str(tmp_path / "old"), "segment.ms": "1"}
    log.create_topic("orders", 1, {**tier, "local.retention.ms": "20", "retention.ms": "200"})
    for _ in range(6):
        ours, theirs = SPAWN.Pipe(duplex=False)
        child = SPAWN.Process(target=_append_and_clean_for_ever, args=(config, theirs), daemon=True)
        child.start()
        theirs.close()
        assert ours.poll(60)
        time.sleep(chance.uniform(0.05, 0.6))
        assert child.pid is not None
        os.kill(child.pid, signal.SIGKILL)
        child.join()
        _check(log)
    log.clean(10**6)
    assert sorted(tmp_path.rglob("*.parquet")) == []
    log.close()


def _check(log: EmbeddedLog) -> None:
    found: dict[str, Rows] = {}
    ends = {}
    for topic in ("users", "orders"):
        where = TopicPartition(topic, 0)
        start, ends[topic] = log.start_offsets([where])[where], log.end_offsets([where])[where]
        parts = log.reader().fetch(where, start, ends[topic])
        found[topic] = [r for p in parts for r in zip(p.offsets.tolist(), p.keys, p.values, strict=True)]
    end = ends["orders"]
    assert ends["users"] == end
    assert [offset for offset, _, _ in found["orders"]] == list(range(end - len(found["orders"]), end))
    assert len(found["orders"]) >= min(end, 190)
    every = [(number, b"k%d" % (number % 13), b"%d" % number) for number in range(end)]
    assert set(found["users"]) <= set(every)
    assert _last_of_each_key(found["users"]) == _last_of_each_key(every)  # type: ignore[arg-type]
