"""Blobs on a POSIX file system: published once, whole, and durable."""

from __future__ import annotations

import os
import pickle
import random
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hayase.core.errors import ConfigError, StateError
from hayase.storage.open import open_blobs, probe_put_if_absent
from hayase.storage.posix_blobs import PosixBlobs

PUBLISH = """
import sys
from pathlib import Path
from hayase.storage.posix_blobs import PosixBlobs
blobs = PosixBlobs(Path(sys.argv[1]), fsync=False)
who = sys.argv[2].encode()
sys.stdin.read(1)
print(sum(blobs.put_if_absent(f"race/{number}", who * 100_000) for number in range(200)))
"""
PUBLISH_FOREVER = """
import sys
from pathlib import Path
from hayase.storage.posix_blobs import PosixBlobs
blobs = PosixBlobs(Path(sys.argv[1]), fsync=False)
number = len(blobs.list("blobs/"))
print("ready", flush=True)
while True:
    blobs.put_if_absent(f"blobs/{number:06d}", bytes([number % 256]) * 300_000)
    number += 1
"""


def test_a_blob_is_published_once_and_never_changes(tmp_path: Path) -> None:
    blobs = PosixBlobs(tmp_path / "root")
    assert blobs.get("a/b/c") is None and not blobs.exists("a/b/c")
    assert blobs.put_if_absent("a/b/c", b"first")
    assert not blobs.put_if_absent("a/b/c", b"second")
    assert blobs.get("a/b/c") == b"first" and blobs.exists("a/b/c")


def test_a_deleted_blob_can_be_published_again(tmp_path: Path) -> None:
    blobs = PosixBlobs(tmp_path)
    blobs.put_if_absent("a", b"1")
    blobs.delete("a")
    blobs.delete("a")
    assert blobs.put_if_absent("a", b"2") and blobs.get("a") == b"2"


def test_a_folder_lists_its_blobs_sorted_and_not_those_below(tmp_path: Path) -> None:
    blobs = PosixBlobs(tmp_path)
    for name in ("x/2", "x/10", "x/1", "x/deep/1", "y/1", "top"):
        blobs.put_if_absent(name, b"")
    assert blobs.list("x/") == ["x/1", "x/10", "x/2"]
    assert blobs.list("") == ["top"]
    assert blobs.list("absent/") == [] and blobs.list("top/") == []


@pytest.mark.parametrize("name", ["", "/etc/x", "a//b", "../a", "a/../../b", "./a", ".tmp/a"])
def test_a_name_that_leads_elsewhere_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="no name of a blob"):
        PosixBlobs(tmp_path).put_if_absent(name, b"")


def test_of_several_processes_one_wins_each_blob(tmp_path: Path) -> None:
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", PUBLISH, str(tmp_path), who], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        for who in "abc"
    ]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write(b"!")
        process.stdin.flush()
    won = [int(process.communicate(timeout=60)[0]) for process in processes]
    assert sum(won) == 200
    blobs = PosixBlobs(tmp_path)
    written = [blobs.get(name) for name in blobs.list("race/")]
    assert [len(set(data or b"")) for data in written] == [1] * 200
    assert [written.count(who * 100_000) for who in (b"a", b"b", b"c")] == won


def test_a_publisher_that_is_killed_leaves_whole_blobs_and_its_temporary_is_cleaned(tmp_path: Path) -> None:
    seed = random.randrange(1 << 30)
    print("seed", seed)
    rng = random.Random(seed)
    for _ in range(4):
        child = subprocess.Popen([sys.executable, "-c", PUBLISH_FOREVER, str(tmp_path)], stdout=subprocess.PIPE)
        assert child.stdout is not None
        child.stdout.readline()
        time.sleep(rng.uniform(0.01, 0.1))
        child.send_signal(signal.SIGKILL)
        child.wait()
    blobs = PosixBlobs(tmp_path)
    names = blobs.list("blobs/")
    assert names == [f"blobs/{number:06d}" for number in range(len(names))]
    for number, name in enumerate(names):
        assert blobs.get(name) == bytes([number % 256]) * 300_000
    leftover = tmp_path / ".tmp" / f"{os.uname().nodename}.{child.pid}.9-abc"
    leftover.write_bytes(b"half")
    own = tmp_path / ".tmp" / f"{os.uname().nodename}.{os.getpid()}.9-abc"
    own.write_bytes(b"being written")
    blobs.put_if_absent("one", b"")
    assert not leftover.exists() and own.exists()


def test_a_full_disk_is_an_error_that_says_what_to_do_and_publishes_nothing(tmp_path: Path) -> None:
    blobs = PosixBlobs(tmp_path)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, hard))
    try:
        with pytest.raises(StateError) as raised:
            blobs.put_if_absent("big", b"x" * 100_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)
    assert raised.value.condition == "DISK_FULL" and "free space" in raised.value.message
    assert not blobs.exists("big") and list((tmp_path / ".tmp").iterdir()) == []
    assert blobs.put_if_absent("big", b"x" * 100_000)


def test_a_blob_store_travels_to_workers(tmp_path: Path) -> None:
    PosixBlobs(tmp_path).put_if_absent("a", b"1")
    assert pickle.loads(pickle.dumps(PosixBlobs(tmp_path, fsync=False))).get("a") == b"1"


@pytest.mark.parametrize("form", ["{0}", "file:{0}", "file://{0}", "file://localhost{0}"])
def test_paths_and_file_urls_open_the_same_store(tmp_path: Path, form: str) -> None:
    blobs = open_blobs(form.format(tmp_path / "with space"))
    assert isinstance(blobs, PosixBlobs) and blobs.root == tmp_path / "with space"


@pytest.mark.parametrize("url", ["s3://bucket/x", "hdfs://host/x", "gs://bucket", "file://otherhost/x"])
def test_other_storage_is_refused_with_what_is_supported(url: str) -> None:
    with pytest.raises(ConfigError) as raised:
        open_blobs(url)
    assert raised.value.condition == "UNSUPPORTED_STORAGE" and "local paths" in raised.value.message


def test_the_probe_passes_here_and_leaves_nothing(tmp_path: Path) -> None:
    blobs = PosixBlobs(tmp_path)
    probe_put_if_absent(blobs)
    assert blobs.list("probe/") == []


class Overwriting(PosixBlobs):
    def put_if_absent(self, name: str, data: bytes) -> bool:
        self.delete(name)
        return super().put_if_absent(name, data)


def test_the_probe_refuses_a_store_that_overwrites(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as raised:
        probe_put_if_absent(Overwriting(tmp_path))
    assert raised.value.condition == "PUBLISH_NOT_ATOMIC"
