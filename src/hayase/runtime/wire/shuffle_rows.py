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


class SparkRow(NamedTuple):
    """One row of the schema."""

    slot: int
    kind: str
    task: str
    edge: str
    origin: str
    seq: int
    payload: bytes

    @classmethod
    def of_edge(cls, slot: int, row: EdgeRow) -> SparkRow:
        """A row for a task of a higher level."""
        return cls(slot, ROW, row.task, row.edge, row.origin, row.seq, row.payload)

    def edge_row(self) -> EdgeRow:
        """The other way."""
        return EdgeRow(self.task, self.edge, self.origin, self.seq, self.payload)


def to_batches(rows: Iterable[SparkRow]) -> Iterable[pa.RecordBatch]:
    """Arrow batches of rows, cut by size."""
    held: list[SparkRow] = []
    size = 0
    for row in rows:
        held.append(row)
        size += len(row.payload)
        if size > BATCH_BYTES_MAX:
            yield _batch(held)
            held, size = [], 0
    if held:
        yield _batch(held)


def _batch(rows: Sequence[SparkRow]) -> pa.RecordBatch:
    columns = list(zip(*rows, strict=True))
    arrays = [pa.array(column, field.type) for column, field in zip(columns, ARROW_SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=ARROW_SCHEMA)


def from_batch(batch: pa.RecordBatch) -> Iterable[SparkRow]:
    """The rows of a batch."""
    columns = [column.to_pylist() for column in batch.columns]
    return (SparkRow(*values) for values in zip(*columns, strict=True))
