"""Rows that a statement has read, as records: of the first snapshot, and of incremental ones."""

from __future__ import annotations

from collections.abc import Sequence

from hayase.connect.contracts import SerializedJson
from hayase.connect.model import SerializedRecords, SourceOffset, SourcePartition, SourceRecord
from hayase.connect.postgres.catalog import Table
from hayase.connect.postgres.column_types import ColumnTypes
from hayase.connect.postgres.config import CaptureConfig
from hayase.connect.postgres.events import Position, TableEvents
from hayase.connect.postgres.rendered import RenderedEvents

Cells = Sequence[str | None]
"""The values of a row as the server writes them, in the order of the table's columns."""


def table_events(config: CaptureConfig, table: Table, types: ColumnTypes) -> TableEvents:
    """What makes the events of rows with all columns of a table."""
    columns = [(column.name, column.type_oid, column.modifier) for column in table.columns]
    return TableEvents(config, table, columns, types)


def row_record(
    events: TableEvents, cells: Cells, position: Position, partition: SourcePartition, offset: SourceOffset
) -> SourceRecord:
    """A row as a record, whose values are still to be converted."""
    return SourceRecord(
        source_partition=partition,
        source_offset=offset,
        topic=events.topic,
        key_schema=events.key_schema,
        key=events.key(cells),
        value_schema=events.value_schema,
        value=events.envelope("r", None, events.row(cells), position),
    )


def rendered_rows(
    events: TableEvents,
    json: SerializedJson,
    rows: Sequence[tuple[Cells, Position]],
    now_us: int,
    partition: SourcePartition,
    offset: SourceOffset,
) -> SerializedRecords:
    """Rows as records that are written as JSON already.

    Args:
        events: of their table.
        json: how they are written.
        rows: each with its position.
        now_us: when they were read, microseconds since 1970.
        partition: of the source, of all of them.
        offset: behind the last of them.
    """
    rendered = RenderedEvents(events, json)
    written = [rendered.record("r", cells, position, now_us) for cells, position in rows]
    return SerializedRecords(
        topic=events.topic,
        keys=[key for key, _ in written],
        values=[value for _, value in written],
        timestamps_ms=[now_us // 1000] * len(written),
        source_partition=partition,
        source_offset=offset,
    )
