"""Log compaction: of each key at least the last record stays. Offsets and order stay as they are.

The rules are those of Kafka (documentation, "Log Compaction"; KIP-58 for the lag, KIP-354 for its maximum, KIP-534 for
delete horizons):

* The log has a clean part, where compaction has been, and a dirty part behind it. A pass is due when the dirty part
  that may be compacted is a larger share of both than `min.cleanable.dirty.ratio`, or its oldest record is older than
  `max.compaction.lag.ms`. Records younger than `min.compaction.lag.ms` stay as they are, and so does all behind them.
* A record is removed if a later one of the dirty part has the same key. A record without key is removed.
* The pass that first meets a tombstone (a null value) sets its horizon: now plus `delete.retention.ms`. A pass behind
  that time removes it; here such a pass is due by itself. Older values of the key are gone before the horizon is set,
  since a pass goes from the start to the end.

There is no active segment that is left out: an append is one transaction, so no part of the log is open.

A pass rewrites the log in steps, each a transaction that puts one batch in the place of a few. After each the log is a
compacted one, so a pass that ends half way (crash, closing) has only done less; the next begins at the same place.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import repeat

import numpy as np
import numpy.typing as npt

from hayase.core.failpoints import reach
from hayase.core.windows import LAST_MS
from hayase.log.embedded import blob
from hayase.log.embedded.blob import NO_HORIZON, Blob, Rows, encode_with_gaps, joined, read_header, timestamps, unpack
from hayase.log.embedded.partition import ChangedMeanwhileError, CleanedPartition, StoredBlob
from hayase.log.embedded.tables import Cleaned, Tables

_MAP_BYTES = 256 << 20
_MAP_ENTRY_BYTES = 150  # of a Python dict, beside the key's own length
_LARGEST_SPAN = 2**32 - 1


@dataclass(slots=True)
class Compacted:
    """What a pass removed.

    Attributes:
        superseded: records with a later one of the same key.
        tombstones: null values beyond their horizon.
        without_key: records without key, which compaction cannot keep.
        bytes: what the partition lost in size.
    """

    superseded: int = 0
    tombstones: int = 0
    without_key: int = 0
    bytes: int = 0


def compact(partition: CleanedPartition, now_ms: int, stop: Callable[[], bool]) -> Compacted | None:
    """Make a pass over the partition; `None` if none is due.

    Args:
        partition: of a topic that compacts.
        now_ms: for lags and horizons.
        stop: asked between two steps; the pass ends early if it says so.
    """
    with partition.store.read(buffers=True) as tables:
        if not partition.begin(tables):
            return None
        cleaned = tables.cleaned(partition.key)
        end = _cleanable_end(partition, tables, cleaned, now_ms)
    if end is None:
        return None
    rewriter = _Rewriter(partition, now_ms)
    try:
        last_offsets = _last_offsets(partition, cleaned.end, end, stop)
        if last_offsets is None:
            return rewriter.report
        last, end = last_offsets
        for stored in partition.blobs(0, end):
            if stop():
                return rewriter.report
            rewriter.add(stored, last)
        rewriter.flush()
        _finish(partition, Cleaned(end, rewriter.clean_bytes, rewriter.horizon_ms))
    except ChangedMeanwhileError:
        pass  # what was done is done; the next pass reads the partition again
    return rewriter.report


def _cleanable_end(partition: CleanedPartition, tables: Tables, cleaned: Cleaned, now_ms: int) -> int | None:
    """Up to where a pass would go; `None` if none is due."""
    settings, state = partition.settings, tables.partition_state(partition.key)
    end, cleanable = state.end, state.bytes - cleaned.bytes
    if settings.min_compaction_lag_ms > 0:
        end, cleanable = cleaned.end, 0
        for base, data in tables.blobs(partition.key, cleaned.end):
            if base < cleaned.end:
                continue
            header = read_header(data, partition.location, base)
            if now_ms - header.max_timestamp_ms < settings.min_compaction_lag_ms:
                break
            end, cleanable = base + header.span, cleanable + len(data)
    if cleanable > 0:
        share = cleanable / (cleaned.bytes + cleanable)
        if share > settings.min_cleanable_dirty_ratio or _lags(partition, tables, cleaned.end, now_ms):
            return end
    tombstones_due = cleaned.horizon_ms not in (NO_HORIZON, LAST_MS) and now_ms >= cleaned.horizon_ms
    return end if tombstones_due else None


def _lags(partition: CleanedPartition, tables: Tables, dirty_start: int, now_ms: int) -> bool:
    """Whether the first dirty records have waited for longer than allowed."""
    if partition.settings.max_compaction_lag_ms == LAST_MS:
        return False
    for base, data in tables.blobs(partition.key, dirty_start):
        if base >= dirty_start:
            header = read_header(data, partition.location, base)
            oldest = int(timestamps(unpack(data, header, partition.location, base), header).min())
            return now_ms - oldest > partition.settings.max_compaction_lag_ms
    return False


def _last_offsets(
    partition: CleanedPartition, start: int, end: int, stop: Callable[[], bool]
) -> tuple[dict[bytes | None, int], int] | None:
    """The last offset of each key of the dirty part, or of as much of it as there is memory for, and where that ends.

    `None` if it is to stop.
    """
    last: dict[bytes | None, int] = {}
    size = 0
    for stored in partition.blobs(start, end):
        if stop():
            return None
        before = len(last)
        last.update(zip(stored.rows.keys, stored.rows.offsets.tolist(), strict=True))
        new = len(last) - before
        size += new * _MAP_ENTRY_BYTES + (sum(len(key or b"") for key in stored.rows.keys) if new else 0)
        if size > _MAP_BYTES:
            return last, stored.end
    return last, end


def _finish(partition: CleanedPartition, cleaned: Cleaned) -> None:
    reach("before_cleaned")
    partition.change(lambda tables: tables.put_cleaned(partition.key, cleaned))
    reach("after_cleaned")


@dataclass(frozen=True, slots=True)
class _Kept:
    """What stays of a blob."""

    stored: StoredBlob
    rows: Rows
    horizon_ms: int

    @property
    def changed(self) -> bool:
        header = self.stored.header
        return len(self.rows.values) < header.records or self.horizon_ms != header.delete_horizon_ms

    @property
    def payload_bytes(self) -> int:
        header = self.stored.header
        return header.payload_bytes * len(self.rows.values) // header.records


class _Rewriter:
    """Takes blobs in order, and puts what stays of a few into one."""

    def __init__(self, partition: CleanedPartition, now_ms: int) -> None:
        self._partition = partition
        self._now_ms = now_ms
        self._group: list[_Kept] = []
        self.report = Compacted()
        self.clean_bytes = 0
        self._horizons: list[int] = []

    @property
    def horizon_ms(self) -> int:
        """When the first tombstone that stayed may go."""
        return min(self._horizons, default=NO_HORIZON)

    def add(self, stored: StoredBlob, last: dict[bytes | None, int]) -> None:
        """Take a blob; raises ChangedMeanwhileError."""
        kept = self._filter(stored, last)
        if self._group and not self._fits(kept):
            self.flush()
        self._group.append(kept)

    def flush(self) -> None:
        """Write what was taken; raises ChangedMeanwhileError."""
        group, self._group = self._group, []
        if not group:
            return
        if len(group) == 1 and not group[0].changed:
            self._count_clean(group[0].stored.bytes, group[0].horizon_ms)
            return
        rows = joined([kept.rows for kept in group])
        base, horizon_ms = group[0].stored.base, max(kept.horizon_ms for kept in group)
        rewritten = None
        if len(rows.values):
            span = group[-1].stored.end - base
            rewritten = encode_with_gaps(rows, base, span, self._partition.settings.compression, horizon_ms)
        self._swap(group, rewritten, horizon_ms)

    def _swap(self, group: list[_Kept], rewritten: Blob | None, horizon_ms: int) -> None:
        removed, size = sum(kept.stored.bytes for kept in group), len(rewritten.data) if rewritten is not None else 0

        def swap(tables: Tables) -> None:
            tables.replace_blobs(self._partition.key, [kept.stored.base for kept in group], removed, rewritten)
            cleaned = tables.cleaned(self._partition.key)
            if group[0].stored.base < cleaned.end:
                clean = sum(kept.stored.bytes for kept in group if kept.stored.base < cleaned.end)
                cleaned = replace(cleaned, bytes=cleaned.bytes - clean + size)
            tables.put_cleaned(self._partition.key, cleaned)  # from now on the partition may have gaps
            reach("inside_swap")

        reach("before_swap")
        self._partition.change(swap)
        reach("after_swap")
        self.report.bytes += removed - size
        if rewritten is not None:
            self._count_clean(size, horizon_ms)

    def _count_clean(self, size: int, horizon_ms: int) -> None:
        self.clean_bytes += size
        if horizon_ms != NO_HORIZON:
            self._horizons.append(horizon_ms)

    def _fits(self, kept: _Kept) -> bool:
        group = [*self._group, kept]
        return (
            sum(len(stored.rows.values) for stored in group) <= blob.MAX_RECORDS
            and sum(stored.payload_bytes for stored in group) <= blob.MAX_BYTES
            and kept.stored.end - group[0].stored.base <= _LARGEST_SPAN
            and len({stored.horizon_ms for stored in group} - {NO_HORIZON}) <= 1
        )

    def _filter(self, stored: StoredBlob, last: dict[bytes | None, int]) -> _Kept:
        rows, header = stored.rows, stored.header
        newest = np.fromiter(map(last.get, rows.keys, repeat(-1)), dtype=np.int64, count=len(rows.keys))
        keyed = np.array([key is not None for key in rows.keys], dtype=bool)
        deletes = np.array([value is None for value in rows.values], dtype=bool)
        superseded = keyed & (rows.offsets < newest)
        beyond_horizon = header.delete_horizon_ms != NO_HORIZON and self._now_ms >= header.delete_horizon_ms
        expired = keyed & ~superseded & deletes & beyond_horizon
        keep = keyed & ~superseded & ~expired
        self.report.superseded += int(superseded.sum())
        self.report.tombstones += int(expired.sum())
        self.report.without_key += int((~keyed).sum())
        if not bool((keep & deletes).any()):
            horizon_ms = NO_HORIZON
        elif header.delete_horizon_ms != NO_HORIZON:
            horizon_ms = header.delete_horizon_ms
        else:
            horizon_ms = min(self._now_ms + self._partition.settings.delete_retention_ms, LAST_MS)
        return _Kept(stored, _picked(rows, keep), horizon_ms)


def _picked(rows: Rows, keep: npt.NDArray[np.bool_]) -> Rows:
    if bool(keep.all()):
        return rows
    chosen = np.flatnonzero(keep).tolist()
    return Rows(
        rows.offsets[keep],
        rows.timestamps_ms[keep],
        [rows.keys[row] for row in chosen],
        [rows.values[row] for row in chosen],
        None if rows.headers is None else [rows.headers[row] for row in chosen],
    )
