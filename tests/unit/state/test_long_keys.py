"""Keys longer than LMDB takes are kept, found and ordered like all others."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from hayase.state.delta.delta import Delta
from hayase.state.environment.bundle import BundleState
from hayase.state.environment.layout import HEAD
from hayase.storage.lmdb_env import close_environment

# Short ones, ones that are just not too long, and many with the same head: in order of their digests these are
# shuffled.
HEADS = [b"m" * (HEAD - 1), b"m" * HEAD, b"m" * (HEAD - 1) + b"n"]
KEYS = sorted(
    {
        b"",
        b"a",
        b"z",
        *HEADS,
        *(head + tail for head in HEADS for tail in (b"\x00", b"a", b"a" * 600, b"ab", b"\xff", b"z")),
    }
)


@pytest.fixture
def state(tmp_path: Path) -> Iterator[BundleState]:
    state = BundleState(tmp_path / "s", application_id="app", checkpoint_id="l", bundle="b0")
    with state.begin() as epoch:
        shuffled = random.Random(1).sample(KEYS, len(KEYS))
        epoch.task("0_0").store("s").put_many(shuffled, shuffled)
        delta = Delta("app", "l", "b0", 0, "r", -1, "", epoch.changes())
    state.apply(delta)
    yield state
    state.close()
    close_environment(state.path)


def test_long_keys_are_found(state: BundleState) -> None:
    with state.begin() as epoch:
        store = epoch.task("0_0").store("s")
        assert store.get_many(KEYS) == KEYS
        assert [store.get(key) for key in KEYS] == KEYS
        assert store.get_many([HEADS[1] + b"b", HEADS[1] + b"a" * 599]) == [None, None]


def test_any_two_keys_bound_a_range_in_both_directions(state: BundleState) -> None:
    with state.begin() as epoch:
        store = epoch.task("0_0").store("s")
        for low, start in enumerate([*KEYS, None]):
            for high, end in enumerate([*KEYS, None]):
                expected = KEYS[0 if start is None else low : high]
                assert [key for key, _ in store.range(start, end)] == expected
                assert [key for key, _ in store.range(start, end, reverse=True)] == expected[::-1]


def test_many_ranges_are_what_each_of_them_is(state: BundleState) -> None:
    bounds = [(start, end) for start in KEYS for end in KEYS]
    with state.begin() as epoch:
        store = epoch.task("0_0").store("s")
        expected = [list(store.range(*each)) for each in bounds]
        assert store.ranges(bounds) == expected
        store.put(b"b", b"own write")
        expected = [list(store.range(*each)) for each in bounds]
        assert store.ranges(bounds) == expected


@pytest.mark.parametrize("start", range(0, len(KEYS), 2))
def test_a_range_between_long_keys_is_deleted_and_nothing_else(state: BundleState, start: int) -> None:
    end = start + 5
    with state.begin() as epoch:
        epoch.task("0_0").store("s").delete_range(KEYS[start], KEYS[end] if end < len(KEYS) else None)
        delta = Delta("app", "l", "b0", 1, "r", epoch.epoch, epoch.digest, epoch.changes())
    state.apply(delta)
    with state.begin() as epoch:
        store = epoch.task("0_0").store("s")
        assert [key for key, _ in store.range()] == KEYS[:start] + KEYS[end:]
        assert store.approximate_count() == len(KEYS[:start] + KEYS[end:])


def test_long_keys_are_deleted_one_by_one(state: BundleState) -> None:
    with state.begin() as epoch:
        epoch.task("0_0").store("s").put_many(KEYS[::2], [None] * len(KEYS[::2]))
        delta = Delta("app", "l", "b0", 1, "r", epoch.epoch, epoch.digest, epoch.changes())
    state.apply(delta)
    with state.begin() as epoch:
        assert [key for key, _ in epoch.task("0_0").store("s").range()] == KEYS[1::2]
