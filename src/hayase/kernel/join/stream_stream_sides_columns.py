"""A join of two streams, compiled, and one of its sides during an epoch, for the column form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from hayase.core.join_windows import JoinWindows
from hayase.kernel.frame.groups import I64
from hayase.kernel.frame.order import MergeOrder
from hayase.kernel.frame.stored_columns import StoreCodec
from hayase.kernel.join.joiner_columns import JoinedValues
from hayase.kernel.join.stream_join_window import join_window
from hayase.kernel.node.column_node import KEY, NULL, TS, ColumnContext
from hayase.state.stores.window_bytes import WindowBytes
from hayase.topology.operators import JoinSide


@dataclass(frozen=True)
class JoinPlan:
    """A join, compiled.

    Attributes:
        windows: as the left side sees them.
        nodes: which node keeps each side.
        stores: where.
        codecs: of these stores.
        outer: sides whose records come out alone if they find no match.
        unmatched: the store of those that wait; `None` in an inner join.
        clock: the stream time of both sides; `None` where nothing looks at it.
        order: in which records of the left and the right side come.
        values: makes the results.
    """

    windows: JoinWindows
    nodes: Mapping[JoinSide, str]
    stores: Mapping[JoinSide, str]
    codecs: Mapping[JoinSide, StoreCodec]
    outer: frozenset[JoinSide]
    unmatched: str | None
    clock: str | None
    order: MergeOrder
    values: JoinedValues

    def reach(self, side: JoinSide) -> tuple[int, int]:
        """How much earlier and how much later than a record of that side those of the other one may be."""
        before, after = self.windows.before_ms, self.windows.after_ms
        return (before, after) if side == "left" else (after, before)

    def keeps(self, side: JoinSide) -> bool:
        """Whether the records of that side are kept; in a self-join they are those of the left side."""
        return side == "left" or self.stores["left"] != self.stores["right"]


class EpochSide:
    """One side in an epoch.

    Its records, and its entries, which are these records, what its store held, and what waited.

    Numbers of keys and positions are those of both sides together: the maker of the sides sets them.

    Attributes:
        times: of the records.
        position: where each record stands among those of both sides.
        usable: numbers of the records that have a key and a value, which are those that meet others.
        numbers: of their keys.
        entries: values and times of the entries, the records first; those of the store have no `__key`.
        entry_rows: which entries may be met: the usable records, and what the store held.
        entry_times: of these.
        entry_keys: numbers of their keys.
        arrived: their positions; -1: before the epoch.
    """

    def __init__(self, plan: JoinPlan, side: JoinSide, frame: pl.DataFrame, ctx: ColumnContext) -> None:
        self.frame = frame
        self.codec = plan.codecs[side]
        self.store: WindowBytes = join_window(plan.nodes[side], plan.stores[side], ctx)
        self.retention_ms = self.store.observed_ms - self.store.hidden_until_ms
        self.times = frame[TS].to_numpy()
        self.usable = np.flatnonzero((~(frame[NULL] | frame[KEY].is_null())).to_numpy())
        self.numbers: I64
        self.position: I64
        names = self.codec.value.schema.names
        self.entries = frame.select(*names, KEY, TS)
        self.entry_times = self.times[self.usable]
        self.entry_keys: I64
        self.entry_rows = self.usable
        self.arrived: I64

    @property
    def usable_times(self) -> I64:
        """When the usable records happened."""
        return self.times[self.usable]

    @property
    def usable_positions(self) -> I64:
        """Where the usable records stand, ascending."""
        return self.position[self.usable]

    def hidden_until(self, positions: I64) -> I64:
        """What its store hides, for records that come at those positions."""
        start = np.array([self.store.observed_ms])
        observed = np.maximum.accumulate(np.concatenate([start, self.usable_times]))
        return observed[np.searchsorted(self.usable_positions, positions)] - self.retention_ms

    def add(self, keys: I64, times: I64, values: Sequence[bytes]) -> None:
        """Entries that its store held, which came before all records."""
        first = self.entries.height
        self.append(values, pl.Series(KEY, [None] * len(values), dtype=self.entries[KEY].dtype), times.tolist())
        self.entry_times = np.concatenate([times, self.entry_times])
        self.entry_keys = np.concatenate([keys, self.entry_keys])
        self.entry_rows = np.concatenate([np.arange(first, first + len(values)), self.entry_rows])
        self.arrived = np.concatenate([np.full(len(values), -1), self.arrived])

    def append(self, values: Sequence[bytes], keys: pl.Series, times: Sequence[int]) -> None:
        """More entries; raises SerializationError."""
        if values:
            decoded = self.codec.value.decode_list(values).checked().frame
            more = decoded.with_columns(keys.alias(KEY), pl.Series(TS, times, pl.Int64))
            self.entries = pl.concat([self.entries, more.select(self.entries.columns)])

    def write(self, keys: Sequence[bytes], values: Sequence[bytes | None]) -> None:
        """Keep the usable records."""
        self.store.put_many(self.store.places(keys, self.usable_times), values)
