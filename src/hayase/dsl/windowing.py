"""Windows of aggregates: their operators and stores."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from hayase.core.errors import TopologyError
from hayase.core.windows import EmitStrategy, SessionWindows, SlidingWindows, UnlimitedWindows, Windows
from hayase.dsl.inference import Known, windowed_key
from hayase.dsl.options.materialized import Materialized
from hayase.dsl.table_state import refuse_ttl
from hayase.serde import SessionWindowedSerde
from hayase.state.stores.spec import StoreKind, StoreSpec
from hayase.topology.operators import (
    Aggregation,
    StreamSessionAggregate,
    StreamSlidingAggregate,
    StreamWindowedAggregate,
    WindowedOperator,
)


@dataclass(frozen=True)
class Windowing:
    """Windows and when their results are sent."""

    windows: Windows | SlidingWindows | SessionWindows
    strategy: EmitStrategy = field(default_factory=EmitStrategy.on_window_update)

    def with_strategy(self, strategy: EmitStrategy) -> Windowing:
        """The same windows with another strategy; raises TopologyError."""
        if not isinstance(strategy, EmitStrategy):
            raise TopologyError(
                "INVALID_EMIT_STRATEGY",
                "emit_strategy takes EmitStrategy.on_window_update() or EmitStrategy.on_window_close(), not "
                f"{strategy!r}",
            )
        if strategy.on_close and isinstance(self.windows, UnlimitedWindows):
            raise TopologyError(
                "INVALID_EMIT_STRATEGY",
                "unlimited windows never close, so that nothing would be sent; leave out on_window_close()",
            )
        return replace(self, strategy=strategy)

    def operator(self, aggregation: Aggregation, store: str, *, cogrouped: bool = False) -> WindowedOperator:
        """The aggregate over these windows."""
        windows, on_close = self.windows, self.strategy.on_close
        if isinstance(windows, SlidingWindows):
            return StreamSlidingAggregate(aggregation, store, False, cogrouped, on_close, windows=windows)
        if isinstance(windows, SessionWindows):
            return StreamSessionAggregate(aggregation, store, False, cogrouped, on_close, windows=windows)
        return StreamWindowedAggregate(aggregation, store, False, cogrouped, on_close, windows=windows)

    def table_key(self, spec: StoreSpec) -> Known:
        """What is known about the keys of a table in that store."""
        size_ms = self._size_ms
        return Known(SessionWindowedSerde(spec.key_serde)) if size_ms is None else windowed_key(spec.key_serde, size_ms)

    def spec(self, spec: StoreSpec, options: Materialized[object, object]) -> StoreSpec:
        """The window or session store of a windowed aggregate.

        Raises:
            TopologyError: `INVALID_RETENTION`, `TTL_NOT_POSSIBLE`.
        """
        refuse_ttl(options, spec.name, "windows and sessions are forgotten by their retention, see with_retention")
        least_ms = self.windows.retention_ms
        retention_ms = least_ms if options.retention_ms is None else options.retention_ms
        if retention_ms < least_ms:
            what = {SlidingWindows: "twice the time difference", SessionWindows: "inactivity gap"}.get(
                type(self.windows), "window size"
            )
            raise TopologyError(
                "INVALID_RETENTION",
                f"store {spec.name!r}: retention is {retention_ms} ms; it must be at least {what} plus grace, "
                f"{least_ms} ms",
            )
        size_ms = self._size_ms
        kind: StoreKind = "session" if size_ms is None else "timestamped_window"
        if self.strategy.on_close and size_ms is not None:
            retention_ms += (
                1  # as in Kafka Streams, whose stores for results on close hide a window a millisecond later
            )
        return replace(spec, kind=kind, retention_ms=retention_ms, window_size_ms=size_ms)

    @property
    def closes_after_ms(self) -> int:
        """How long after its end a window can still change."""
        windows = self.windows
        return windows.gap_ms + windows.grace_ms if isinstance(windows, SessionWindows) else windows.grace_ms

    @property
    def _size_ms(self) -> int | None:
        """How far the end of a window is from its start; `None`: that differs."""
        match self.windows:
            case SlidingWindows(difference_ms=difference_ms):
                return difference_ms
            case SessionWindows():
                return None
            case windows:
                return windows.size_ms


def windowing_of(windows: object) -> Windowing:
    """Windows as given to `windowed_by`.

    Raises:
        TopologyError: `INVALID_WINDOW`.
    """
    if not isinstance(windows, Windows | SlidingWindows | SessionWindows):
        raise TopologyError(
            "INVALID_WINDOW",
            "windowed_by takes TimeWindows, SlidingWindows, SessionWindows, UnlimitedWindows or a subclass of "
            f"Windows, for example TimeWindows.of_size_with_no_grace(timedelta(minutes=5)), not {windows!r}",
        )
    if isinstance(windows, Windows):
        for name, least in (("size_ms", 1), ("grace_ms", 0)):
            value = getattr(windows, name, None)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise TopologyError(
                    "INVALID_WINDOW",
                    f"{type(windows).__name__}.{name} is {value!r}; it must be a whole number of milliseconds, at "
                    f"least {least}",
                )
    return Windowing(windows)
