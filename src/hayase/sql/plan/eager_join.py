"""Left and full joins of streams without GRACE PERIOD: a row that meets nothing comes out alone at once.

Kafka Streams' joins hold such a row back until its window has closed. ksqlDB's do so only with GRACE PERIOD; without,
they send it padded with nulls, and again with each row that it meets later.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from hayase.core.join_windows import JoinWindows
from hayase.dsl.inference import Known
from hayase.dsl.kstream import KStream
from hayase.dsl.stream_state import repartitioned_for_join
from hayase.processor.api import FixedKeyProcessor, FixedKeyProcessorContext, FixedKeyRecord
from hayase.sql.plan.context import PlanContext, Stage
from hayase.state.stores.spec import StoreSpec

Joiner = Callable[[Any, Any, Any], Any]


def eager_join(
    left: Stage, right: Stage, joiner: Joiner, windows: JoinWindows, *, outer: bool, context: PlanContext
) -> KStream[Any, Any]:
    """The joined stream; `outer`: rows of the right side come out alone, too."""
    name = context.next_name("EAGER-JOIN")
    stores: dict[str, str] = {}
    tagged = []
    for side, stage in (("left", left), ("right", right)):
        store = StoreSpec(
            f"{name}-{side}-store",
            "window",
            left.key_serde,
            stage.value_serde,
            retention_ms=max(windows.retention_ms, 1),
            window_size_ms=max(windows.size_ms, 1),
            caching=False,
            retain_duplicates=True,
        )
        context.builder.add_state_store(store)
        stores[side] = store.name
        tagged.append(_partitioned(stage, f"{name}-{side}").map_values(Tag(side)))
    supplier = partial(EagerJoin, stores, joiner, windows, outer)
    return tagged[0].merge(tagged[1]).process_values(supplier, *stores.values())


def _partitioned(stage: Stage, name: str) -> KStream[Any, Any]:
    """The stream, whose records of one key are in one task."""
    state = stage.of_stream._state
    if not state.rekeyed:
        return stage.of_stream
    state = replace(state, key=Known(stage.key_serde), value=Known(stage.value_serde))
    return KStream(repartitioned_for_join(state, name))


class Tag:
    """Marks rows with the side that they are of."""

    def __init__(self, side: str) -> None:
        self._side = side

    def __call__(self, row: Any) -> Any:
        """The side and the row."""
        return self._side, row


class EagerJoin(FixedKeyProcessor[Any, Any, Any]):
    """Joins each row with those of the other side that are in its window, or sends it alone.

    Args:
        stores: names of the stores of both sides.
        joiner: `(key, left, right)`; one of the two may be `None`.
        windows: how far apart rows may be.
        outer: right rows come out alone, too.
    """

    def __init__(self, stores: dict[str, str], joiner: Joiner, windows: JoinWindows, outer: bool) -> None:
        self._stores = stores
        self._joiner = joiner
        self._spans = {
            "left": (windows.before_ms, windows.after_ms),
            "right": (windows.after_ms, windows.before_ms),
        }
        self._alone = {"left", "right"} if outer else {"left"}

    def init(self, context: FixedKeyProcessorContext[Any, Any]) -> None:
        """See `FixedKeyProcessor.init`."""
        self._context = context
        self._rows = {side: context.get_state_store(name) for side, name in self._stores.items()}

    def process(self, record: FixedKeyRecord[Any, Any]) -> None:
        """Join one row with those that came before it, then keep it."""
        side, row = record.value
        if row is None:
            return
        other = "right" if side == "left" else "left"
        met = False
        if record.key is not None:
            before_ms, after_ms = self._spans[side]
            time_ms = record.timestamp_ms
            found = self._rows[other].fetch(record.key, max(time_ms - before_ms, 0), time_ms + after_ms)
            for other_ms, other_row in list(found):
                met = True
                joined = self._joined(side, record.key, row, other_row)
                self._context.forward(record.with_value(joined).with_timestamp(max(time_ms, other_ms)))
        if not met and side in self._alone:
            self._context.forward(record.with_value(self._joined(side, record.key, row, None)))
        if record.key is not None:
            self._rows[side].put(record.key, row, record.timestamp_ms)

    def _joined(self, side: str, key: Any, row: Any, other: Any) -> Any:
        return self._joiner(key, row, other) if side == "left" else self._joiner(key, other, row)
