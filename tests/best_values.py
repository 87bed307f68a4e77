"""A custom store for tests: the two greatest values of each key, and a processor that offers it what comes."""

from __future__ import annotations

from typing import Any

from hayase import FixedKeyProcessor, FixedKeyRecord, Serdes, Stores
from hayase.state.stores.spec import StoreSpec


class Best:
    """The two greatest values of each key."""

    def __init__(self, store: Any) -> None:
        self._store = store

    def offer(self, key: str, value: int) -> None:
        """Take a value in, if it is great enough."""
        self._store.put(key, sorted([*self.of(key), value], reverse=True)[:2])

    def of(self, key: str) -> list[int]:
        """The greatest first."""
        return self._store.get(key) or []


class Offer(FixedKeyProcessor[str, Any, Any]):
    """Sends the greatest values of a key after each of its records."""

    def init(self, context: Any) -> None:
        self.context, self.best = context, context.get_state_store("best")

    def process(self, record: FixedKeyRecord[str, Any]) -> None:
        self.best.offer(record.key, record.value)
        self.context.forward(record.with_value(self.best.of(record.key)))


def best() -> StoreSpec:
    """The store, over one of keys and values."""
    return Stores.custom_store(Best, Stores.key_value_store("best", Serdes.string(), Serdes.json()))
