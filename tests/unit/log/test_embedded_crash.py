"""A writer that is killed at any moment leaves whole transactions, and every one it was told of."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import time
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from hayase.core.records import TopicPartition
from hayase.log.embedded.log import EmbeddedLog
from hayase.log.protocol import LogConfig, Marker, OutputBatch

pytestmark = pytest.mark.long

SPAWN = multiprocessing.get_context("spawn")
TOPICS = ("left", "right")
ROWS = 7
KILLS = 5


def _number(index: int) -> bytes:
    return b"%d" % index


def _publish_for_ever(config: LogConfig, acknowledged: Connection) -> None:
    """Publish epoch after epoch to two topics from where the log says it is, and say so after each."""
    log = EmbeddedLog(config)
    found = log.markers("app").get("b0")
    epoch = found.epoch if found is not None else 0
    writer = log.writer()
    while True:
        epoch += 1
        rows = [_number(epoch)] * ROWS
        padding: list[bytes | None] = [os.urandom(epoch * 37 % 5000)] * ROWS
        batches = [OutputBatch(topic, padding, list(rows), [epoch] * ROWS) for topic in TOPICS]
        assert writer.publish_epoch("app", "b0", Marker("L", epoch, "d"), batches)
        acknowledged.send(epoch)


def _last_acknowledged(acknowledged: Connection) -> int:
    last = 0
    try:
        while acknowledged.poll():
            last = acknowledged.recv()
    except EOFError:
        pass
    return last


def _epochs(log: EmbeddedLog, topic: str) -> list[int]:
    where = TopicPartition(topic, 0)
    end = log.end_offsets([where])[where]
    values = [value for part in log.reader().fetch(where, 0, end) for value in part.values]
    assert len(values) == end
    assert [values[row] for row in range(0, end, ROWS) for _ in range(ROWS)] == values
    return [int(value or b"") for value in values[::ROWS]]


@pytest.mark.parametrize("fsync", ["true", pytest.param("false", marks=pytest.mark.slow)])
def test_after_kills_the_log_holds_whole_transactions_and_every_acknowledged_one(tmp_path: Path, fsync: str) -> None:
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    config = LogConfig("embedded", str(tmp_path), {"fsync": fsync})
    log = EmbeddedLog(config)
    for topic in TOPICS:
        log.create_topic(topic, 1)
    last = 0
    for _ in range(KILLS):
        ours, theirs = SPAWN.Pipe(duplex=False)
        child = SPAWN.Process(target=_publish_for_ever, args=(config, theirs), daemon=True)
        child.start()
        theirs.close()
        assert ours.poll(60)
        time.sleep(chance.uniform(0, 0.1))
        assert child.pid is not None
        os.kill(child.pid, signal.SIGKILL)
        child.join()
        last = max(last, _last_acknowledged(ours))
        epochs = [_epochs(log, topic) for topic in TOPICS]
        marker = log.markers("app")["b0"]
        assert epochs[0] == epochs[1] == list(range(1, marker.epoch + 1))
        assert last <= marker.epoch <= last + 1
        last = marker.epoch
    assert last >= KILLS
    log.close()
