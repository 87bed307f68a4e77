"""A full disk is one error on every way to it, takes nothing away, and when there is room everything goes on."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

_MOUNTED = ("unshare", "--mount", "sh", "-c", 'mount -t tmpfs -o size=4m tmpfs "$0" && exec "$@"')
"""To be put before a folder and a command: the folder is a disk of 4 MiB for it."""

_BEGIN = """
import json, os, sys, traceback
from pathlib import Path
import numpy as np
from hayase.core.errors import HayaseError
from hayase.core.records import TopicPartition
from hayase.core.time import ManualClock
from hayase.log.embedded.log import EmbeddedLog
from hayase.log.protocol import LogConfig, Marker, OutputBatch, StoredBatch

disk = Path(sys.argv[1])
ballast = disk / "ballast"
T = TopicPartition("t", 0)
told = {}

def opened(folder):
    options = {"fsync": sys.argv[2], "cleaner.interval.ms": "0", "map.size": str(1 << 26)}
    return EmbeddedLog(LogConfig("embedded", str(folder), options), clock=ManualClock(10_000))

def batch(size, key=b"k", topic="t"):
    return OutputBatch(topic, [key], [os.urandom(size)], [0], np.zeros(1, dtype=np.int32))

def fill():
    with ballast.open("ab", buffering=0) as file:
        for size in (1 << 16, 1 << 12, 1):
            try:
                while file.write(bytes(size)):
                    pass
            except OSError:
                pass

def make_room():
    ballast.unlink(missing_ok=True)

def tell(name, call):
    try:
        call()
    except HayaseError as error:
        told[name] = [type(error).__name__, error.condition, error.context.get("location", ""), error.message]
    else:
        told[name] = None

def values(log):
    low, high = log.start_offsets([T])[T], log.end_offsets([T])[T]
    return [value for part in log.reader().fetch(T, low, high) for value in part.values]
"""

_END = """
print(json.dumps(told), flush=True)
"""


def _works(tmp_path: Path) -> bool:
    found = subprocess.run([*_MOUNTED, str(tmp_path), "true"], check=False, capture_output=True, timeout=30)
    return found.returncode == 0


def on_a_small_disk(tmp_path: Path, script: str, fsync: str = "false") -> Any:
    """What a script told, which runs on a disk of 4 MiB at `tmp_path / "disk"`."""
    disk = tmp_path / "disk"
    disk.mkdir()
    if not _works(disk):
        pytest.skip("this user may not mount a small disk")
    command = [*_MOUNTED, str(disk), sys.executable, "-c", _BEGIN + script + _END, str(disk), fsync]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


def is_full(told: list[str] | None, folder: str) -> bool:
    return told is not None and told[:2] == ["LogError", "DISK_FULL"] and folder in told[2] and "space" in told[3]


@pytest.mark.long
@pytest.mark.parametrize("fsync", ["true", "false"])
def test_whatever_writes_to_a_log_on_a_full_disk_says_so_and_goes_on_when_there_is_room(
    tmp_path: Path, fsync: str
) -> None:
    told = on_a_small_disk(
        tmp_path,
        """
log = opened(disk / "log")
log.create_topic("t", 1)
log.create_topic("c", 1, {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0"})
log.writer().append([batch(1 << 17)])
for number in range(4):
    log.writer().append([batch(1 << 16, b"%d" % number, "c")])
    log.writer().append([batch(1 << 16, b"%d" % number, "c")])
before = values(log)
fill()
calls = {
    "append": lambda: log.writer().append([batch(1 << 19)]),
    "publish": lambda: log.writer().publish_epoch("app", "0", Marker("L", 1, "d"), [batch(1 << 19)]),
    "stored": lambda: log.writer().append([StoredBatch("t", 1, lambda: batch(1 << 19))]),
    "clean": log.clean,
}
for name, call in calls.items():
    tell(name, call)
for name in ("create", "offsets"):
    # small ones may fit into pages that are free; so until the first that does not
    for number in range(2_000):
        call = (lambda: log.create_topic(f"t{number}" + "x" * 200, 40)) if name == "create" else (
            lambda: log.commit_group_offsets(f"g{number}" + "x" * 200, {T: 1}))
        tell(name, call)
        if told[name]:
            break
told["kept"] = values(log) == before
make_room()
for name, call in calls.items():
    tell(name + " again", call)
tell("create again", lambda: log.create_topic("last", 1))
told["values"] = len(values(log)) - len(before)
log.close()
""",
        fsync,
    )
    for name in ("append", "publish", "stored", "clean", "create", "offsets"):
        assert is_full(told[name], str(tmp_path / "disk" / "log")), (name, told[name])
        if f"{name} again" in told:
            assert told[f"{name} again"] is None, name
    assert told["kept"] and told["values"] == 3


@pytest.mark.long
def test_a_log_that_is_opened_on_a_full_disk_says_so(tmp_path: Path) -> None:
    told = on_a_small_disk(
        tmp_path,
        """
log = opened(disk / "there")
log.create_topic("t", 1)
log.writer().append([batch(100)])
log.close()
fill()
tell("new", lambda: opened(disk / "new"))
tell("there", lambda: opened(disk / "there").close())
(disk / "there" / "lock.mdb").unlink()
fill()
tell("without lock file", lambda: opened(disk / "there").close())
make_room()
tell("new again", lambda: opened(disk / "new").close())
log = opened(disk / "there")
told["values"] = len(values(log))
log.close()
""",
    )
    assert is_full(told["new"], str(tmp_path / "disk" / "new")), told
    assert is_full(told["without lock file"], str(tmp_path / "disk" / "there")), told
    assert told["there"] is None or is_full(told["there"], str(tmp_path / "disk" / "there"))
    assert told["new again"] is None and told["values"] == 1


@pytest.mark.long
def test_readers_begin_while_the_disk_is_full(tmp_path: Path) -> None:
    told = on_a_small_disk(
        tmp_path,
        """
import threading
log = opened(disk / "log")
log.create_topic("t", 1)
log.writer().append([batch(100)])
fill()
found, go_on = [], threading.Barrier(200)
def read():
    with log._store.read() as tables:  # a slot of its own in the file of readers
        go_on.wait(60)
        found.append(tables.topic("t"))
threads = [threading.Thread(target=read) for _ in range(200)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
told["found"] = len(found)
log.close()
""",
    )
    assert told["found"] == 200


@pytest.mark.long
def test_a_tier_on_a_full_disk_says_so_and_the_records_stay_where_they_were(tmp_path: Path) -> None:
    told = on_a_small_disk(
        tmp_path,
        """
import tempfile
log = opened(tempfile.mkdtemp())
config = {"remote.storage.enable": "true", "remote.storage.url": str(disk / "old"), "local.retention.ms": "1"}
log.create_topic("t", 1, {**config, "segment.ms": "1"})
log.writer().append([batch(1 << 19)])
before = values(log)
fill()
tell("clean", log.clean)
told["kept"] = values(log) == before
make_room()
tell("clean again", log.clean)
told["moved"] = values(log) == before and len(log.storage("t")[0].remote_parts) == 1
told["files"] = len(list(disk.rglob("*.parquet")))
log.close()
""",
    )
    assert is_full(told["clean"], str(tmp_path / "disk" / "old")), told["clean"]
    assert told["clean again"] is None and told["kept"] and told["moved"] and told["files"] == 1
