"""The typed view of a store that a `StoreSpec` asks for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from hayase.core.errors import ConfigError
from hayase.state.stores.key_value import KeyValueStore, ReadOnlyKeyValueStore, TimestampedKeyValueStore
from hayase.state.stores.protocol import ByteStore
from hayase.state.stores.session import ReadOnlySessionStore, SessionStore
from hayase.state.stores.session_bytes import SessionBytes
from hayase.state.stores.spec import StoreSpec
from hayase.state.stores.values import PlainValues, TimestampedValues, ValueCodec
from hayase.state.stores.versioned import ReadOnlyVersionedKeyValueStore, VersionedKeyValueStore
from hayase.state.stores.versioned_bytes import VersionedBytes
from hayase.state.stores.window import ReadOnlyWindowStore, TimestampedWindowStore, WindowStore
from hayase.state.stores.window_bytes import window_bytes

View = TypeVar("View")

WritableView = (
    KeyValueStore
    | TimestampedKeyValueStore
    | WindowStore
    | TimestampedWindowStore
    | VersionedKeyValueStore
    | SessionStore
)
"""Any store as a task uses it."""
ReadOnlyView = ReadOnlyKeyValueStore | ReadOnlyWindowStore | ReadOnlyVersionedKeyValueStore | ReadOnlySessionStore
"""Any store as a query sees it."""


def open_view(spec: StoreSpec, store: ByteStore, on_expired: Callable[[int], None] | None = None) -> WritableView:
    """The store of that kind, to read and write.

    Args:
        spec: what the store is.
        store: where it is kept.
        on_expired: window, session and versioned stores: called with the number of writes ignored because they came too
            late.
    """
    if spec.versioned:
        return VersionedKeyValueStore(
            store,
            spec.key_serde,
            spec.value_serde,
            history_ms=_history(spec),
            segment_interval_ms=spec.segment_interval_ms,
            on_expired=on_expired,
        )
    if spec.kind == "session":
        retention_ms = _retention(spec)
        return SessionStore(store, spec.key_serde, spec.value_serde, retention_ms=retention_ms, on_expired=on_expired)
    if spec.windowed:
        size_ms, retention_ms = _window_times(spec)
        window_kind = TimestampedWindowStore if spec.timestamped else WindowStore
        return window_kind(
            store,
            spec.key_serde,
            spec.value_serde,
            window_size_ms=size_ms,
            retention_ms=retention_ms,
            on_expired=on_expired,
            retain_duplicates=spec.retain_duplicates,
        )
    kind = TimestampedKeyValueStore if spec.timestamped else KeyValueStore
    return kind(store, spec.key_serde, spec.value_serde)


def open_read_only_view(spec: StoreSpec, store: ByteStore, *, with_timestamps: bool = True) -> ReadOnlyView:
    """The store of that kind, to read.

    Args:
        spec: what the store is.
        store: where it is kept.
        with_timestamps: whether a timestamped store gives `ValueAndTimestamp`; else it gives values.
    """
    if spec.versioned:
        return ReadOnlyVersionedKeyValueStore(versioned_bytes(spec, store), spec.key_serde, spec.value_serde)
    values: ValueCodec = PlainValues(spec.value_serde)
    if spec.timestamped:
        values = TimestampedValues(spec.value_serde) if with_timestamps else _ValuesOnly(spec.value_serde)
    if spec.kind == "session":
        return ReadOnlySessionStore(SessionBytes(store, _retention(spec)), spec.key_serde, values)
    if spec.windowed:
        size_ms, retention_ms = _window_times(spec)
        windows = window_bytes(store, retention_ms, retain_duplicates=spec.retain_duplicates)
        return ReadOnlyWindowStore(windows, spec.key_serde, values, size_ms)
    return ReadOnlyKeyValueStore(store, spec.key_serde, values)


def with_interface(spec: StoreSpec, view: WritableView | ReadOnlyView) -> Any:
    """What users work with: the interface of a custom store, else the store itself."""
    return view if spec.interface is None else spec.interface(view)


def as_kind(view: ReadOnlyView, kind: type[View]) -> View:
    """The view of a store whose kind is known.

    Raises:
        TypeError: it is of another kind.
    """
    if not isinstance(view, kind):
        raise TypeError(f"a {type(view).__name__} is no {kind.__name__}")
    return view


def versioned_bytes(
    spec: StoreSpec, store: ByteStore, on_expired: Callable[[int], None] | None = None
) -> VersionedBytes:
    """A versioned store in bytes."""
    return VersionedBytes(store, _history(spec), spec.segment_interval_ms, on_expired)


class _ValuesOnly(TimestampedValues):
    def from_bytes(self, data: bytes) -> Any:
        return super().from_bytes(data).value


def _window_times(spec: StoreSpec) -> tuple[int, int]:
    if spec.window_size_ms is None or spec.retention_ms is None:
        raise ConfigError(
            "INCOMPLETE_STORE",
            f"window store {spec.name!r} needs both window_size_ms and retention_ms",
            store=spec.name,
        )
    return spec.window_size_ms, spec.retention_ms


def _history(spec: StoreSpec) -> int:
    if spec.retention_ms is None:
        raise ConfigError(
            "INCOMPLETE_STORE", f"versioned store {spec.name!r} needs retention_ms, its history", store=spec.name
        )
    return spec.retention_ms


def _retention(spec: StoreSpec) -> int:
    if spec.retention_ms is None:
        raise ConfigError("INCOMPLETE_STORE", f"session store {spec.name!r} needs retention_ms", store=spec.name)
    return spec.retention_ms
