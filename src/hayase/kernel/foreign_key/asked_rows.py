"""What the left tasks of a foreign-key join have asked last for each key, in a store of their own.

An answer counts if it belongs to the last question. Which one that was is kept instead of computed from the left table:
there the row may be one that a cache has not passed on yet, and a serde, a function in front of the join or a new field
may give the same row other bytes than when it asked.

Whether a key has a result is kept, too, because questions of an inner join are silent where nothing seems to change:
about a row without a right row whose foreign key stays or is its first, and one that has none before and after. An
answer that says that the right row is gone is dropped if the left row has changed meanwhile. Together they would leave
a result that nothing removes. So a row with a result is answered at each of its updates:
docs/decisions/20261121-answers-through-a-topic.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from hayase.state.stores.protocol import ByteStore


class Asked(NamedTuple):
    """What is kept of a key.

    Attributes:
        digest: of the left row that asked last, `None`: it was deleted.
        has_result: whether the last answer that counted gave a result.
    """

    digest: bytes | None
    has_result: bool


class AskedRows:
    """What is kept of all keys; of a key that was deleted and has no result there is nothing.

    Args:
        store: has the bytes of left keys as keys.
    """

    def __init__(self, store: ByteStore) -> None:
        self._store = store

    def get(self, key: bytes) -> Asked | None:
        """What is kept of a key."""
        return _decoded(self._store.get(key))

    def put(self, key: bytes, asked: Asked) -> None:
        """Keep that of a key."""
        self._store.put(key, _encoded(asked))

    def get_many(self, keys: Sequence[bytes]) -> list[Asked | None]:
        """The same of several keys, in their order."""
        if not self._store.approximate_count():
            return [None] * len(keys)
        return list(map(_decoded, self._store.get_many(keys)))

    def put_many(self, keys: Sequence[bytes], asked: Sequence[Asked]) -> None:
        """Keep that of several keys, later ones winning."""
        last = dict(zip(keys, asked, strict=True))
        self._store.put_many(list(last), list(map(_encoded, last.values())))


def _decoded(data: bytes | None) -> Asked | None:
    return None if data is None else Asked(data[1:] or None, data[0] == 1)


def _encoded(asked: Asked) -> bytes | None:
    if asked.digest is None and not asked.has_result:
        return None
    return (b"\x01" if asked.has_result else b"\x00") + (asked.digest or b"")
