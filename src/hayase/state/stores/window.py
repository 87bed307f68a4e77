"""Window stores with serdes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Generic, overload

from hayase.core.records import Windowed
from hayase.core.type_variables import K, V
from hayase.core.windows import window_from
from hayase.serde.protocol import Serde
from hayase.state.stores.protocol import ByteStore
from hayase.state.stores.values import (
    KeyValue,
    PlainValues,
    TimestampedValues,
    ValueAndTimestamp,
    ValueCodec,
    key_bytes,
)
from hayase.state.stores.window_bytes import WindowBytes, window_bytes


class ReadOnlyWindowStore(Generic[K, V]):
    """What queries see of a window store. Times are window starts, milliseconds (UTC), bounds are included.

    Windows that start at or before the store's own time (the greatest start ever written) less the retention are not
    seen. Iterators over several keys go by (segment of time, key bytes, start), as of the call; a segment spans half
    the retention, at least a minute.
    """

    def __init__(self, windows: WindowBytes, key_serde: Serde[K], values: ValueCodec[V], window_size_ms: int) -> None:
        self._windows = windows
        self._key_serde = key_serde
        self._values = values
        self._size_ms = window_size_ms

    @overload
    def fetch(self, key: K, time_from: int) -> V | None: ...
    @overload
    def fetch(self, key: K, time_from: int, time_to: int) -> Iterator[KeyValue[int, V]]: ...
    def fetch(self, key: K, time_from: int, time_to: int | None = None) -> V | Iterator[KeyValue[int, V]] | None:
        """The value of the window that starts at `time_from`; with `time_to`: starts and values between the two."""
        data = key_bytes(self._key_serde, key)
        if time_to is not None:
            return self._fetched(data, time_from, time_to, reverse=False)
        value = self._windows.get(data, time_from)
        return None if value is None else self._values.from_bytes(value)

    def backward_fetch(self, key: K, time_from: int, time_to: int) -> Iterator[KeyValue[int, V]]:
        """As `fetch` of several, from the latest to the earliest."""
        return self._fetched(key_bytes(self._key_serde, key), time_from, time_to, reverse=True)

    def fetch_range(
        self, key_from: K | None, key_to: K | None, time_from: int, time_to: int
    ) -> Iterator[KeyValue[Windowed[K], V]]:
        """Windows of the keys from `key_from` to `key_to`, both included; `None` is no bound."""
        return self._fetched_keys(key_from, key_to, time_from, time_to, reverse=False)

    def backward_fetch_range(
        self, key_from: K | None, key_to: K | None, time_from: int, time_to: int
    ) -> Iterator[KeyValue[Windowed[K], V]]:
        """As `fetch_range`, in reverse order."""
        return self._fetched_keys(key_from, key_to, time_from, time_to, reverse=True)

    def fetch_all(self, time_from: int, time_to: int) -> Iterator[KeyValue[Windowed[K], V]]:
        """Windows of all keys that start between the two."""
        return self._fetched_keys(None, None, time_from, time_to, reverse=False)

    def backward_fetch_all(self, time_from: int, time_to: int) -> Iterator[KeyValue[Windowed[K], V]]:
        """As `fetch_all`, in reverse order."""
        return self._fetched_keys(None, None, time_from, time_to, reverse=True)

    def all(self) -> Iterator[KeyValue[Windowed[K], V]]:
        """All windows."""
        return self._decoded(self._windows.all())

    def backward_all(self) -> Iterator[KeyValue[Windowed[K], V]]:
        """As `all`, in reverse order."""
        return self._decoded(self._windows.all(reverse=True))

    def _fetched(self, key: bytes, time_from: int, time_to: int, *, reverse: bool) -> Iterator[KeyValue[int, V]]:
        value_of = self._values.from_bytes
        windows = self._windows.fetch(key, time_from, time_to, reverse=reverse)
        return (KeyValue(start_ms, value_of(value)) for start_ms, value in windows)

    def _fetched_keys(
        self, key_from: K | None, key_to: K | None, time_from: int, time_to: int, *, reverse: bool
    ) -> Iterator[KeyValue[Windowed[K], V]]:
        first = None if key_from is None else key_bytes(self._key_serde, key_from)
        last = None if key_to is None else key_bytes(self._key_serde, key_to)
        return self._decoded(self._windows.fetch_keys(first, last, time_from, time_to, reverse=reverse))

    def _decoded(self, windows: Iterator[tuple[bytes, int, bytes]]) -> Iterator[KeyValue[Windowed[K], V]]:
        key_of, value_of, size_ms = self._key_serde.from_bytes, self._values.from_bytes, self._size_ms
        for key, start_ms, value in windows:
            yield KeyValue(Windowed(key_of(key), window_from(start_ms, size_ms)), value_of(value))


class _WritableWindowStore(ReadOnlyWindowStore[K, V]):
    def put(self, key: K, value: V | None, window_start: int) -> bool:
        """Write the window that starts at `window_start` (ms); `None` deletes.

        Returns:
            `False` if the write was ignored and counted because the window's segment has expired.
        """
        return self._windows.put(key_bytes(self._key_serde, key), window_start, self._values.to_bytes(value))


class WindowStore(_WritableWindowStore[K, V]):
    """A store of windows and values, read and written by one task.

    Args:
        store: where it is kept.
        key_serde: of the record key.
        value_serde: of the value.
        window_size_ms: length of a window.
        retention_ms: how long a window is kept after its start, in the store's own time.
        on_expired: called with the number of writes that were ignored.
        retain_duplicates: several values of one key and start are kept, in the order of arrival; none can be deleted.

    Example:
        >>> from hayase.serde.serdes import Serdes
        >>> from hayase.state.environment.memory import MemoryState
        >>> data = MemoryState().begin().task("0_0").store("counts")
        >>> store = WindowStore(data, Serdes.string(), Serdes.long(), window_size_ms=10, retention_ms=100)
        >>> store.put("a", 1, 0), store.put("a", 2, 10)
        (True, True)
        >>> list(store.fetch("a", 0, 10))
        [KeyValue(key=0, value=1), KeyValue(key=10, value=2)]
    """

    def __init__(
        self,
        store: ByteStore,
        key_serde: Serde[K],
        value_serde: Serde[V],
        *,
        window_size_ms: int,
        retention_ms: int,
        on_expired: Callable[[int], None] | None = None,
        retain_duplicates: bool = False,
    ) -> None:
        windows = window_bytes(store, retention_ms, on_expired, retain_duplicates=retain_duplicates)
        super().__init__(windows, key_serde, PlainValues(value_serde), window_size_ms)


class TimestampedWindowStore(_WritableWindowStore[K, ValueAndTimestamp[V]]):
    """As `WindowStore`, with the timestamp of the last update of each window."""

    def __init__(
        self,
        store: ByteStore,
        key_serde: Serde[K],
        value_serde: Serde[V],
        *,
        window_size_ms: int,
        retention_ms: int,
        on_expired: Callable[[int], None] | None = None,
        retain_duplicates: bool = False,
    ) -> None:
        windows = window_bytes(store, retention_ms, on_expired, retain_duplicates=retain_duplicates)
        super().__init__(windows, key_serde, TimestampedValues(value_serde), window_size_ms)
