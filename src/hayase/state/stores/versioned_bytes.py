"""Versioned stores in bytes: how versions are laid out, and when they are forgotten."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import NamedTuple

from hayase.core.errors import StateError
from hayase.core.windows import LAST_MS
from hayase.state.stores.protocol import ByteStore
from hayase.state.stores.segmented import BEHIND_TIMES, terminated

NOT_PUT = -(2**63)
"""What `put` returns if a version is older than the history that is kept."""
LATEST = -1
"""What `put` returns if the version is now the latest of its key."""

_LONG = struct.Struct(">q")
_TIME = _LONG.size
_LATEST, _LATEST_END, _HISTORY, _DELETED, _OBSERVED_KEY = b"a", b"b", b"h", b"x", b"t"
_VALUE, _TOMBSTONE = b"\x01", b"\x00"


class Version(NamedTuple):
    """A version of a key: what was there from `timestamp_ms` until before `valid_to_ms`.

    Attributes:
        timestamp_ms: when it begins to be valid.
        value: `None`: the key was deleted.
        valid_to_ms: when the next version begins; `None`: there is none yet.
    """

    timestamp_ms: int
    value: bytes | None
    valid_to_ms: int | None


class _Found(NamedTuple):
    """Where a time is in the history of a key: the version that is valid then, and when the next one begins."""

    place: bytes | None
    version: Version | None
    next_ms: int


def segment_interval_ms(history_ms: int) -> int:
    """How much time one segment of the history spans.

    1/3 to 1/24 of it, the less the longer it is, as in Kafka Streams.
    """
    for longest_ms, share, least_ms in ((60_000, 3, 2_000), (300_000, 5, 20_000), (3_600_000, 12, 60_000)):
        if history_ms <= longest_ms:
            return max(history_ms // share, least_ms)
    return max(history_ms // 24, 300_000)


class VersionedBytes:
    """A versioned store of one task in bytes, during one epoch (KIP-889).

    The latest version of a key is kept, unless it is a delete; the others form its history. The store has a
    time of its own: the greatest timestamp ever written to it, whatever the key. Versions older than that time less the
    history are refused, and times before it can be asked for only where the latest version is older still.

    In the store: `a` + key → latest version; `h` + segment of the end + key + begin → a version of the history; `x` +
    segment + key → a delete that is the latest version, to be forgotten with that segment; `t` → the store's time.
    Whole segments are deleted once nothing in them can be asked for.

    Args:
        store: where it is kept.
        history_ms: how long what was is kept, in the store's time.
        interval_ms: of a segment; `None`: see `segment_interval_ms`.
        on_expired: called with the number of writes that were refused.
    """

    def __init__(
        self,
        store: ByteStore,
        history_ms: int,
        interval_ms: int | None = None,
        on_expired: Callable[[int], None] | None = None,
    ) -> None:
        self._store = store
        self._history_ms = history_ms
        self._interval_ms = interval_ms or segment_interval_ms(history_ms)
        self._on_expired = on_expired

    def get(self, key: bytes) -> Version | None:
        """The latest version, `None` if there is none or if it is a delete."""
        latest = self._latest(key)
        return None if latest is None or latest.value is None else latest

    def get_as_of(self, key: bytes, as_of_ms: int) -> Version | None:
        """The version that was valid at a time.

        `None` if there was none, if it is a delete, or if that time is forgotten.
        """
        latest = self._latest(key)
        if latest is not None and latest.timestamp_ms <= as_of_ms:
            return None if latest.value is None else latest
        if latest is None or as_of_ms < 0 or as_of_ms < self._kept_from_ms():
            return None
        valid = self._find(key, as_of_ms, latest.timestamp_ms).version
        return None if valid is None or valid.value is None else valid

    def between(self, key: bytes, from_ms: int, to_ms: int, *, reverse: bool = False) -> list[Version]:
        """The versions of a key that `get_as_of` gives for times from `from_ms` to `to_ms`, both included, by start."""
        latest = self._latest(key)
        if latest is None or from_ms > to_ms:
            return []
        valid_versions = []
        from_ms = max(from_ms, self._kept_from_ms(), 0)
        last = latest.timestamp_ms // self._interval_ms if from_ms <= to_ms else -1
        for segment in range(from_ms // self._interval_ms, last + 1):
            versions = self._versions_prefix(key, segment)
            for place, data in self._store.range(versions, versions + BEHIND_TIMES):
                version, end_ms = _version_of(place, data)
                if version.timestamp_ms <= to_ms and end_ms > from_ms:
                    valid_versions.append(version)
        if latest.timestamp_ms <= to_ms:
            valid_versions.append(latest)
        valid_versions = [version for version in valid_versions if version.value is not None]
        return valid_versions[::-1] if reverse else valid_versions

    def put(self, key: bytes, value: bytes | None, timestamp_ms: int) -> int:
        """Write a version, in place of one with the same timestamp; a value of `None` deletes from then on.

        Returns:
            When the next version begins; `LATEST` if there is none; `NOT_PUT` if it is older than the history.
        """
        if timestamp_ms < 0:
            raise StateError(
                "INVALID_TIMESTAMP", f"a version begins at {timestamp_ms} ms; timestamps of versions are not negative"
            )
        if timestamp_ms < self._kept_from_ms():
            if self._on_expired is not None:
                self._on_expired(1)
            return NOT_PUT
        self._observe(timestamp_ms)
        latest = self._latest(key)
        if latest is not None and timestamp_ms < latest.timestamp_ms:
            return self._insert(key, value, timestamp_ms, latest.timestamp_ms)
        if latest is not None:
            if latest.value is None:
                self._store.put(self._deleted_place(key, latest.timestamp_ms), None)
            if latest.timestamp_ms < timestamp_ms:
                self._put_old(key, latest.timestamp_ms, latest.value, timestamp_ms)
        self._store.put(_LATEST + key, _LONG.pack(timestamp_ms) + _marked(value))
        if value is None:
            self._store.put(self._deleted_place(key, timestamp_ms), _TOMBSTONE)
        return LATEST

    def delete(self, key: bytes, timestamp_ms: int) -> Version | None:
        """Delete from a time on; the version that was valid then. Nothing if that is older than the history."""
        existing = self.get_as_of(key, timestamp_ms) if timestamp_ms >= self._kept_from_ms() else None
        self.put(key, None, timestamp_ms)
        return existing

    def all(
        self, key_from: bytes | None = None, key_to: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, Version]]:
        """Keys from `key_from` to `key_to`, both included, and their latest versions; deleted keys are left out."""
        start = _LATEST + (key_from or b"")
        end = _LATEST_END if key_to is None else _LATEST + key_to + b"\x00"
        for place, data in self._store.range(start, end, reverse=reverse):
            version = _latest_of(data)
            if version.value is not None:
                yield place[1:], version

    def _latest(self, key: bytes) -> Version | None:
        data = self._store.get(_LATEST + key)
        return None if data is None else _latest_of(data)

    def _observed_ms(self) -> int:
        """Read again each time: there may be several views of one store."""
        data = self._store.get(_OBSERVED_KEY)
        return -1 if data is None else int(_LONG.unpack(data)[0])

    def _kept_from_ms(self) -> int:
        return self._observed_ms() - self._history_ms

    def _observe(self, timestamp_ms: int) -> None:
        before_ms = self._observed_ms()
        if timestamp_ms <= before_ms:
            return
        self._store.put(_OBSERVED_KEY, _LONG.pack(timestamp_ms))
        live = self._first_live_segment(timestamp_ms)
        if live > self._first_live_segment(before_ms):
            self._forget(live)

    def _first_live_segment(self, observed_ms: int) -> int:
        """The first with a time that can be asked for: a version is not valid any more at its end."""
        return max(observed_ms - self._history_ms + 1, 0) // self._interval_ms

    def _forget(self, live: int) -> None:
        self._store.delete_range(_HISTORY, _HISTORY + _LONG.pack(live))
        for place, _ in self._store.range(_DELETED, _DELETED + _LONG.pack(live)):
            self._store.put(place, None)
            self._store.put(_LATEST + place[1 + _TIME :], None)

    def _find(self, key: bytes, time_ms: int, latest_ms: int) -> _Found:
        """Where a time before the latest version is in the history.

        A version lies in the segment of its end, so the one that is valid at a time is in that time's segment or a
        later one, and versions that begin later are not in front of it.
        """
        behind = _LONG.pack(min(time_ms, LAST_MS - 1) + 1)
        for segment in range(time_ms // self._interval_ms, latest_ms // self._interval_ms + 1):
            versions = self._versions_prefix(key, segment)
            at = next(self._store.range(versions, versions + behind, reverse=True), None)
            if at is not None:
                version, end_ms = _version_of(*at)
                if end_ms > time_ms:
                    return _Found(at[0], version, end_ms)
            after = next(self._store.range(versions + behind, versions + BEHIND_TIMES), None)
            if after is not None:
                return _Found(None, None, _version_of(*after)[0].timestamp_ms)
        return _Found(None, None, latest_ms)

    def _insert(self, key: bytes, value: bytes | None, timestamp_ms: int, latest_ms: int) -> int:
        place, version, next_ms = self._find(key, timestamp_ms, latest_ms)
        if place is not None and version is not None:
            self._store.put(place, None)
            if version.timestamp_ms < timestamp_ms:
                self._put_old(key, version.timestamp_ms, version.value, timestamp_ms)
        self._put_old(key, timestamp_ms, value, next_ms)
        return next_ms

    def _put_old(self, key: bytes, timestamp_ms: int, value: bytes | None, valid_to_ms: int) -> None:
        """Write a version of the history, if its end is one that can still be asked for."""
        segment = valid_to_ms // self._interval_ms
        if segment >= self._first_live_segment(self._observed_ms()):
            place = self._versions_prefix(key, segment) + _LONG.pack(timestamp_ms)
            self._store.put(place, _LONG.pack(valid_to_ms) + _marked(value))

    def _versions_prefix(self, key: bytes, segment: int) -> bytes:
        return b"".join((_HISTORY, _LONG.pack(segment), terminated(key)))

    def _deleted_place(self, key: bytes, timestamp_ms: int) -> bytes:
        return _DELETED + _LONG.pack(timestamp_ms // self._interval_ms) + key


def _marked(value: bytes | None) -> bytes:
    return _TOMBSTONE if value is None else _VALUE + value


def _unmarked(data: bytes) -> bytes | None:
    return None if data[_TIME : _TIME + 1] == _TOMBSTONE else data[_TIME + 1 :]


def _latest_of(data: bytes) -> Version:
    return Version(_LONG.unpack_from(data)[0], _unmarked(data), None)


def _version_of(place: bytes, data: bytes) -> tuple[Version, int]:
    """A version of the history, and its end."""
    begin_ms, end_ms = _LONG.unpack_from(place, len(place) - _TIME)[0], _LONG.unpack_from(data)[0]
    return Version(begin_ms, _unmarked(data), end_ms), end_ms
