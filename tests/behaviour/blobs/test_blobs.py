"""Blobs are published once, whole, and by exactly one writer: on a file system and on an S3 store alike."""

from __future__ import annotations

import pickle
import random
import signal
import subprocess
import sys
import time
import uuid

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.budget import examples

from hayase.storage.blobs import BlobStore
from hayase.storage.open import open_blobs, probe_put_if_absent

RACES = 60
PUBLISH = f"""
import sys
from hayase.storage.open import open_blobs
blobs = open_blobs(sys.argv[1], fsync=False)
who = sys.argv[2].encode()
blobs.exists("warm")
print("ready", flush=True)
sys.stdin.read(1)
print(sum(blobs.put_if_absent(f"race/{{number}}", who * 20_000) for number in range({RACES})))
"""
PUBLISH_FOREVER = """
import sys
from hayase.storage.open import open_blobs
blobs = open_blobs(sys.argv[1], fsync=False)
number = len(blobs.list("blobs/"))
print("ready", flush=True)
while True:
    blobs.put_if_absent(f"blobs/{number:06d}", bytes([number % 256]) * 300_000)
    number += 1
"""


def test_a_blob_is_published_once_and_never_changes(blobs: BlobStore) -> None:
    assert blobs.get("a/b/c") is None and not blobs.exists("a/b/c") and blobs.size("a/b/c") is None
    assert blobs.put_if_absent("a/b/c", b"first")
    assert not blobs.put_if_absent("a/b/c", b"second")
    assert blobs.get("a/b/c") == b"first" and blobs.exists("a/b/c") and blobs.size("a/b/c") == 5


def test_a_deleted_blob_can_be_published_again(blobs: BlobStore) -> None:
    blobs.put_if_absent("a", b"1")
    blobs.delete("a")
    blobs.delete("a")
    assert blobs.put_if_absent("a", b"2") and blobs.get("a") == b"2"


def test_an_empty_blob_is_a_blob(blobs: BlobStore) -> None:
    assert blobs.put_if_absent("nothing", b"")
    assert blobs.get("nothing") == b"" and blobs.size("nothing") == 0 and not blobs.put_if_absent("nothing", b"")


@pytest.mark.long
def test_a_large_blob_comes_back_as_it_was(blobs: BlobStore) -> None:
    data = random.Random(7).randbytes(33 << 20)
    assert blobs.put_if_absent("large", data)
    assert blobs.size("large") == len(data) and blobs.get("large") == data


def test_a_folder_lists_its_blobs_sorted_and_not_those_below(blobs: BlobStore) -> None:
    for name in ("x/2", "x/10", "x/1", "x/deep/1", "y/1", "top"):
        blobs.put_if_absent(name, b"")
    assert blobs.list("x/") == ["x/1", "x/10", "x/2"]
    assert blobs.list("") == ["top"]
    assert blobs.list("absent/") == [] and blobs.list("top/") == []


def test_a_folder_is_deleted_with_all_below_and_nothing_beside(blobs: BlobStore) -> None:
    for name in ("x/1", "x/deep/er/1", "xy/1", "y/x/1"):
        blobs.put_if_absent(name, b"")
    blobs.delete_below("x/")
    blobs.delete_below("absent/")
    assert [blobs.exists(name) for name in ("x/1", "x/deep/er/1", "xy/1", "y/x/1")] == [False, False, True, True]


def test_a_store_is_empty_before_the_first_blob_and_after_the_last(blobs: BlobStore) -> None:
    assert blobs.is_empty()
    blobs.put_if_absent("deep/in/it", b"")
    assert not blobs.is_empty()
    blobs.tidy()
    assert blobs.exists("deep/in/it")
    blobs.delete_below("deep/")
    blobs.tidy()
    assert blobs.is_empty() and blobs.put_if_absent("again", b"")


@pytest.mark.parametrize("name", ["", "/etc/x", "a//b", "../a", "a/../../b", "./a", "a/"])
def test_a_name_that_leads_elsewhere_is_refused(blobs: BlobStore, name: str) -> None:
    for call in (lambda: blobs.put_if_absent(name, b""), lambda: blobs.get(name), lambda: blobs.delete(name)):
        with pytest.raises(ValueError, match="no name of a blob"):
            call()


@pytest.mark.parametrize("folder", ["", "/", "a", "../", "a//"])
def test_only_a_folder_is_deleted_as_one(blobs: BlobStore, folder: str) -> None:
    with pytest.raises(ValueError, match=r"of a blob|of blobs"):
        blobs.delete_below(folder)


@pytest.mark.long
def test_of_several_processes_one_wins_each_blob(url: str, blobs: BlobStore) -> None:
    processes = [
        subprocess.Popen([sys.executable, "-c", PUBLISH, url, who], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        for who in "abcd"
    ]
    for process in processes:
        assert process.stdout is not None and process.stdout.readline() == b"ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write(b"!")
        process.stdin.flush()
    won = [int(process.communicate(timeout=120)[0]) for process in processes]
    assert sum(won) == RACES
    written = [blobs.get(f"race/{number}") for number in range(RACES)]
    assert [written.count(who * 20_000) for who in (b"a", b"b", b"c", b"d")] == won


@pytest.mark.long
def test_a_publisher_that_is_killed_leaves_whole_blobs_only(url: str, blobs: BlobStore) -> None:
    seed = random.randrange(1 << 30)
    print("seed", seed)
    rng = random.Random(seed)
    for _ in range(4):
        child = subprocess.Popen([sys.executable, "-c", PUBLISH_FOREVER, url], stdout=subprocess.PIPE)
        assert child.stdout is not None
        child.stdout.readline()
        time.sleep(rng.uniform(0.01, 0.3))
        child.send_signal(signal.SIGKILL)
        child.wait()
    names = blobs.list("blobs/")
    assert names == [f"blobs/{number:06d}" for number in range(len(names))]
    for number, name in enumerate(names):
        assert blobs.get(name) == bytes([number % 256]) * 300_000


def test_a_store_travels_to_workers(blobs: BlobStore) -> None:
    blobs.put_if_absent("a", b"1")
    assert pickle.loads(pickle.dumps(blobs)).get("a") == b"1"


def test_the_probe_passes_and_leaves_nothing(blobs: BlobStore) -> None:
    probe_put_if_absent(blobs)
    probe_put_if_absent(blobs, exactly_once=False)
    assert blobs.list("probe/") == []


NAMES = st.sampled_from(["a", "b", "f/a", "f/b", "f/g/a", "h i/ü+%", "h i/z"])
STEPS = st.one_of(
    st.tuples(st.just("put"), NAMES, st.binary(max_size=40)),
    st.tuples(st.just("delete"), NAMES, st.just(b"")),
    st.tuples(st.just("delete_below"), st.sampled_from(["f/", "f/g/", "h i/"]), st.just(b"")),
)


@given(steps=st.lists(STEPS, max_size=12))
@settings(max_examples=examples(20), suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_store_behaves_like_a_dictionary_in_which_nothing_is_replaced(
    url: str, steps: list[tuple[str, str, bytes]]
) -> None:
    before, _, parameters = url.partition("?")
    blobs = open_blobs(f"{before}/{uuid.uuid4().hex}" + (f"?{parameters}" if parameters else ""), fsync=False)
    model: dict[str, bytes] = {}
    for step, name, data in steps:
        if step == "put":
            assert blobs.put_if_absent(name, data) == (name not in model)
            model.setdefault(name, data)
        elif step == "delete":
            blobs.delete(name)
            model.pop(name, None)
        else:
            blobs.delete_below(name)
            model = {each: value for each, value in model.items() if not each.startswith(name)}
    for folder in ("", "f/", "f/g/", "h i/"):
        inside = sorted(each for each in model if each.startswith(folder) and "/" not in each[len(folder) :])
        assert blobs.list(folder) == inside
    assert {name: blobs.get(name) for name in model} == model
