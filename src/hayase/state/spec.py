"""What a store is, as plain data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from hayase.serde.protocol import Serde

StoreKind = Literal["key_value", "timestamped_key_value", "window", "timestamped_window"]


@dataclass(frozen=True, slots=True)
class StoreSpec:
    """A state store of a topology.

    Attributes:
        name: unique in the topology; the name for interactive queries.
        kind: `timestamped_…` stores keep the timestamp of each value, as all stores of the DSL do.
        key_serde: of the key (of a window store: of the record key without its window).
        value_serde: of the value without its timestamp.
        retention_ms: window stores only: how long a window is kept after its start, measured in the store's own time.
        window_size_ms: window stores only.
        caching: updates of one key are forwarded once an epoch instead of one by one.
    """

    name: str
    kind: StoreKind
    key_serde: Serde[Any]
    value_serde: Serde[Any]
    retention_ms: int | None = None
    window_size_ms: int | None = None
    caching: bool = True

    @property
    def windowed(self) -> bool:
        """Whether keys carry a window."""
        return self.kind in ("window", "timestamped_window")

    @property
    def timestamped(self) -> bool:
        """Whether values carry a timestamp."""
        return self.kind in ("timestamped_key_value", "timestamped_window")
