"""How far the next epoch reads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from hayase.core.records import TopicPartition
from hayase.log.protocol import Log

Offsets = Mapping[TopicPartition, int]

_TRIES_MAX = 12

_TAIL = 16
_NO_LIMIT_MS = 1 << 62


def fair_ends(starts: Offsets, ends: Offsets, records_max: int) -> dict[TopicPartition, int]:
    """Ends that cover at most `records_max` offsets: what is short is taken whole, the rest is shared evenly.

    Example:
        >>> a, b = TopicPartition("t", 0), TopicPartition("t", 1)
        >>> fair_ends({a: 0, b: 0}, {a: 10, b: 1000}, 100) == {a: 10, b: 90}
        True
    """
    left = records_max
    chosen = dict(starts)
    by_lag = sorted(starts, key=lambda p: (ends[p] - starts[p], p))
    for position, partition in enumerate(by_lag):
        share = left // (len(by_lag) - position)
        taken = min(ends[partition] - starts[partition], share)
        chosen[partition] = starts[partition] + taken
        left -= taken
    if all(chosen[p] == starts[p] for p in starts):  # fewer records allowed than there are partitions: take one
        first = max(by_lag, key=lambda p: ends[p] - starts[p])
        chosen[first] = min(starts[first] + 1, ends[first])
    return chosen


class TimeCut:
    """Chooses a time T and ends every range at the first record at or after T.

    So an epoch is a prefix of the merged order. T is guessed from how much time the last epochs covered, and corrected
    by halving and doubling.
    """

    def __init__(self) -> None:
        self._time_ms: int | None = None
        self._span_ms = 1_000

    def ends(
        self,
        starts: Offsets,
        ends: Offsets,
        records_max: int,
        firsts: Callable[[], Mapping[TopicPartition, tuple[int, int]]],
        offsets_for_time: Callable[[int], Offsets],
    ) -> dict[TopicPartition, int]:
        """Ends that cover at most `records_max` offsets and at least one; fair shares where no time does.

        Offsets at the starts that have no record (compaction) do not count where they would keep a time from being
        found.

        Args:
            starts: where the epoch begins.
            ends: the ends of the log.
            records_max: the bound.
            firsts: offset and timestamp of the first record from the start on, of each partition that has one; asked
                only if no earlier epoch tells a time, or no time fits.
            offsets_for_time: first offset at or after a time, of each partition.
        """
        begin = self._time_ms if self._time_ms is not None else min((time for _, time in firsts().values()), default=0)
        span, too_far = self._span_ms, None
        best: tuple[int, dict[TopicPartition, int]] | None = None
        for _ in range(_TRIES_MAX):
            at_time = offsets_for_time(begin + span)
            cut = {p: min(max(at_time[p], starts[p]), ends[p]) for p in starts}
            count = sum(cut[p] - starts[p] for p in starts)
            if count > records_max:
                too_far = span
                span = max(1, (span + (best[0] if best else 0)) // 2)
                if best is not None and span <= best[0]:
                    break
            elif count and count >= records_max // 2:
                best = (span, cut)
                break
            else:
                if count:
                    best = (span, cut)
                if too_far is not None:
                    if too_far - span <= 1:
                        break
                    span = (span + too_far) // 2
                else:
                    span *= 4 if count < records_max // 8 else 2
        if best is None:
            self._time_ms = None
            known = firsts()
            behind_gaps = {p: known[p][0] if p in known else ends[p] for p in starts}
            if behind_gaps == starts:
                return fair_ends(starts, ends, records_max)
            if sum(ends[p] - behind_gaps[p] for p in starts) <= records_max:
                return dict(ends)
            return self.ends(behind_gaps, ends, records_max, lambda: known, offsets_for_time)
        self._time_ms = begin + best[0]
        self._span_ms = best[0]
        return best[1]

    def reset(self) -> None:
        """Forget the last time: the log was read to its ends."""
        self._time_ms = None


def last_time_ms(log: Log, partition: TopicPartition, start: int, end: int) -> int:
    """Timestamp of the last record before the end; the largest number if there is none (markers, compaction)."""
    reader = log.reader()
    try:
        tail = [b for b in reader.fetch(partition, max(start, end - _TAIL), end) if len(b)]
    finally:
        reader.close()
    return int(tail[-1].timestamps_ms[-1]) if tail else _NO_LIMIT_MS


def first_records(
    log: Log, starts: Offsets, ends: Offsets, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, tuple[int, int]]:
    """Offset and timestamp of the first record of each that has one: that at the start may have been compacted away."""
    reader = log.reader()
    try:
        batches = {p: next((b for b in reader.fetch(p, starts[p], ends[p]) if len(b)), None) for p in partitions}
    finally:
        reader.close()
    return {p: (int(b.offsets[0]), int(b.timestamps_ms[0])) for p, b in batches.items() if b is not None}
