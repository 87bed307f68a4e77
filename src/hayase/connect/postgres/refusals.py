"""Rows and changes of which no record can be made: what becomes of them is a matter of `errors.tolerance`."""

from __future__ import annotations

from collections.abc import Callable

from hayase.connect.exceptions import DataError
from hayase.connect.model import SourceOffset, SourcePartition, SourceRecord
from hayase.connect.postgres.lsn import format_lsn

Report = Callable[[SourceRecord, Exception], None]
"""`SourceTaskContext.report`: counts a record that is left out; raises if none may be."""


def refuse(
    report: Report, error: DataError, topic: str, lsn: int, partition: SourcePartition, offset: SourceOffset
) -> None:
    """Leave out a record whose value cannot be captured.

    Args:
        report: of the task's context.
        error: with table, column and key.
        topic: where the record would go.
        lsn: of the change, or of the position that a snapshot belongs to.
        partition: of the source.
        offset: behind the record.

    Raises:
        ConnectError: `TOLERANCE_EXCEEDED`: `errors.tolerance` is none.
    """
    located = DataError(error.condition, error.message, **error.context, lsn=format_lsn(lsn))
    located.__cause__ = error
    key = error.context.get("key")
    report(SourceRecord(source_partition=partition, source_offset=offset, topic=topic, key=key), located)
