"""Session stores with serdes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Generic

from hayase.core.records import Window, Windowed
from hayase.core.type_variables import K, V
from hayase.core.windows import LAST_MS
from hayase.serde.protocol import Serde
from hayase.state.stores.protocol import ByteStore
from hayase.state.stores.session_bytes import SessionBytes
from hayase.state.stores.values import KeyValue, PlainValues, ValueCodec, key_bytes


class ReadOnlySessionStore(Generic[K, V]):
    """What queries see of a session store. Times are milliseconds (UTC); bounds are included.

    Sessions that ended at or before the store's own time (the greatest end ever written) less the retention are not
    seen. Sessions of one key come by end, then start. Iterators over several keys go by (segment of the end, key bytes,
    end, start), as of the call; a segment spans half the retention, at least a minute.
    """

    def __init__(self, sessions: SessionBytes, key_serde: Serde[K], values: ValueCodec[V]) -> None:
        self._sessions = sessions
        self._key_serde = key_serde
        self._values = values

    def fetch_session(self, key: K, session_start: int, session_end: int) -> V | None:
        """The value of the session with exactly these bounds, `None` if there is none."""
        value = self._sessions.get(key_bytes(self._key_serde, key), session_start, session_end)
        return None if value is None else self._values.from_bytes(value)

    def fetch(self, key: K) -> Iterator[KeyValue[Windowed[K], V]]:
        """All sessions of a key."""
        return self.find_sessions(key, 0, LAST_MS)

    def backward_fetch(self, key: K) -> Iterator[KeyValue[Windowed[K], V]]:
        """As `fetch`, from the latest to the earliest."""
        return self.backward_find_sessions(key, 0, LAST_MS)

    def fetch_range(self, key_from: K | None, key_to: K | None) -> Iterator[KeyValue[Windowed[K], V]]:
        """All sessions of the keys from `key_from` to `key_to`, both included; `None` is no bound."""
        return self.find_sessions_range(key_from, key_to, 0, LAST_MS)

    def backward_fetch_range(self, key_from: K | None, key_to: K | None) -> Iterator[KeyValue[Windowed[K], V]]:
        """As `fetch_range`, in reverse order."""
        return self.backward_find_sessions_range(key_from, key_to, 0, LAST_MS)

    def find_sessions(
        self, key: K, earliest_session_end: int, latest_session_start: int
    ) -> Iterator[KeyValue[Windowed[K], V]]:
        """Sessions of a key that end at `earliest_session_end` or later and start at `latest_session_start` or earlier.

        That are the sessions which overlap the time between the two.
        """
        return self._found(key, earliest_session_end, latest_session_start, reverse=False)

    def backward_find_sessions(
        self, key: K, earliest_session_end: int, latest_session_start: int
    ) -> Iterator[KeyValue[Windowed[K], V]]:
        """As `find_sessions`, from the latest to the earliest."""
        return self._found(key, earliest_session_end, latest_session_start, reverse=True)

    def find_sessions_range(
        self, key_from: K | None, key_to: K | None, earliest_session_end: int, latest_session_start: int
    ) -> Iterator[KeyValue[Windowed[K], V]]:
        """As `find_sessions` of the keys from `key_from` to `key_to`, both included; `None` is no bound."""
        return self._found_keys(key_from, key_to, earliest_session_end, latest_session_start, reverse=False)

    def backward_find_sessions_range(
        self, key_from: K | None, key_to: K | None, earliest_session_end: int, latest_session_start: int
    ) -> Iterator[KeyValue[Windowed[K], V]]:
        """As `find_sessions_range`, in reverse order."""
        return self._found_keys(key_from, key_to, earliest_session_end, latest_session_start, reverse=True)

    def all(self) -> Iterator[KeyValue[Windowed[K], V]]:
        """All sessions."""
        return self.fetch_range(None, None)

    def backward_all(self) -> Iterator[KeyValue[Windowed[K], V]]:
        """As `all`, in reverse order."""
        return self.backward_fetch_range(None, None)

    def _found(
        self, key: K, earliest_end: int, latest_start: int, *, reverse: bool
    ) -> Iterator[KeyValue[Windowed[K], V]]:
        data, value_of = key_bytes(self._key_serde, key), self._values.from_bytes
        sessions = self._sessions.find(data, earliest_end, latest_start, reverse=reverse)
        return (
            KeyValue(Windowed(key, Window(start_ms, end_ms)), value_of(value)) for start_ms, end_ms, value in sessions
        )

    def _found_keys(
        self, key_from: K | None, key_to: K | None, earliest_end: int, latest_start: int, *, reverse: bool
    ) -> Iterator[KeyValue[Windowed[K], V]]:
        first = None if key_from is None else key_bytes(self._key_serde, key_from)
        last = None if key_to is None else key_bytes(self._key_serde, key_to)
        key_of, value_of = self._key_serde.from_bytes, self._values.from_bytes
        sessions = self._sessions.find_keys(first, last, earliest_end, latest_start, reverse=reverse)
        return (
            KeyValue(Windowed(key_of(key), Window(start_ms, end_ms)), value_of(value))
            for key, start_ms, end_ms, value in sessions
        )


class SessionStore(ReadOnlySessionStore[K, V]):
    """A store of sessions and values, read and written by one task.

    Args:
        store: where it is kept.
        key_serde: of the record key.
        value_serde: of the value.
        retention_ms: how long a session is kept after its end, in the store's own time.
        on_expired: called with the number of writes that were ignored.

    Example:
        >>> from hayase.serde.serdes import Serdes
        >>> from hayase.state.environment.memory import MemoryState
        >>> data = MemoryState().begin().task("0_0").store("visits")
        >>> store = SessionStore(data, Serdes.string(), Serdes.long(), retention_ms=100)
        >>> store.put(Windowed("a", Window(5, 8)), 2)
        True
        >>> store.fetch_session("a", 5, 8), list(store.fetch("b"))
        (2, [])
    """

    def __init__(
        self,
        store: ByteStore,
        key_serde: Serde[K],
        value_serde: Serde[V],
        *,
        retention_ms: int,
        on_expired: Callable[[int], None] | None = None,
    ) -> None:
        super().__init__(SessionBytes(store, retention_ms, on_expired), key_serde, PlainValues(value_serde))

    def put(self, session_key: Windowed[K], value: V | None) -> bool:
        """Write a session; `None` deletes.

        Returns:
            `False` if the write was ignored and counted because the session's segment has expired.
        """
        data = key_bytes(self._key_serde, session_key.key)
        return self._sessions.put(data, *session_key.window, self._values.to_bytes(value))

    def remove(self, session_key: Windowed[K]) -> bool:
        """Delete a session; see `put`."""
        return self.put(session_key, None)
