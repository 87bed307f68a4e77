"""What the caches of an epoch that is processed in chunks hold back until its end: on disk.

At the end of each chunk a cache hands over the last update of every key of that chunk: a *run*. An index says of each
key in which run its last update is, and what was there before its first one. The runs are then read in order, and of
each only the updates that the index names: that is the order of last update over the whole epoch.
"""

from __future__ import annotations

import io
import pickle
import struct
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from typing import Any, NamedTuple

import polars as pl

from hayase.core.records import Headers, Record
from hayase.kernel.node.column_node import HEADERS, ColumnContext
from hayase.state.environment.base import MemoryBase
from hayase.state.environment.overlay import OverlayStore
from hayase.state.environment.spill import EpochSpace, Spilled
from hayase.task.column_inputs import ColumnInputs, Origin, gathered
from hayase.task.edges import EDGE_HEADERS, headers_series, read_headers

_RUN = struct.Struct(">I")
_KEYS = "__held_keys"
ORIGIN = "__held_origin"
"""Which of a run's records made an update."""
_NOTHING = b"\x00"
_SOMETHING = b"\x01"

_Taken = dict[Any, tuple[Record, Any]]
"""Updates and the records that made them, by place."""

Finish = Callable[[pl.DataFrame, list[bytes | None], ColumnContext], pl.DataFrame]


class _Index:
    """Run of the last update and what was before the first one, by key."""

    def __init__(self, space: EpochSpace) -> None:
        self._space = space
        self._entries = OverlayStore(MemoryBase())

    def note(self, run: int, keys: Sequence[bytes], before: Sequence[bytes]) -> None:
        """Keys that were updated in a run; `before` counts only for those that are new."""
        packed = _RUN.pack(run)
        known = self._entries.get_many(keys)
        entries = [packed + (new if old is None else old[_RUN.size :]) for old, new in zip(known, before, strict=True)]
        self._entries.put_many(keys, entries)
        if self._entries.size_bytes() > self._space.share:
            self._entries.spill(self._space.maps)

    def ending(self, run: int, keys: Sequence[bytes]) -> tuple[list[int], list[bytes]]:
        """Which of a run's keys had no update after it, and what was before their first one."""
        packed = _RUN.pack(run)
        positions: list[int] = []
        before: list[bytes] = []
        for position, entry in enumerate(self._entries.get_many(keys)):
            assert entry is not None
            if entry.startswith(packed):
                positions.append(position)
                before.append(entry[_RUN.size :])
        return positions, before


class SpilledRows(NamedTuple):
    """Updates that a cache sends at the end of the epoch, without order columns.

    Attributes:
        rows: the updates; `__h`, if there, counts from 0.
        start: what was stored at the epoch's start.
        headers: by `__h`.
        origins: gives the records that made the updates, by the column ORIGIN of `rows`.
        finish: see `ColumnSpill.add`.
    """

    rows: pl.DataFrame
    start: list[bytes | None]
    headers: list[Headers] | None
    origins: Callable[[], list[Origin]]
    finish: Finish

    def origins_of(self, frame: pl.DataFrame) -> Callable[[int], Origin]:
        """The record that made a row of what `finish` has made of `rows`."""
        numbers = frame[ORIGIN]
        return lambda row: self.origins()[numbers[row]]


class SpilledFrameCache:
    """`ColumnSpill` of one node."""

    def __init__(self, space: EpochSpace) -> None:
        self._space = space
        self._index = _Index(space)
        self._runs: list[tuple[Spilled, Spilled | list[Origin]]] = []  # updates, and the records that made them
        self._finish: Finish
        self.inputs: ColumnInputs
        """Those of the current chunk."""

    def add(
        self,
        keys: Sequence[bytes],
        rows: pl.DataFrame,
        start: Sequence[bytes | None],
        finish: Finish,
        origins: pl.DataFrame,
    ) -> None:
        """See ColumnSpill."""
        if not rows.height:
            return
        self._finish = finish
        before = [_NOTHING if row is None else _SOMETHING + row for row in start]
        self._index.note(len(self._runs), keys, before)
        kept = rows.with_columns(
            pl.Series(_KEYS, keys, pl.Binary), pl.int_range(pl.len(), dtype=pl.Int64).alias(ORIGIN)
        )
        if HEADERS in rows.columns:
            given = self.inputs.headers
            headers_of_rows = [() if at is None or given is None else given[at] for at in rows[HEADERS].to_list()]
            kept = kept.drop(HEADERS).with_columns(headers_series(headers_of_rows))
        buffer = io.BytesIO()
        kept.write_ipc_stream(buffer, compression="lz4")
        self._runs.append((self._space.file.append(buffer.getbuffer()), self._kept(origins)))

    def drain(self) -> Iterator[SpilledRows]:
        """What is sent at the end of the epoch, a run at a time."""
        for number, (spilled, origins_kept) in enumerate(self._runs):
            frame = pl.read_ipc_stream(self._space.file.read(spilled))
            positions, before = self._index.ending(number, frame[_KEYS].to_list())
            frame = frame[positions].drop(_KEYS)
            headers = None
            if EDGE_HEADERS in frame.columns:
                headers = read_headers(frame[EDGE_HEADERS])
                frame = frame.drop(EDGE_HEADERS).with_columns(pl.int_range(pl.len(), dtype=pl.Int64).alias(HEADERS))
            start = [None if row == _NOTHING else row[1:] for row in before]
            yield SpilledRows(frame, start, headers, cache(partial(self._origins, origins_kept)), self._finish)

    def _kept(self, origins: pl.DataFrame) -> Spilled | list[Origin]:
        """The records that made updates: on disk, unless their serdes cannot be pickled."""
        records = gathered([self.inputs.origin(order) for order in origins.iter_rows()])
        try:
            return self._space.file.append(pickle.dumps(records))
        except (pickle.PicklingError, TypeError, AttributeError):
            return records

    def _origins(self, kept: Spilled | list[Origin]) -> list[Origin]:
        if isinstance(kept, list):
            return kept
        origins: list[Origin] = pickle.loads(self._space.file.read(kept))
        return origins


class SpilledRecordCache:
    """`RowSpill` of one node.

    Records are pickled. Where that does not work, because a value's class cannot be found by its name, they stay in
    memory.

    Args:
        space: where they go.
        after_run: called when the updates of one run were sent.
    """

    def __init__(self, space: EpochSpace, after_run: Callable[[], None]) -> None:
        self._space = space
        self._after_run = after_run
        self._index = _Index(space)
        self._runs: list[Spilled] = []
        self._take: Callable[[], _Taken] = dict
        self._in_memory: _Taken | None = None

    def attach(self, take: Callable[[], _Taken]) -> None:
        """See RowSpill."""
        self._take = take

    def spill(self) -> None:
        """End of a chunk: take over what the cache holds."""
        taken = self._take()
        if not taken:
            return
        if self._in_memory is None:
            try:
                keys = [key if isinstance(key, bytes) else pickle.dumps(key) for key in taken]
                before = [pickle.dumps(record.value.old) for record, _ in taken.values()]
                origins = [origin for _, origin in taken.values()]
                blob = pickle.dumps((keys, [record for record, _ in taken.values()], gathered(origins)))
            except Exception:  # user's values may refuse in as many ways as there are classes
                self._in_memory = {}
                for key, record, origin in self._drain_runs():
                    self._in_memory[key] = record, origin
            else:
                self._index.note(len(self._runs), keys, before)
                self._runs.append(self._space.file.append(blob))
                return
        for key, (record, origin) in taken.items():
            place = key if isinstance(key, bytes) else pickle.dumps(key)
            earlier = self._in_memory.pop(place, None)
            if earlier is not None:
                record = record.with_value(type(record.value)(record.value.new, earlier[0].value.old))
            # Of the input only this record is kept, not all that was read with it.
            self._in_memory[place] = record, gathered([origin])[0]

    def drain(self) -> Iterator[tuple[Record, object]]:
        """See RowSpill."""
        self.spill()
        if self._in_memory is not None:
            yield from self._in_memory.values()
            return
        for _, record, origin in self._drain_runs():
            yield record, origin

    def _drain_runs(self) -> Iterator[tuple[bytes, Record, object]]:
        for number, run in enumerate(self._runs):
            keys, records, origins = pickle.loads(self._space.file.read(run))
            positions, before = self._index.ending(number, keys)
            for position, old in zip(positions, before, strict=True):
                record = records[position]
                change = type(record.value)(record.value.new, pickle.loads(old))
                yield keys[position], record.with_value(change), origins[position]
            self._after_run()
