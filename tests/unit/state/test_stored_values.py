"""The values in a store's bytes are found in every kind of store, and nothing else is taken for one."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from hayase import Serdes, Stores, ValueAndTimestamp
from hayase.core.records import Window, Windowed
from hayase.kernel.window.window_close import WaitingResults
from hayase.state.environment.memory import MemoryState
from hayase.state.stores.protocol import ByteStore
from hayase.state.stores.spec import StoreSpec
from hayase.state.stores.stored_values import stored_value
from hayase.state.stores.views import open_view
from hayase.state.stores.window_bytes import window_bytes

TEXT = Serdes.string()
HOUR = timedelta(hours=1)
KEYS = ["a", "a\x00b", ""]
SPECS = {
    "key-value": Stores.key_value_store("s", TEXT, TEXT),
    "timestamped": Stores.timestamped_key_value_store("s", TEXT, TEXT),
    "window": Stores.window_store("s", TEXT, TEXT, window_size=HOUR, retention=HOUR),
    "timestamped window": Stores.timestamped_window_store("s", TEXT, TEXT, window_size=HOUR, retention=HOUR),
    "session": Stores.session_store("s", TEXT, TEXT, retention=HOUR),
    "versioned": Stores.versioned_key_value_store("s", TEXT, TEXT, history_retention=HOUR),
}
PUT: dict[str, Callable[[Any, str, str, int], Any]] = {
    "key-value": lambda store, key, value, _: store.put(key, value),
    "timestamped": lambda store, key, value, time: store.put(key, ValueAndTimestamp(value, time)),
    "window": lambda store, key, value, time: store.put(key, value, time),
    "timestamped window": lambda store, key, value, time: store.put(key, ValueAndTimestamp(value, time), time),
    "session": lambda store, key, value, time: store.put(Windowed(key, Window(time, time + 5)), value),
    "versioned": lambda store, key, value, time: store.put(key, value, time),
}


def values_in(spec: StoreSpec, data: ByteStore) -> list[tuple[bytes, bytes]]:
    found = []
    for key, entry in data.range():
        stored = stored_value(spec, key, entry)
        if stored is not None:
            assert stored.before + stored.value == entry
            found.append((stored.key, stored.value))
    return sorted(found)


@pytest.mark.parametrize("kind", SPECS)
def test_every_value_is_found_with_its_key(kind: str) -> None:
    spec = SPECS[kind]
    data = MemoryState().begin().task("0_0").store("s")
    view = open_view(spec, data)
    for at, key in enumerate(KEYS):
        PUT[kind](view, key, f"value of {key}", 1_000 + at)
    assert values_in(spec, data) == sorted((key.encode(), f"value of {key}".encode()) for key in KEYS)


def test_of_versions_all_are_values_but_deletes() -> None:
    spec = SPECS["versioned"]
    data = MemoryState().begin().task("0_0").store("s")
    view: Any = open_view(spec, data)
    for time, value in ((1, "x"), (2, "y"), (3, None), (4, "z")):
        view.put("a\x00b", value, time)
    view.put("gone", "v", 1)
    view.put("gone", None, 2)
    assert values_in(spec, data) == [(b"a\x00b", each) for each in (b"x", b"y", b"z")] + [(b"gone", b"v")]


def test_windows_with_duplicates_and_what_waits_for_its_close_are_told_apart() -> None:
    spec = SPECS["window"]
    spec = type(spec)("s", "window", TEXT, TEXT, 3_600_000, 3_600_000, retain_duplicates=True)
    data = MemoryState().begin().task("0_0").store("s")
    windows = window_bytes(data, 3_600_000, retain_duplicates=True)
    for value in (b"1", b"2"):
        windows.put(b"a\x00", 60_000, value)
    waiting = WaitingResults(data, 2)
    waiting.put_many([waiting.entry((5, 6), b"k")], [b""])
    assert values_in(spec, data) == [(b"a\x00", b"1"), (b"a\x00", b"2")]
