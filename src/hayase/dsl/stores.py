"""`Stores`: stores that processors of yours use."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from hayase.core.errors import TopologyError
from hayase.core.names import check_name
from hayase.core.windows import to_ms
from hayase.dsl.options import check_serde
from hayase.serde.protocol import Serde
from hayase.state.spec import StoreKind, StoreSpec


class Stores:
    """Describes stores for `StreamsBuilder.add_state_store` and `Topology.add_state_store` (Kafka Streams' `Stores`).

    All are kept on disk, restored where they are lost, and can be queried while the application runs.

    Example:
        >>> from hayase import Serdes
        >>> Stores.key_value_store("seen", Serdes.string(), Serdes.long()).name
        'seen'
    """

    @staticmethod
    def key_value_store(name: str, key_serde: Serde[Any], value_serde: Serde[Any]) -> StoreSpec:
        """Keys and values, in order of the keys' bytes."""
        return _spec(name, "key_value", key_serde, value_serde)

    @staticmethod
    def timestamped_key_value_store(name: str, key_serde: Serde[Any], value_serde: Serde[Any]) -> StoreSpec:
        """As `key_value_store`, each value with a timestamp: it gives and takes `ValueAndTimestamp`."""
        return _spec(name, "timestamped_key_value", key_serde, value_serde)

    @staticmethod
    def window_store(
        name: str, key_serde: Serde[Any], value_serde: Serde[Any], *, window_size: timedelta, retention: timedelta
    ) -> StoreSpec:
        """Values by key and start of a window.

        Args:
            name: of the store.
            key_serde: of the keys.
            value_serde: of the values.
            window_size: length of the windows, for the end of a window in what is read.
            retention: how long a window can be read after its start, in the store's own time (the latest start written).

        Raises:
            TopologyError: the retention is shorter than a window.
        """
        return _windows("window", name, key_serde, value_serde, window_size, retention)

    @staticmethod
    def timestamped_window_store(
        name: str, key_serde: Serde[Any], value_serde: Serde[Any], *, window_size: timedelta, retention: timedelta
    ) -> StoreSpec:
        """As `window_store`, each value with a timestamp: it gives and takes `ValueAndTimestamp`."""
        return _windows("timestamped_window", name, key_serde, value_serde, window_size, retention)


def _windows(
    kind: StoreKind, name: str, key_serde: Serde[Any], value_serde: Serde[Any], size: timedelta, retention: timedelta
) -> StoreSpec:
    size_ms, retention_ms = to_ms("window_size", size, minimum_ms=1), to_ms("retention", retention, minimum_ms=1)
    if retention_ms < size_ms:
        raise TopologyError(
            "RETENTION_TOO_SHORT",
            f"the retention of store {name!r} is {retention_ms} ms; a window is {size_ms} ms long",
        )
    return _spec(name, kind, key_serde, value_serde, retention_ms, size_ms)


def _spec(
    name: str,
    kind: StoreKind,
    key_serde: Serde[Any],
    value_serde: Serde[Any],
    retention_ms: int | None = None,
    size_ms: int | None = None,
) -> StoreSpec:
    key, value = check_serde(key_serde, f"key_serde of {name!r}"), check_serde(value_serde, f"value_serde of {name!r}")
    if key is None or value is None:
        raise TopologyError("INVALID_SERDE", f"store {name!r} needs a key_serde and a value_serde")
    return StoreSpec(check_name(name), kind, key, value, retention_ms, size_ms, caching=False)
