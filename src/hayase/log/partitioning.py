"""Which rows of a batch go to which partition: one rule for both implementations of the log."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from operator import itemgetter
from typing import TypeVar

import numpy as np

from hayase.core.errors import ProductionError
from hayase.core.records import Headers
from hayase.log.protocol import Int32Array, Int64Array, OutputBatch
from hayase.serde.murmur2 import partitions_for_keys

T = TypeVar("T")


@dataclass(slots=True)
class PartitionRows:
    """The rows of a batch that go to one partition, in their order."""

    partition: int
    keys: list[bytes | None]
    values: list[bytes | None]
    timestamps_ms: Int64Array
    headers: list[Headers] | None

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, rows: slice) -> PartitionRows:
        """Some of the rows."""
        return PartitionRows(
            self.partition,
            self.keys[rows],
            self.values[rows],
            self.timestamps_ms[rows],
            None if self.headers is None else self.headers[rows],
        )


def choose_partitions(batch: OutputBatch, partitions: int) -> Int32Array:
    """The partition of each row: the batch's own choice, else by key (murmur2; null keys by position).

    Args:
        batch: what is to be written.
        partitions: how many partitions the topic has.

    Raises:
        ProductionError: `RECORD_REFUSED`: the batch chose a partition that the topic does not have.
    """
    if batch.partitions is None:
        if partitions == 1:
            return np.zeros(len(batch), dtype=np.int32)
        chosen = partitions_for_keys(batch.keys, partitions)
        if batch.first % partitions:
            without_key = np.array([row for row, key in enumerate(batch.keys) if key is None], np.int64)
            chosen[without_key] = (without_key + batch.first) % partitions
        return chosen
    wrong = np.flatnonzero((batch.partitions < 0) | (batch.partitions >= partitions))
    if len(wrong):
        raise ProductionError(
            "RECORD_REFUSED",
            f"a record was to go to partition {batch.partitions[wrong[0]]} of a topic with {partitions} partitions",
            topic=batch.topic,
            record=int(wrong[0]),
        )
    return batch.partitions


def split_by_partition(batch: OutputBatch, partitions: int) -> Iterator[PartitionRows]:
    """The batch's rows by partition, ascending; only partitions that get any.

    Raises:
        ProductionError: `INVALID_BATCH`: its columns are not equally long, or a timestamp is no 64-bit integer;
            `RECORD_REFUSED`: a partition that does not exist, or a negative timestamp.
    """
    timestamps = _checked_timestamps(batch)
    if len(batch) == 0:
        return
    chosen = choose_partitions(batch, partitions)
    first = int(chosen[0])
    if not np.any(chosen != first):
        yield PartitionRows(first, batch.keys, batch.values, timestamps, batch.headers)
        return
    order = np.argsort(chosen, kind="stable")
    borders = np.flatnonzero(np.diff(chosen[order])) + 1
    for rows in np.split(order, borders):
        picked = rows.tolist()
        yield PartitionRows(
            int(chosen[picked[0]]),
            _pick(batch.keys, picked),
            _pick(batch.values, picked),
            timestamps[rows],
            None if batch.headers is None else _pick(batch.headers, picked),
        )


def _pick(column: list[T], rows: list[int]) -> list[T]:
    if len(rows) == 1:
        return [column[rows[0]]]
    return list(itemgetter(*rows)(column))


def _checked_timestamps(batch: OutputBatch) -> Int64Array:
    lengths = {
        "keys": len(batch.keys),
        "values": len(batch.values),
        "timestamps_ms": len(batch.timestamps_ms),
        "partitions": len(batch) if batch.partitions is None else len(batch.partitions),
        "headers": len(batch) if batch.headers is None else len(batch.headers),
    }
    if len(set(lengths.values())) > 1:
        raise ProductionError(
            "INVALID_BATCH", f"the columns of a batch must be equally long: {lengths}", topic=batch.topic
        )
    try:
        timestamps = np.array(batch.timestamps_ms, dtype=np.int64)
    except (OverflowError, TypeError, ValueError) as error:
        raise ProductionError("INVALID_BATCH", f"timestamps are 64-bit integers: {error}", topic=batch.topic) from error
    if len(timestamps) and timestamps.min() < 0:
        row = int(timestamps.argmin())
        raise ProductionError(
            "RECORD_REFUSED",
            f"a record has the timestamp {timestamps[row]}: milliseconds since 1970 that must not be negative",
            topic=batch.topic,
            record=row,
        )
    return timestamps
