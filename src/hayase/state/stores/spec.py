"""What a store is, as plain data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal

from hayase.serde.protocol import Serde


class StoreType(StrEnum):
    """Where a store is kept (Kafka Streams' `Materialized.StoreType`, KIP-591).

    PERSISTENT: on disk, in `state.dir`; what Kafka Streams keeps in RocksDB.
    IN_MEMORY: in memory, in `state.memory.dir`, for as long as the application runs; restored from its changelog at
        every start.
    """

    PERSISTENT = "persistent"
    IN_MEMORY = "in_memory"


StoreKind = Literal[
    "key_value", "timestamped_key_value", "window", "timestamped_window", "versioned_key_value", "session"
]

StoreInterface = Callable[[Any], Any]
"""Makes what the user works with from a store: of a class of the user's own, which type checkers do not see."""


@dataclass(frozen=True, slots=True)
class StoreSpec:
    """A state store of a topology.

    Attributes:
        name: unique in the topology; the name for interactive queries.
        kind: `timestamped_…` stores keep the timestamp of each value, as all stores of the DSL do.
        key_serde: of the key (of a window or session store: of the record key without its window).
        value_serde: of the value without its timestamp.
        retention_ms: how long a window is kept after its start, a session after its end, or what was in a versioned
            store, measured in the store's own time.
        window_size_ms: window stores only.
        caching: updates of one key are forwarded once an epoch instead of one by one.
        retain_duplicates: window stores only: every value that is put is kept, in order of arrival.
        segment_interval_ms: versioned stores only: what has expired is deleted by so much time at once; `None`: by
            default.
        ttl_ms: timestamped key-value stores only: how long a row is there after its timestamp, in the task's stream
            time.
        logging: whether it has a changelog, from which it is restored where it is lost.
        store_type: where it is kept; `None` until the settings say so.
        interface: of a custom store: makes what the user works with from the store; see `Stores.custom_store`.
        internal: an operator keeps it for itself, and Kafka Streams has none there: descriptions do not show it.
    """

    name: str
    kind: StoreKind
    key_serde: Serde
    value_serde: Serde
    retention_ms: int | None = None
    window_size_ms: int | None = None
    caching: bool = True
    logging: bool = True
    store_type: StoreType | None = None
    retain_duplicates: bool = False
    segment_interval_ms: int | None = None
    ttl_ms: int | None = None
    interface: StoreInterface | None = None
    internal: bool = False

    @property
    def in_memory(self) -> bool:
        """Whether it is kept in memory."""
        return self.store_type is StoreType.IN_MEMORY

    @property
    def windowed(self) -> bool:
        """Whether keys carry a window."""
        return self.kind in ("window", "timestamped_window", "session")

    @property
    def versioned(self) -> bool:
        """Whether it keeps what the values of its keys were."""
        return self.kind == "versioned_key_value"

    @property
    def timestamped(self) -> bool:
        """Whether values carry a timestamp."""
        return self.kind in ("timestamped_key_value", "timestamped_window")
