"""The keys that an inner foreign-key join has joined, of which the left tasks keep a store.

Subscriptions of an inner join are silent where nothing seems to change: a row without a right row whose foreign key
stays or is its first, and one that has none before and after. An answer that says that the right row is gone is dropped
if the left row has changed meanwhile. Together they would leave a result that nothing removes. So a left row that is
joined is answered at each of its updates: docs/decisions/20261121-answers-through-a-topic.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from hayase.state.stores.protocol import ByteStore

_JOINED: Final = b"\x01"


class JoinedKeys:
    """Left keys whose last answer, of those that were not out of date, had a right row.

    Args:
        store: has their bytes as keys.
    """

    def __init__(self, store: ByteStore) -> None:
        self._store = store

    def __contains__(self, key: bytes) -> bool:
        return self._store.get(key) is not None

    def set(self, key: bytes, *, joined: bool) -> None:
        """What the last answer says; written only if that is new."""
        if (key in self) != joined:
            self._store.put(key, _JOINED if joined else None)

    def among(self, keys: Sequence[bytes]) -> np.ndarray:
        """Which of the keys are joined."""
        if not self._store.approximate_count():
            return np.zeros(len(keys), np.bool_)
        return np.array([found is not None for found in self._store.get_many(keys)], np.bool_)

    def set_many(self, keys: Sequence[bytes], joined: Sequence[bool]) -> None:
        """The same as `set` of each, one after the other."""
        last = dict(zip(keys, joined, strict=True))
        before = self.among(list(last)).tolist()
        changed = {key: now for (key, now), was in zip(last.items(), before, strict=True) if now != was}
        if changed:
            self._store.put_many(list(changed), [_JOINED if now else None for now in changed.values()])
