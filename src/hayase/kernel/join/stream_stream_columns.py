"""Joining each record of a stream with those of another stream that are near in time, in column form.

Both sides are joined together, since what one keeps the other one meets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from hayase.core.metrics import DROPPED_RECORDS
from hayase.kernel.frame.groups import I64, places_in_runs
from hayase.kernel.frame.key_columns import distinct_keys, key_bytes, keys_of
from hayase.kernel.frame.order import RecordOrder
from hayase.kernel.frame.stored_columns import StoreCodec
from hayase.kernel.frame.stream_time import stream_times
from hayase.kernel.join.joiner_columns import compile_joiner
from hayase.kernel.join.stream_stream_sides_columns import EpochSide, JoinPlan
from hayase.kernel.join.unmatched_columns import Alone, Arrival, PendingRecord, WaitingRecords
from hayase.kernel.join.unmatched_rows import OTHER, SIDES
from hayase.kernel.node.column_node import (
    HEADERS,
    KEY,
    NULL,
    ORDER,
    TS,
    ColumnContext,
    ColumnNode,
    CompileContext,
    Failed,
    FailureHandler,
    Order,
    order_columns,
)
from hayase.kernel.node.edge import EdgeSchema
from hayase.kernel.stateless.merge import ranked
from hayase.topology.nodes import ProcessorNode
from hayase.topology.operators import JoinSide, StreamStreamJoin

_MATCH = 1 << 40
"""What is due comes out first, then the matches by their number, then the record alone."""
_LAST = 1 << 50


@dataclass(frozen=True, slots=True)
class _Pairs:
    """Records of one side and the entries of the other one that they meet.

    Attributes:
        records: numbers of the records, ascending.
        entries: numbers of the entries.
        times: of the entries.
    """

    records: I64
    entries: I64
    times: I64

    def only(self, kept: npt.NDArray[np.bool_]) -> _Pairs:
        """Some of them."""
        return _Pairs(self.records[kept], self.entries[kept], self.times[kept])


@dataclass(frozen=True, slots=True)
class Joined:
    """What one side sends, and on which records the joiner failed."""

    frame: pl.DataFrame
    failures: Sequence[tuple[Order, Exception]]


def join_epoch(plan: JoinPlan, frames: Mapping[JoinSide, pl.DataFrame], ctx: ColumnContext) -> dict[JoinSide, Joined]:
    """Join the records of both sides, and keep them.

    Args:
        plan: the join.
        frames: what the nodes send that keep the sides; twice the same in a self-join.
        ctx: of a node of the join.
    """
    return _Epoch(plan, frames, ctx).run()


class _Epoch:
    def __init__(self, plan: JoinPlan, frames: Mapping[JoinSide, pl.DataFrame], ctx: ColumnContext) -> None:
        self._plan = plan
        self._ctx = ctx
        self._sides = {side: EpochSide(plan, side, frames[side], ctx) for side in OTHER}
        self._set_positions()
        self._number_keys()

    def run(self) -> dict[JoinSide, Joined]:
        """See `join_epoch`."""
        for side in OTHER:
            self._read(side)
        joined: dict[JoinSide, pl.DataFrame] = {}
        failures: dict[JoinSide, list[tuple[Order, Exception]]] = {}
        pairs: dict[JoinSide, _Pairs] = {}
        for side in OTHER:
            joined[side], pairs[side], failures[side] = self._matches(side)
        values = {side: self._values(side) for side in OTHER if self._plan.keeps(side)}
        if self._plan.unmatched is not None:
            for side, (frame, failed) in self._alone(pairs, values).items():
                joined[side] = pl.concat([joined[side], frame], how="vertical_relaxed")
                joined[side] = joined[side].sort(order_columns(joined[side]))
                failures[side] = sorted([*failures[side], *failed], key=lambda each: each[0])
        for side, store_side in self._sides.items():
            if self._plan.keeps(side):
                store_side.write([self._data[number] for number in store_side.numbers.tolist()], values[side])
        return {side: Joined(joined[side], failures[side]) for side in OTHER}

    def _set_positions(self) -> None:
        """Where each record stands among those of both sides; and stream time there."""
        sides, order = list(self._sides.values()), self._plan.order
        columns = [f"{ORDER}{number}" for number in range(order.columns + 1)]
        every = pl.concat(
            [
                ranked(records.frame, rank, order).select(columns)
                for records, rank in zip(sides, order.ranks, strict=True)
            ]
        )
        sorted_rows = every.select(pl.arg_sort_by(columns)).to_series().to_numpy()
        positions = np.empty(every.height, np.int64)
        positions[sorted_rows] = np.arange(every.height)
        middle = sides[0].frame.height
        sides[0].position, sides[1].position = positions[:middle], positions[middle:]
        for records in sides:
            records.arrived = records.usable_positions
        if self._plan.clock is None:
            return
        times = np.concatenate([records.times for records in sides])[sorted_rows]
        self._stream_ms = stream_times(self._ctx.clocks, self._plan.clock, times)

    def _number_keys(self) -> None:
        left, right = self._sides["left"], self._sides["right"]
        codec = left.codec.key
        keys = pl.concat([records.frame[KEY].gather(records.usable) for records in (left, right)])
        numbers, distinct = distinct_keys(keys, codec)
        self._data = key_bytes(distinct, codec)
        left.numbers, right.numbers = numbers[: len(left.usable)], numbers[len(left.usable) :]
        left.entry_keys, right.entry_keys = left.numbers, right.numbers

    def _read(self, side: JoinSide) -> None:
        """What the other side's store holds for the records of a side."""
        own, other = self._sides[side], self._sides[OTHER[side]]
        if not len(own.usable):
            return
        before_ms, after_ms = self._plan.reach(side)
        present = np.zeros(len(self._data), np.bool_)
        present[own.numbers] = True
        keys = np.flatnonzero(present)  # np.unique takes a hundred times as long
        first = np.full(len(self._data), np.iinfo(np.int64).max)
        last = np.full(len(self._data), -1)
        np.minimum.at(first, own.numbers, own.usable_times - before_ms)
        np.maximum.at(last, own.numbers, own.usable_times + after_ms)
        entries_of_keys = other.store.fetch_many(
            [self._data[key] for key in keys.tolist()], first[keys].tolist(), last[keys].tolist()
        )
        every = [
            (key, *entry) for key, entries in zip(keys.tolist(), entries_of_keys, strict=True) for entry in entries
        ]
        if every:
            numbers, times, values = zip(*every, strict=True)
            other.add(np.array(numbers, np.int64), np.array(times, np.int64), values)

    def _pairs(self, side: JoinSide) -> _Pairs:
        """Which entries of the other side each record of a side meets: by their time, then by arrival."""
        own, other = self._sides[side], self._sides[OTHER[side]]
        before_ms, after_ms = self._plan.reach(side)
        order = np.lexsort((other.arrived, other.entry_times, other.entry_keys))
        times, rank = np.unique(other.entry_times, return_inverse=True)
        positions = other.entry_keys[order] * (len(times) + 1) + rank[order]
        base = own.numbers * (len(times) + 1)
        low = np.searchsorted(positions, base + np.searchsorted(times, own.usable_times - before_ms))
        high = np.searchsorted(positions, base + np.searchsorted(times, own.usable_times + after_ms, side="right"))
        counts = np.maximum(high - low, 0)
        which = np.repeat(np.arange(len(counts)), counts)
        at = order[np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts) + np.repeat(low, counts)]
        positions = own.usable_positions
        met = (other.arrived[at] < positions[which]) & (other.entry_times[at] > other.hidden_until(positions)[which])
        return _Pairs(own.usable[which], other.entry_rows[at], other.entry_times[at]).only(met)

    def _matches(self, side: JoinSide) -> tuple[pl.DataFrame, _Pairs, list[tuple[Order, Exception]]]:
        """Results of a side's records with the other side's; a record's end at the first on which the joiner fails."""
        pairs, failed = self._pairs(side), Failed()
        positions = places_in_runs(pairs.records)
        times = np.maximum(self._sides[side].times[pairs.records], pairs.times)
        stream = self._stream(side, pairs.records, positions + _MATCH, times)
        joined = self._join(stream, {side: pairs.records, OTHER[side]: pairs.entries}, failed)
        failing = failed.by_row(stream)
        if not failing:
            return joined, pairs, []
        first: dict[int, int] = {}
        for row in sorted(failing):
            first.setdefault(int(pairs.records[row]), row)
        last = np.array([first.get(record, len(stream)) for record in pairs.records.tolist()])
        kept = np.arange(len(stream)) <= last
        done = np.ones(len(stream), np.bool_)
        done[list(failing)] = False
        errors = {row: failing[row] for row in first.values()}
        orders = stream.select(order_columns(stream))
        return (
            joined.filter(pl.Series(kept[done])),
            pairs.only(kept),
            [(orders.row(row), errors[row]) for row in sorted(errors)],
        )

    def _stream(
        self, side: JoinSide, records: I64, positions: I64, times: I64, keys: pl.Series | None = None
    ) -> pl.DataFrame:
        """What results have of the records that make them; `keys`, if theirs are others."""
        frame = self._sides[side].frame
        order = order_columns(frame)
        carried = [*order, HEADERS] if HEADERS in frame.columns else order
        own = frame.select(pl.col(KEY, *carried).gather(records))
        return own.with_columns(
            own[KEY] if keys is None else keys.alias(KEY),
            pl.Series(TS, times),
            pl.Series(f"{ORDER}{len(order)}", positions),
        )

    def _join(self, stream: pl.DataFrame, entries: Mapping[JoinSide, I64], failed: FailureHandler) -> pl.DataFrame:
        """Results of the entries of both sides, -1 where there is none."""
        values: dict[JoinSide, list[pl.Series]] = {}
        for side, numbers in entries.items():
            names = self._sides[side].codec.value.schema.names
            there = pl.Series(numbers >= 0)
            at = pl.select(pl.when(there).then(pl.Series(numbers))).to_series()
            joined = self._sides[side].entries.select(pl.col(names).gather(at))
            values[side] = [*joined.get_columns(), (~there).alias(NULL)]
        return self._plan.values.join(stream.with_columns(values["left"]), pl.DataFrame(values["right"]), failed)

    def _values(self, side: JoinSide) -> list[bytes | None]:
        """The usable records' values, as they are kept."""
        own = self._sides[side]
        rows = own.frame.select(pl.col(own.codec.value.schema.names).gather(own.usable))
        return own.codec.value.encode(rows)

    # records that come out alone

    def _alone(
        self, pairs: Mapping[JoinSide, _Pairs], values: Mapping[JoinSide, Sequence[bytes | None]]
    ) -> dict[JoinSide, tuple[pl.DataFrame, list[tuple[Order, Exception]]]]:
        """What comes out alone because of the records of each side."""
        plan, ctx = self._plan, self._ctx
        assert plan.unmatched is not None
        waiting = WaitingRecords(ctx.byte_store(plan.unmatched), ctx.clocks, plan.unmatched, plan.windows)
        arrivals = self._arrivals(pairs)
        sent: list[Alone] = []
        if arrivals:
            own = {PendingRecord(each.timestamp_ms, each.side, each.key) for _, each in arrivals if each.alone}
            others = {pending for _, each in arrivals for pending in each.matches}
            last_ms = max(each.stream_ms for _, each in arrivals)
            for side, records in waiting.load(last_ms, own | others).items():
                joined_side = self._sides[side]
                waiting.enter(side, [pending for pending, _ in records], joined_side.entries.height)
                if records:
                    joined_side.append(
                        [value for _, value in records],
                        keys_of([pending.key for pending, _ in records], joined_side.codec.key),
                        [pending.timestamp_ms for pending, _ in records],
                    )
            sent = waiting.run(each for _, each in arrivals)
            waiting.write(
                {
                    side: dict(zip(joined_side.usable.tolist(), values[side], strict=True))  # type: ignore[arg-type]
                    for side, joined_side in self._sides.items()
                }
            )
        return {side: self._sent_alone(side, arrivals, sent) for side in OTHER}

    def _arrivals(self, pairs: Mapping[JoinSide, _Pairs]) -> list[tuple[JoinSide, Arrival]]:
        """The usable records of both sides in order."""
        arrivals: list[tuple[int, JoinSide, Arrival]] = []
        for side, own in self._sides.items():
            met = np.zeros(own.frame.height, np.bool_)
            met[pairs[side].records] = True
            matches: dict[int, list[PendingRecord]] = {}
            if OTHER[side] in self._plan.outer:
                code = SIDES.index(OTHER[side])
                numbers = np.empty(own.frame.height, np.int64)
                numbers[own.usable] = own.numbers
                for record, time_ms in zip(pairs[side].records.tolist(), pairs[side].times.tolist(), strict=True):
                    pending = PendingRecord(time_ms, code, self._data[numbers[record]])
                    matches.setdefault(record, []).append(pending)
            code, outer = SIDES.index(side), side in self._plan.outer
            positions = own.usable_positions
            columns = (
                own.usable,
                own.numbers,
                own.usable_times,
                positions,
                self._stream_ms[positions],
                met[own.usable],
            )
            for record, key, time_ms, position, stream_ms, joined in zip(*(c.tolist() for c in columns), strict=True):
                arrival = Arrival(
                    code, record, time_ms, self._data[key], stream_ms, matches.get(record, ()), outer and not joined
                )
                arrivals.append((position, side, arrival))
        arrivals.sort(key=lambda each: each[0])
        return [(side, arrival) for _, side, arrival in arrivals]

    def _sent_alone(
        self, side: JoinSide, arrivals: Sequence[tuple[JoinSide, Arrival]], sent: Sequence[Alone]
    ) -> tuple[pl.DataFrame, list[tuple[Order, Exception]]]:
        """What records of a side let out: others that waited, and themselves."""
        joined_side, failed, own = self._sides[side], Failed(), SIDES.index(side)
        mine = [each for each in sent if arrivals[each.arrival][0] == side]
        rows = [
            (arrivals[each.arrival][1].entry, _LAST if each.at_once else number, each.side, each.entry)
            for number, each in enumerate(mine)
        ]
        if side in self._plan.outer:  # without a key there is no match
            keyless = np.flatnonzero((joined_side.frame[KEY].is_null() & ~joined_side.frame[NULL]).to_numpy())
            rows += [(record, _LAST, own, record) for record in keyless.tolist()]
        records, positions, sides, entries = np.array(sorted(rows), np.int64).reshape(-1, 4).T
        numbers = {name: np.where(sides == SIDES.index(name), entries, -1) for name in SIDES}
        both = pl.concat([self._sides[name].entries.select(KEY, TS) for name in SIDES])
        first = np.array([0, self._sides[SIDES[0]].entries.height])
        let_out = both[entries + first[sides]]
        stream = self._stream(side, records, positions, let_out[TS].to_numpy(), let_out[KEY])
        return self._join(stream, numbers, failed), failed.errors


class StreamStreamJoinColumns(ColumnNode):
    """StreamStreamJoin in column form.

    One of the two nodes of a join, of which the first one that runs does the work of both.
    """

    def __init__(self, name: str, output: EdgeSchema, operator: StreamStreamJoin, plan: JoinPlan) -> None:
        super().__init__(name, output)
        self._operator = operator
        self._plan = plan

    def run(self, inputs: Sequence[pl.DataFrame], ctx: ColumnContext) -> pl.DataFrame:
        """The results that records of this side make; null values, and where it is not outer null keys, are dropped."""
        frame, operator = inputs[0], self._operator
        dropped = frame[NULL] if operator.outer else frame[NULL] | frame[KEY].is_null()
        ctx.metrics.add(DROPPED_RECORDS, self.name, int(dropped.sum()))

        def join() -> dict[JoinSide, Joined]:
            frames = {operator.side: frame, OTHER[operator.side]: ctx.sent(operator.other_window)}
            return join_epoch(self._plan, frames, ctx)

        joined = ctx.once(operator.clock, join)[operator.side]
        for order, error in joined.failures:
            ctx.processing_failed(order, error)
        return joined.frame


def stream_stream_join_columns(
    node: ProcessorNode, inputs: Sequence[EdgeSchema], ctx: CompileContext
) -> ColumnNode | None:
    """The column form.

    It needs one for both sides, and a topology whose order columns tell in which order their records come.
    """
    operator = node.operator
    assert isinstance(operator, StreamStreamJoin)
    nodes = {other.name: other for other in ctx.nodes}
    left, right = (operator.window, operator.store), (operator.other_window, operator.other_store)
    if operator.side == "right":
        left, right = right, left
    codecs = StoreCodec.of(ctx.stores[left[1]]), StoreCodec.of(ctx.stores[right[1]])
    if codecs[0] is None or codecs[1] is None or codecs[0].key.schema != codecs[1].key.schema:
        return None
    edges = [(nodes[window].parents[0], window) for window, _ in (left, right) if window in nodes]
    order = RecordOrder(ctx.nodes, ctx.stores, caching=ctx.caching).merge(edges) if len(edges) == 2 else None
    if order is None:
        return None
    key, values = codecs[0].key.schema, (codecs[0].value.schema, codecs[1].value.schema)
    joiner = compile_joiner(node.name, operator.joiner, EdgeSchema(key, values[0]), values[1], operator.schema)
    if joiner is None:
        return None
    plan = JoinPlan(
        windows=operator.windows,
        nodes={"left": left[0], "right": right[0]},
        stores={"left": left[1], "right": right[1]},
        codecs={"left": codecs[0], "right": codecs[1]},
        outer=_outer_sides(operator, ctx.nodes),
        unmatched=operator.unmatched,
        clock=operator.clock,
        order=order,
        values=joiner,
    )
    return StreamStreamJoinColumns(node.name, EdgeSchema(key, joiner.schema), operator, plan)


def _outer_sides(operator: StreamStreamJoin, nodes: Sequence[ProcessorNode]) -> frozenset[JoinSide]:
    """The sides of the join whose records come out alone."""
    both = [other.operator for other in nodes if isinstance(other.operator, StreamStreamJoin)]
    return frozenset(each.side for each in both if each.clock == operator.clock and each.outer)
