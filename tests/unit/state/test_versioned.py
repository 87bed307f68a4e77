"""Versioned stores: what was valid when, what is refused, and what is forgotten."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.budget import examples

from hayase.core.errors import StateError
from hayase.serde.serdes import Serdes
from hayase.state.environment.memory import MemoryState
from hayase.state.environment.overlay import OverlayStore
from hayase.state.stores.versioned import VersionedKeyValueStore, VersionedRecord
from hayase.state.stores.versioned_bytes import LATEST, NOT_PUT, Version, VersionedBytes, segment_interval_ms

keys = st.sampled_from([b"", b"\x00", b"a", b"a\x00", b"a\x00b", b"a\xff", b"k" * 600, b"k" * 600 + b"\x00"])
values = st.none() | st.binary(max_size=2)


def new_store() -> OverlayStore:
    return MemoryState().begin().task("0_0").store("v")


@dataclass
class Model:
    """A versioned store as KIP-889 describes it, in the plainest way: nothing is ever deleted."""

    history: int
    versions: dict[bytes, dict[int, bytes | None]] = field(default_factory=dict)
    observed: int = -1

    def put(self, key: bytes, value: bytes | None, time: int) -> int:
        if time < self.observed - self.history:
            return NOT_PUT
        self.observed = max(self.observed, time)
        self.versions.setdefault(key, {})[time] = value
        return self._next(key, time) or LATEST

    def get(self, key: bytes) -> Version | None:
        times = self.versions.get(key)
        return self._version(key, max(times)) if times else None

    def get_as_of(self, key: bytes, as_of: int) -> Version | None:
        times = self.versions.get(key, {})
        if times and max(times) > as_of and as_of < self.observed - self.history:
            return None
        return self._version(key, max((time for time in times if time <= as_of), default=-1))

    def _version(self, key: bytes, time: int) -> Version | None:
        value = self.versions[key].get(time) if time >= 0 else None
        return None if value is None else Version(time, value, self._next(key, time))

    def _next(self, key: bytes, time: int) -> int | None:
        return min((each for each in self.versions[key] if each > time), default=None)


writes = st.lists(st.tuples(keys, values, st.integers(0, 60) | st.integers(0, 400)), max_size=40)
intervals = st.sampled_from([1, 7, 50, None])


@given(st.sampled_from([0, 20, 100]), intervals, writes, st.lists(st.tuples(keys, st.integers(-1, 420)), max_size=10))
@settings(max_examples=examples(300), deadline=None)
def test_any_writes_leave_the_versions_that_the_model_has(
    history: int,
    interval: int | None,
    written: list[tuple[bytes, bytes | None, int]],
    asked: list[tuple[bytes, int]],
) -> None:
    versions, model = VersionedBytes(new_store(), history, interval), Model(history)
    for key, value, time in written:
        assert versions.put(key, value, time) == model.put(key, value, time)
    for key in {key for key, _, _ in written} | {key for key, _ in asked}:
        assert versions.get(key) == model.get(key)
        for time in {time + by for _, _, time in written for by in (-1, 0, 1)}:
            assert versions.get_as_of(key, time) == model.get_as_of(key, time)
    for key, time in asked:
        assert versions.get_as_of(key, time) == model.get_as_of(key, time)
    latest = [(key, found) for key in sorted(model.versions) if (found := model.get(key)) is not None]
    assert list(versions.all()) == latest
    assert list(versions.all(reverse=True)) == latest[::-1]


spans = st.tuples(st.integers(-1, 420), st.integers(-1, 420))


@given(st.sampled_from([0, 20, 100]), intervals, writes, st.lists(spans, max_size=5))
@settings(max_examples=examples(200), deadline=None)
def test_the_versions_of_a_span_are_those_of_all_its_times_each_once(
    history: int, interval: int | None, written: list[tuple[bytes, bytes | None, int]], asked: list[tuple[int, int]]
) -> None:
    versions, model = VersionedBytes(new_store(), history, interval), Model(history)
    for key, value, time in written:
        versions.put(key, value, time)
        model.put(key, value, time)
    for key in {b"none"} | {key for key, _, _ in written}:
        for first, last in asked:
            at_times = (model.get_as_of(key, time) for time in range(first, last + 1))
            expected = list(dict.fromkeys(found for found in at_times if found is not None))
            assert versions.between(key, first, last) == expected
            assert versions.between(key, first, last, reverse=True) == expected[::-1]


@given(st.sampled_from([20, 100]), intervals, writes)
@settings(max_examples=examples(100), deadline=None)
def test_when_all_history_is_over_only_the_latest_versions_are_left(
    history: int, interval: int | None, written: list[tuple[bytes, bytes | None, int]]
) -> None:
    store, model = new_store(), Model(history)
    versions = VersionedBytes(store, history, interval)
    for key, value, time in [*written, (b"last", b"v", 100_000)]:
        versions.put(key, value, time)
        model.put(key, value, time)
    alive = [key for key in model.versions if model.get(key) is not None]
    assert sum(1 for _ in store.range()) == len(alive) + 1  # and the store's time


def test_a_delete_gives_what_was_valid_then_and_ends_it() -> None:
    store = VersionedKeyValueStore(new_store(), Serdes.string(), Serdes.long(), history_ms=100)
    store.put("a", 1, 10)
    store.put("a", 3, 30)
    assert store.delete("a", 20) == VersionedRecord(1, 10, 30)
    assert [store.get("a", time) for time in (19, 20, 29)] == [VersionedRecord(1, 10, 20), None, None]
    assert store.get("a") == VersionedRecord(3, 30)
    assert store.delete("a", 40) == VersionedRecord(3, 30)
    assert store.get("a") is None
    assert list(store.all()) == []


def test_what_is_older_than_the_history_is_refused_and_counted_whatever_its_key() -> None:
    refused: list[int] = []
    store = VersionedKeyValueStore(
        new_store(), Serdes.string(), Serdes.long(), history_ms=50, on_expired=refused.append
    )
    store.put("a", 1, 100)
    assert store.put("b", 2, 49) == VersionedKeyValueStore.PUT_RETURN_CODE_NOT_PUT
    assert store.delete("a", 49) is None
    assert store.put("b", 2, 50) == VersionedKeyValueStore.PUT_RETURN_CODE_VALID_TO_UNDEFINED
    assert refused == [1, 1]


def test_versions_begin_at_zero_or_later() -> None:
    with pytest.raises(StateError, match="not negative"):
        VersionedBytes(new_store(), 50).put(b"a", b"v", -1)


def test_ranges_hold_the_latest_versions_from_key_to_key() -> None:
    store = VersionedKeyValueStore(new_store(), Serdes.string(), Serdes.long(), history_ms=50)
    for number, key in enumerate("abcd"):
        store.put(key, number, number)
    assert [key for key, _ in store.range("b", "c")] == ["b", "c"]
    assert [record.value for _, record in store.reverse_range("b", None)] == [3, 2, 1]
    assert [key for key, _ in store.reverse_all()] == list("dcba")


@pytest.mark.parametrize(
    ("history_ms", "interval_ms"),
    [(1_000, 2_000), (60_000, 20_000), (300_000, 60_000), (3_600_000, 300_000), (86_400_000, 3_600_000)],
)
def test_a_segment_is_the_shorter_a_part_of_the_history_the_longer_that_is(history_ms: int, interval_ms: int) -> None:
    assert segment_interval_ms(history_ms) == interval_ms
