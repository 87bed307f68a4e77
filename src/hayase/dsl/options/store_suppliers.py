"""Descriptions of stores that operations make, with serdes of their own."""

from __future__ import annotations

from dataclasses import dataclass

from hayase.core.errors import TopologyError


@dataclass(frozen=True, slots=True)
class WindowStoreSupplier:
    """A window store that an operation makes: see `Stores.persistent_window_store`."""

    name: str
    retention_ms: int
    window_size_ms: int
    retain_duplicates: bool


@dataclass(frozen=True, slots=True)
class VersionedStoreSupplier:
    """A versioned store that a table is kept in: see `Stores.persistent_versioned_key_value_store`."""

    name: str
    history_ms: int
    segment_interval_ms: int | None


def check_supplier(supplier: WindowStoreSupplier) -> WindowStoreSupplier:
    """The supplier, if it is one that a join of streams can use.

    Raises:
        TopologyError: `INVALID_STORE`.
    """
    if not isinstance(supplier, WindowStoreSupplier) or not supplier.retain_duplicates:
        raise TopologyError(
            "INVALID_STORE",
            f"a join of streams needs a window store that keeps duplicates, not {supplier!r}; make one by "
            "Stores.persistent_window_store(…, retain_duplicates=True)",
        )
    return supplier


def ttl_not_possible(name: str, reason: str) -> TopologyError:
    """The error of a store that cannot have a time to live."""
    return TopologyError("TTL_NOT_POSSIBLE", f"store {name!r} can have no time to live: {reason}; leave the TTL out")
