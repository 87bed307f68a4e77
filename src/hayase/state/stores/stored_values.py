"""The values in a store's bytes: which entries hold one, of which key, and where in the entry it is."""

from __future__ import annotations

from typing import NamedTuple

from hayase.state.stores.segmented import ESCAPED_ZERO
from hayase.state.stores.spec import StoreSpec

_TIME = 8
_BEHIND_SEGMENTS = 0x80
"""Times are not negative, so segments begin with a byte below.

Other entries of window and session stores with one from here on.
"""
_THERE = b"\x01"


class StoredValue(NamedTuple):
    """A value in an entry of a store.

    Attributes:
        key: bytes of the key, without window, session or version.
        before: what stands before the value in the entry.
        value: as the value's serde writes it.
    """

    key: bytes
    before: bytes
    value: bytes


def stored_value(spec: StoreSpec, key: bytes, data: bytes) -> StoredValue | None:
    """The value in an entry; `None` if it holds none: a time, an index, a delete that is remembered.

    Args:
        spec: of the store.
        key: of the entry.
        data: its value.
    """
    if spec.versioned:
        return _version(key, data)
    if spec.windowed:
        if not key or key[0] >= _BEHIND_SEGMENTS:
            return None
        # a segment of time, the key with a zero byte behind it, and one time (of a session two), perhaps a number
        tail = _TIME * (2 if spec.kind == "session" or spec.retain_duplicates else 1)
        own = key[_TIME : -tail - 1].replace(ESCAPED_ZERO, b"\x00")
        return _split(own, data, _TIME if spec.timestamped else 0)
    return _split(key, data, _TIME if spec.timestamped else 0)


def _version(key: bytes, data: bytes) -> StoredValue | None:
    latest = key[:1] == b"a"
    if not (latest or key[:1] == b"h") or data[_TIME : _TIME + 1] != _THERE:
        return None
    own = key[1:] if latest else key[1 + _TIME : -_TIME - 1].replace(ESCAPED_ZERO, b"\x00")
    return _split(own, data, _TIME + 1)


def _split(key: bytes, data: bytes, at: int) -> StoredValue:
    return StoredValue(key, data[:at], data[at:])
