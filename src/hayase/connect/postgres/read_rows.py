"""Rows that a statement has read, as records: of the first snapshot, and of incremental ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hayase.connect.contracts import SerializedJson
from hayase.connect.exceptions import DataError
from hayase.connect.model import SerializedRecords, SourceOffset, SourcePartition, SourceRecord
from hayase.connect.postgres.catalog import Table
from hayase.connect.postgres.column_types import ColumnTypes
from hayase.connect.postgres.config import CaptureConfig
from hayase.connect.postgres.events import Position, TableEvents
from hayase.connect.postgres.refusals import Report, refuse
from hayase.connect.postgres.rendered import RenderedEvents

Cells = Sequence[str | None]
"""The values of a row as the server writes them, in the order of the table's columns."""


def table_events(config: CaptureConfig, table: Table, types: ColumnTypes) -> TableEvents:
    """What makes the events of rows with all columns of a table."""
    columns = [(column.name, column.type_oid, column.modifier) for column in table.columns]
    return TableEvents(config, table, columns, types)


def row_records(
    events: TableEvents,
    rows: Iterable[tuple[Cells, Position, SourceOffset]],
    partition: SourcePartition,
    report: Report,
) -> list[SourceRecord]:
    """Rows as records whose values are still to be converted.

    Args:
        events: of their table.
        rows: each with its position, and the offset behind it.
        partition: of the source, of all of them.
        report: takes rows of which no record can be made.
    """
    records = []
    for cells, position, offset in rows:
        try:
            key, row = events.key(cells), events.row(cells)
        except DataError as error:
            refuse(report, error, events.topic, position.lsn, partition, offset)
            continue
        records.append(
            SourceRecord(
                source_partition=partition,
                source_offset=offset,
                topic=events.topic,
                key_schema=events.key_schema,
                key=key,
                value_schema=events.value_schema,
                value=events.envelope("r", None, row, position),
            )
        )
    return records


def rendered_rows(
    events: TableEvents,
    json: SerializedJson,
    rows: Sequence[tuple[Cells, Position]],
    now_us: int,
    partition: SourcePartition,
    offset: SourceOffset,
    report: Report,
) -> SerializedRecords | None:
    """Rows as records that are written as JSON already; `None`: no record could be made of any.

    Args:
        events: of their table.
        json: how they are written.
        rows: each with its position.
        now_us: when they were read, microseconds since 1970.
        partition: of the source, of all of them.
        offset: behind the last of them.
        report: takes rows of which no record can be made.
    """
    rendered = RenderedEvents(events, json)
    written = []
    for cells, position in rows:
        try:
            written.append(rendered.record("r", cells, position.lsn, position, now_us))
        except DataError as error:
            refuse(report, error, events.topic, position.lsn, partition, offset)
    if not written:
        return None
    return SerializedRecords(
        topic=events.topic,
        keys=[key for key, _ in written],
        values=[value for _, value in written],
        timestamps_ms=[now_us // 1000] * len(written),
        source_partition=partition,
        source_offset=offset,
    )
