"""Window stores: layout, reads, and what expires when."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.budget import examples

from hayase.core.errors import ConfigError
from hayase.core.records import Window, Windowed
from hayase.serde.serdes import Serdes
from hayase.state.environment.memory import MemoryState
from hayase.state.environment.overlay import OverlayStore
from hayase.state.stores.values import ValueAndTimestamp
from hayase.state.stores.window import TimestampedWindowStore, WindowStore
from hayase.state.stores.window_bytes import (
    DuplicateWindowBytes,
    WindowBytes,
    decode_window_key,
    encode_window_key,
    encode_window_keys,
)

MINUTE = 60_000
keys = st.one_of(
    st.binary(max_size=3), st.sampled_from([b"", b"\x00", b"a", b"a\x00", b"a\x00b", b"a\xff", b"\x00\xff"])
)
starts = st.integers(0, 12 * MINUTE)


def new_store() -> OverlayStore:
    return MemoryState().begin().task("0_0").store("w")


@dataclass
class Model:
    """Window stores as Kafka Streams' persistent ones are described, in the plainest way."""

    retention: int
    entries: dict[tuple[bytes, int], bytes] = field(default_factory=dict)
    observed: int = -1

    @property
    def interval(self) -> int:
        return max(self.retention // 2, MINUTE)

    def put(self, key: bytes, start: int, value: bytes | None) -> bool:
        self.observed = max(self.observed, start)
        if start // self.interval < (self.observed - self.retention) // self.interval:
            return False
        if value is None:
            self.entries.pop((key, start), None)
        else:
            self.entries[key, start] = value
        return True

    def visible(self, low: int, high: int) -> list[tuple[bytes, int, bytes]]:
        low = max(low, self.observed - self.retention + 1)
        found = [(key, start, value) for (key, start), value in self.entries.items() if low <= start <= high]
        return sorted(found, key=lambda entry: (entry[1] // self.interval, entry[0], entry[1]))


writes = st.lists(st.tuples(keys, starts, st.one_of(st.none(), st.binary(max_size=2))), max_size=30)


@given(st.sampled_from([1, MINUTE, 3 * MINUTE]), writes, st.lists(st.tuples(keys, starts, starts), max_size=5))
@settings(max_examples=examples(150), deadline=None)
def test_any_writes_leave_what_kafka_streams_would_show(
    retention: int,
    written: list[tuple[bytes, int, bytes | None]],
    asked: list[tuple[bytes, int, int]],
) -> None:
    windows, model = WindowBytes(new_store(), retention), Model(retention)
    for key, start, value in written:
        assert windows.put(key, start, value) == model.put(key, start, value)
    assert windows.observed_ms == model.observed
    expected = model.visible(0, 1 << 62)
    assert list(windows.all()) == expected
    assert list(windows.all(reverse=True)) == expected[::-1]
    for key, one, other in [*asked, *((key, start, start) for key, start, _ in written)]:
        low, high = min(one, other), max(one, other)
        among = model.visible(low, high)
        assert list(windows.fetch_keys(None, None, low, high)) == among
        assert list(windows.fetch_keys(None, None, low, high, reverse=True)) == among[::-1]
        for last in (key, key + b"\x00"):
            assert list(windows.fetch_keys(key, last, low, high)) == [
                entry for entry in among if key <= entry[0] <= last
            ]
        of_key = sorted((start, value) for other_key, start, value in among if other_key == key)
        assert list(windows.fetch(key, low, high)) == of_key
        assert list(windows.fetch(key, low, high, reverse=True)) == of_key[::-1]
        exact = [value for start, value in of_key if start == low]
        assert windows.get(key, low) == (exact[0] if exact else None)


@given(st.sampled_from([1, MINUTE, 3 * MINUTE]), writes, st.integers(0, 30))
@settings(max_examples=examples(100), deadline=None)
def test_many_at_once_are_the_same_as_one_by_one(
    retention: int, written: list[tuple[bytes, int, bytes | None]], cut: int
) -> None:
    ignored: list[int] = []
    one, many = WindowBytes(new_store(), retention), WindowBytes(new_store(), retention, ignored.append)
    accepted: list[bool] = []
    for part in (written[:cut], written[cut:]):
        places = many.places([w[0] for w in part], np.array([w[1] for w in part], np.int64))
        several = many.put_many(places, [w[2] for w in part])
        assert several.tolist() == [one.put(*write) for write in part]
        accepted += several.tolist()
    assert list(many.all()) == list(one.all())
    assert sum(ignored) == accepted.count(False)
    some = [write[0] for write in written], np.array([write[1] for write in written], np.int64)
    assert many.get_many(many.places(*some)) == [one.get(write[0], write[1]) for write in written]


@given(st.lists(st.tuples(keys, starts), max_size=20))
def test_the_order_of_stored_keys_is_that_of_segment_key_and_start(windows: list[tuple[bytes, int]]) -> None:
    encoded = encode_window_keys([key for key, _ in windows], np.array([at for _, at in windows], np.int64), MINUTE)
    assert encoded == [encode_window_key(key, start, MINUTE) for key, start in windows]
    assert [decode_window_key(data) for data in encoded] == windows
    by_meaning = sorted(windows, key=lambda window: (window[1] // MINUTE, window[0], window[1]))
    assert [decode_window_key(data) for data in sorted(encoded)] == by_meaning


def test_a_range_of_keys_ends_at_its_last_key_even_if_others_begin_with_it() -> None:
    windows = WindowBytes(new_store(), MINUTE)
    some = [b"a", b"a\x00", b"a\x00\xff", b"a\x01", b"ab"]
    for key in some:
        windows.put(key, 5, b"v")
    for first, low in enumerate(some):
        for last, high in enumerate(some):
            found = [key for key, _, _ in windows.fetch_keys(low, high, 0, 9)]
            assert found == some[first : last + 1]


def test_the_stores_own_time_survives_the_epoch() -> None:
    data = new_store()
    WindowBytes(data, MINUTE).put(b"a", 10 * MINUTE, b"v")
    again = WindowBytes(data, MINUTE)
    assert again.observed_ms == 10 * MINUTE
    assert not again.put(b"late", 0, b"v")


def test_a_window_is_hidden_when_time_has_passed_its_start_by_the_retention() -> None:
    windows = WindowBytes(new_store(), 100)
    windows.put(b"a", 0, b"v")
    windows.put(b"b", 99, b"v")
    assert windows.get(b"a", 0) == b"v"
    windows.put(b"b", 100, b"v")
    assert windows.get(b"a", 0) is None


def test_expired_segments_are_gone_from_the_store() -> None:
    data = new_store()
    windows = WindowBytes(data, MINUTE)
    for minute in range(50):
        windows.put(b"a", minute * MINUTE, b"v")
    assert sum(1 for _ in data.range(None, b"\x80")) <= 3


def test_a_negative_start_is_refused() -> None:
    with pytest.raises(ConfigError):
        WindowBytes(new_store(), MINUTE).put(b"a", -1, b"v")


def test_views_speak_in_keys_windows_and_values() -> None:
    store = WindowStore(new_store(), Serdes.string(), Serdes.long(), window_size_ms=10, retention_ms=1000)
    for key, value, start in (("a", 1, 0), ("b", 2, 0), ("a", 3, 10)):
        assert store.put(key, value, start)
    assert store.fetch("a", 10) == 3 and store.fetch("a", 5) is None
    assert list(store.fetch("a", 0, 10)) == [(0, 1), (10, 3)]
    assert list(store.backward_fetch("a", 0, 10)) == [(10, 3), (0, 1)]
    first, second, third = (
        (Windowed("a", Window(0, 10)), 1),
        (Windowed("a", Window(10, 20)), 3),
        (Windowed("b", Window(0, 10)), 2),
    )
    assert list(store.all()) == [first, second, third]
    assert list(store.backward_all()) == [third, second, first]
    assert list(store.fetch_all(0, 9)) == [first, third]
    assert list(store.backward_fetch_all(0, 9)) == [third, first]
    assert list(store.fetch_range("b", None, 0, 10)) == [third]
    assert list(store.backward_fetch_range("a", "a", 0, 10)) == [second, first]
    store.put("a", None, 0)
    assert store.fetch("a", 0) is None


def test_timestamped_windows_keep_the_timestamp_of_their_last_update() -> None:
    store = TimestampedWindowStore(new_store(), Serdes.string(), Serdes.long(), window_size_ms=10, retention_ms=1000)
    store.put("a", ValueAndTimestamp(1, 7), 0)
    assert list(store.all()) == [(Windowed("a", Window(0, 10)), ValueAndTimestamp(1, 7))]


def test_a_store_that_retains_duplicates_keeps_values_in_the_order_of_arrival_and_deletes_none():
    data = new_store()
    windows = DuplicateWindowBytes(data, MINUTE)
    places = windows.places([b"a", b"b", b"a"], np.array([5, 5, 4], np.int64))
    assert windows.put(b"a", 5, b"first")
    assert windows.put_many(places, [b"second", b"other", b"earlier"]).tolist() == [True, True, True]
    assert windows.put(b"a", 5, None)
    again = DuplicateWindowBytes(data, MINUTE)
    assert again.put(b"a", 5, b"third")
    assert list(again.fetch(b"a", 0, 9)) == [(4, b"earlier"), (5, b"first"), (5, b"second"), (5, b"third")]
    assert [(key, start) for key, start, _ in again.all()] == [(b"a", 4), *[(b"a", 5)] * 3, (b"b", 5)]
    assert again.get_many(places) == [b"first", b"other", b"earlier"]


def test_a_store_that_retains_duplicates_refuses_what_has_expired():
    ignored = []
    windows = DuplicateWindowBytes(new_store(), MINUTE, ignored.append)
    windows.put(b"a", 10 * MINUTE, b"v")
    assert not windows.put(b"a", 5, b"late")
    assert ignored == [1]
