"""Blobs on a POSIX file system: published once, whole, and durable."""

from __future__ import annotations

import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.namespaces import UNSHARED, needs_namespaces

from hayase.core.errors import ConfigError, StateError
from hayase.storage.open import open_blobs, probe_put_if_absent
from hayase.storage.posix_blobs import PosixBlobs


def test_the_folder_of_temporaries_holds_no_blobs(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no name of a blob"):
        PosixBlobs(tmp_path).put_if_absent(".tmp/a", b"")


PUBLISHES_SLOWLY = """
import os, sys, time
from hayase.storage.posix_blobs import PosixBlobs
class Slow(PosixBlobs):
    def _write(self, *given):
        super()._write(*given)
        print("written", flush=True)
        sys.stdin.readline()
print(Slow(sys.argv[1], fsync=False).put_if_absent(sys.argv[2], b"whole"))
"""


def publishing(root: Path, name: str, *before: str) -> subprocess.Popen[str]:
    """A process that has written a temporary and waits for a line before it publishes it."""
    command = [*before, sys.executable, "-c", PUBLISHES_SLOWLY, str(root), name]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "written\n"
    return process


def test_temporaries_of_dead_processes_are_removed_and_those_of_the_living_are_not(tmp_path: Path) -> None:
    dead = publishing(tmp_path, "dead")
    dead.kill()
    dead.wait()
    living = publishing(tmp_path, "living")
    assert len(list((tmp_path / ".tmp").iterdir())) == 1, "the second has removed what the first left"
    PosixBlobs(tmp_path).put_if_absent("one", b"")
    assert living.communicate("\n")[0] == "True\n"
    assert PosixBlobs(tmp_path).get("living") == b"whole" and not list((tmp_path / ".tmp").iterdir())


@needs_namespaces
def test_processes_of_two_containers_publish_to_the_same_folder_whatever_ids_they_have(tmp_path: Path) -> None:
    first = publishing(
        tmp_path, "first", *UNSHARED, "sh", "-c", '"$@"; exit $?', "sh"
    )  # 2; the other has no such process
    second = publishing(tmp_path, "second", *UNSHARED)
    PosixBlobs(tmp_path).put_if_absent("third", b"")
    assert [process.communicate("\n")[0] for process in (first, second)] == ["True\n", "True\n"]
    assert PosixBlobs(tmp_path).list("") == ["first", "second", "third"]


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


@pytest.mark.parametrize("form", ["{0}", "file:{0}", "file://{0}", "file://localhost{0}"])
def test_paths_and_file_urls_open_the_same_store(tmp_path: Path, form: str) -> None:
    blobs = open_blobs(form.format(tmp_path / "with space"))
    assert isinstance(blobs, PosixBlobs) and blobs.root == tmp_path / "with space"


@pytest.mark.parametrize("url", ["hdfs://host/x", "gs://bucket", "file://otherhost/x"])
def test_other_storage_is_refused_with_what_is_supported(url: str) -> None:
    with pytest.raises(ConfigError) as raised:
        open_blobs(url)
    assert raised.value.condition == "UNSUPPORTED_STORAGE" and "local paths" in raised.value.message


def test_what_others_put_into_the_folder_is_kept_when_it_is_tidied(tmp_path: Path) -> None:
    blobs = PosixBlobs(tmp_path / "root")
    blobs.put_if_absent("a", b"")
    (tmp_path / "root" / "notes").mkdir()
    blobs.delete("a")
    blobs.tidy()
    assert (tmp_path / "root" / "notes").exists()
    (tmp_path / "root" / "notes").rmdir()
    blobs.tidy()
    assert not (tmp_path / "root").exists()


class Overwriting(PosixBlobs):
    def put_if_absent(self, name: str, data: bytes) -> bool:
        self.delete(name)
        return super().put_if_absent(name, data)


def test_the_probe_refuses_a_store_that_overwrites(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as raised:
        probe_put_if_absent(Overwriting(tmp_path))
    assert raised.value.condition == "PUBLISH_NOT_ATOMIC"
