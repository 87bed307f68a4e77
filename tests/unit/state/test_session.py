"""Session stores: reads, and what expires when."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.budget import examples

from hayase.core.errors import ConfigError
from hayase.core.records import Window, Windowed
from hayase.serde import Serdes
from hayase.state.environment.memory import MemoryState
from hayase.state.environment.overlay import OverlayStore
from hayase.state.stores.session import SessionStore
from hayase.state.stores.session_bytes import SessionBytes

MINUTE = 60_000
LATEST = 1 << 62
keys = st.sampled_from([b"", b"\x00", b"a", b"a\x00", b"a\x00b", b"a\xff", b"\x00\xff"])
sessions = st.tuples(st.integers(0, 12 * MINUTE), st.integers(0, 2 * MINUTE)).map(lambda s: (s[0], s[0] + s[1]))


def new_store() -> OverlayStore:
    return MemoryState().begin().task("0_0").store("s")


@dataclass
class Model:
    """Session stores as Kafka Streams' persistent ones are described, in the plainest way."""

    retention: int
    entries: dict[tuple[bytes, int, int], bytes] = field(default_factory=dict)
    observed: int = -1

    @property
    def interval(self) -> int:
        return max(self.retention // 2, MINUTE)

    def put(self, key: bytes, start: int, end: int, value: bytes | None) -> bool:
        self.observed = max(self.observed, end)
        if end // self.interval < (self.observed - self.retention) // self.interval:
            return False
        if value is None:
            self.entries.pop((key, start, end), None)
        else:
            self.entries[key, start, end] = value
        return True

    def find(self, earliest_end: int, latest_start: int) -> list[tuple[bytes, int, int, bytes]]:
        low = max(earliest_end, self.observed - self.retention + 1)
        found = [
            (*place, value) for place, value in self.entries.items() if place[2] >= low and place[1] <= latest_start
        ]
        return sorted(found, key=lambda entry: (entry[2] // self.interval, entry[0], entry[2], entry[1]))


writes = st.lists(st.tuples(keys, sessions, st.one_of(st.none(), st.binary(max_size=2))), max_size=30)


@given(st.sampled_from([1, MINUTE, 3 * MINUTE]), writes, st.lists(st.tuples(keys, sessions), max_size=5))
@settings(max_examples=examples(100), deadline=None)
def test_any_writes_leave_what_kafka_streams_would_show(
    retention: int,
    written: list[tuple[bytes, tuple[int, int], bytes | None]],
    asked: list[tuple[bytes, tuple[int, int]]],
) -> None:
    store, model = SessionBytes(new_store(), retention), Model(retention)
    for key, (start, end), value in written:
        assert store.put(key, start, end, value) == model.put(key, start, end, value)
    expected = model.find(0, LATEST)
    assert list(store.all()) == expected
    assert list(store.all(reverse=True)) == expected[::-1]
    for key, (low, high) in [*asked, *((key, session) for key, session, _ in written)]:
        among = model.find(low, high)
        assert list(store.find_keys(None, None, low, high)) == among
        assert list(store.find_keys(key, key, low, high, reverse=True)) == [e for e in among if e[0] == key][::-1]
        of_key = [(start, end, value) for other, start, end, value in among if other == key]
        assert list(store.find(key, low, high)) == of_key
        assert list(store.find(key, low, high, reverse=True)) == of_key[::-1]
        exact = [entry[3] for entry in expected if entry[:3] == (key, low, high)]
        assert store.get(key, low, high) == (exact[0] if exact else None)


@given(
    st.sampled_from([1, MINUTE, 3 * MINUTE]),
    writes,
    st.lists(st.tuples(keys, st.integers(-1, 12 * MINUTE)), max_size=5),
)
@settings(max_examples=examples(100), deadline=None)
def test_sessions_of_many_keys_are_found_at_once_those_that_are_hidden_since_now_among_them(
    retention: int,
    written: list[tuple[bytes, tuple[int, int], bytes | None]],
    asked: list[tuple[bytes, int]],
) -> None:
    store, model = SessionBytes(new_store(), retention), Model(retention)
    for key, (start, end), value in written:
        store.put(key, start, end, value)
        model.put(key, start, end, value)
    expected = [
        [
            (start, end, value)
            for (other, start, end), value in sorted(model.entries.items(), key=lambda entry: entry[0][:0:-1])
            if other == key and end >= max(earliest, model.observed - retention)
        ]
        for key, earliest in asked
    ]
    assert store.find_many([key for key, _ in asked], [earliest for _, earliest in asked]) == expected


def test_sessions_that_are_written_at_once_are_as_if_written_one_by_one() -> None:
    one, other = new_store(), new_store()
    places = [(b"a", 0, 5), (b"b", 0, 10 * MINUTE), (b"a", 9 * MINUTE, 9 * MINUTE)]
    for place in places:
        SessionBytes(one, MINUTE).put(*place, b"v")
    SessionBytes(other, MINUTE).put_many(places, [b"v"] * 3, 10 * MINUTE)
    assert list(one.range()) == list(other.range())
    assert SessionBytes(other, MINUTE).get_hidden_many(places) == [None, b"v", b"v"]


def test_a_session_that_ended_exactly_the_retention_ago_is_hidden_and_still_there() -> None:
    store = SessionBytes(new_store(), 100)
    store.put(b"a", 0, 50, b"v")
    store.put(b"b", 150, 150, b"w")
    assert list(store.find(b"a", 0, LATEST)) == []
    assert store.get(b"a", 0, 50) is None
    assert store.get_hidden(b"a", 0, 50) == b"v"


def test_expired_segments_are_gone_from_the_store() -> None:
    data = new_store()
    store = SessionBytes(data, MINUTE)
    for minute in range(50):
        store.put(b"a", minute * MINUTE, minute * MINUTE + 1, b"v")
    assert sum(1 for _ in data.range(None, b"\x80")) <= 3


@pytest.mark.parametrize("session", [(-1, 3), (4, 3)])
def test_a_session_that_begins_before_1970_or_after_its_end_is_refused(session: tuple[int, int]) -> None:
    with pytest.raises(ConfigError):
        SessionBytes(new_store(), MINUTE).put(b"a", *session, b"v")


def test_the_typed_store_reads_what_it_wrote() -> None:
    store = SessionStore(new_store(), Serdes.string(), Serdes.long(), retention_ms=1000)
    first, second = Windowed("a", Window(5, 8)), Windowed("a", Window(30, 31))
    store.put(first, 2), store.put(second, 3), store.put(Windowed("b", Window(6, 6)), 4)
    assert list(store.fetch("a")) == [(first, 2), (second, 3)]
    assert list(store.backward_fetch("a")) == [(second, 3), (first, 2)]
    assert list(store.find_sessions("a", 9, 40)) == [(second, 3)]
    assert [key.key for key, _ in store.fetch_range("b", None)] == ["b"]
    assert store.fetch_session("a", 5, 8) == 2
    store.remove(first)
    assert store.fetch_session("a", 5, 8) is None
