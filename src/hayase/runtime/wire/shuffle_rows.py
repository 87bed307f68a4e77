"""The one schema of everything that crosses a shuffle, and what comes out at the end."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import pyarrow as pa

from hayase.state.delta.journal import EdgeRow

ARROW_SCHEMA = pa.schema(
    [
        ("slot", pa.int32()),
        ("kind", pa.string()),
        ("task", pa.string()),
        ("edge", pa.string()),
        ("origin", pa.string()),
        ("seq", pa.int64()),
        ("payload", pa.binary()),
    ]
)

ROW = "row"
"""Records for a task of a higher level."""
ORDER = "order"
"""The epoch record, for the slot that is to run its bundles of the next level."""
SUMMARY = "summary"
"""A BundleSummary on its way to the driver."""

BATCH_BYTES_MAX = 32_000_000
"""About as much payload is put into one Arrow batch."""


class ShuffleRow(NamedTuple):
    """One row of the schema.

    Attributes:
        slot: that runs what it is for.
        kind: ROW, ORDER or SUMMARY.
        row: of an order `seq` is the level, of a summary `origin` is the bundle and `seq` the epoch.
    """

    slot: int
    kind: str
    row: EdgeRow

    @classmethod
    def order(cls, slot: int, level: int, record: bytes) -> ShuffleRow:
        """Says to the slot that it runs a level of the epoch."""
        return cls(slot, ORDER, EdgeRow("", "", "", level, record))

    @classmethod
    def summary(cls, epoch: int, summary: bytes, bundle: str = "") -> ShuffleRow:
        """A bundle's summary."""
        return cls(0, SUMMARY, EdgeRow("", "", bundle, epoch, summary))


def to_batches(rows: Iterable[ShuffleRow]) -> Iterable[pa.RecordBatch]:
    """Arrow batches of rows, cut by size."""
    batch: list[ShuffleRow] = []
    size = 0
    for row in rows:
        batch.append(row)
        size += len(row.row.payload)
        if size > BATCH_BYTES_MAX:
            yield _batch(batch)
            batch, size = [], 0
    if batch:
        yield _batch(batch)


def _batch(rows: Sequence[ShuffleRow]) -> pa.RecordBatch:
    columns = list(zip(*((slot, kind, *row) for slot, kind, row in rows), strict=True))
    arrays = [pa.array(column, field.type) for column, field in zip(columns, ARROW_SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=ARROW_SCHEMA)


def from_batch(batch: pa.RecordBatch) -> Iterable[ShuffleRow]:
    """The rows of a batch."""
    columns = [column.to_pylist() for column in batch.columns]
    return (ShuffleRow(slot, kind, EdgeRow(*row)) for slot, kind, *row in zip(*columns, strict=True))
