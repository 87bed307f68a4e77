"""Key-value stores with serdes."""

from __future__ import annotations

import pytest

from hayase.core.errors import SerializationError
from hayase.serde.serdes import Serdes
from hayase.state.environment.memory import MemoryState
from hayase.state.stores.key_value import KeyValueStore, TimestampedKeyValueStore, behind_prefix
from hayase.state.stores.spec import StoreSpec
from hayase.state.stores.values import ValueAndTimestamp
from hayase.state.stores.views import open_read_only_view, open_view


def counts() -> KeyValueStore[str, int]:
    store = KeyValueStore(MemoryState().begin().task("0_0").store("counts"), Serdes.string(), Serdes.long())
    store.put_all([("b", 2), ("a", 1), ("c", 3), ("aa", 11)])
    return store


def test_what_was_put_is_found_until_it_is_deleted() -> None:
    store = counts()
    assert store.get("a") == 1 and store.get("x") is None
    assert store.delete("a") == 1 and store.delete("a") is None and store.get("a") is None
    store.put("b", None)
    assert store.get("b") is None


def test_put_if_absent_keeps_and_returns_what_is_there() -> None:
    store = counts()
    assert store.put_if_absent("a", 9) == 1 and store.get("a") == 1
    assert store.put_if_absent("x", 9) is None and store.get("x") == 9


def test_ranges_include_both_ends_and_go_in_order_of_bytes() -> None:
    store = counts()
    assert list(store.range("a", "b")) == [("a", 1), ("aa", 11), ("b", 2)]
    assert list(store.range(None, "a")) == [("a", 1)]
    assert list(store.range("b", None)) == [("b", 2), ("c", 3)]
    assert list(store.range("c", "a")) == []
    assert list(store.reverse_range("a", "b")) == [("b", 2), ("aa", 11), ("a", 1)]
    assert [key for key, _ in store.all()] == ["a", "aa", "b", "c"]
    assert [key for key, _ in store.reverse_all()] == ["c", "b", "aa", "a"]


def test_a_prefix_scan_finds_keys_that_begin_with_it() -> None:
    assert [key for key, _ in counts().prefix_scan("a", Serdes.string())] == ["a", "aa"]


@pytest.mark.parametrize(
    ("prefix", "end"), [(b"a", b"b"), (b"a\xff", b"b"), (b"\xff\xff", None), (b"", None), (b"\x00\xff\xff", b"\x01")]
)
def test_what_is_behind_a_prefix(prefix: bytes, end: bytes | None) -> None:
    assert behind_prefix(prefix) == end


def test_the_number_of_entries_counts_own_writes() -> None:
    store = counts()
    store.put("b", None)
    store.put("a", 5)
    assert store.approximate_num_entries() == 3


def test_a_null_key_is_refused() -> None:
    with pytest.raises(SerializationError) as raised:
        counts().get(None)  # type: ignore[arg-type]
    assert raised.value.condition == "NULL_KEY"


def test_timestamped_values_keep_their_timestamp() -> None:
    data = MemoryState().begin().task("0_0").store("counts")
    store = TimestampedKeyValueStore(data, Serdes.string(), Serdes.long())
    store.put("a", ValueAndTimestamp(1, 1_700_000_000_000))
    assert store.get("a") == (1, 1_700_000_000_000)
    assert data.get(b"a") == (1_700_000_000_000).to_bytes(8, "big") + (1).to_bytes(8, "big")
    data.put(b"short", b"1234567")
    with pytest.raises(SerializationError):
        store.get("short")


def test_a_query_may_leave_timestamps_out() -> None:
    spec = StoreSpec("counts", "timestamped_key_value", Serdes.string(), Serdes.long())
    data = MemoryState().begin().task("0_0").store("counts")
    view = open_view(spec, data)
    assert isinstance(view, TimestampedKeyValueStore)
    view.put("a", ValueAndTimestamp(1, 5))
    assert list(open_read_only_view(spec, data).all()) == [("a", ValueAndTimestamp(1, 5))]
    assert list(open_read_only_view(spec, data, with_timestamps=False).all()) == [("a", 1)]
