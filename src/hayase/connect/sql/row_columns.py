"""From records by column to rows by column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hayase.connect.columns import Column, RecordColumns, SingleColumn, StructColumns
from hayase.connect.schema import ConnectSchema
from hayase.connect.sql.row_change import ENVELOPE, KAFKA_KEY, RowChange, RowChangeKind
from hayase.connect.sql.sink_config import PrimaryKeyMode


@dataclass(frozen=True, slots=True)
class RowColumns:
    """Changes of rows of one table, in order; each writes a row, or deletes one.

    Attributes:
        table: its name.
        key: columns of the primary key, of all changes.
        present: which changes write a row, at least one, ascending; `None`: all of them.
        values: all other columns, of the changes that write.
        schemas: of the columns, as far as they are known.
    """

    table: str
    key: Mapping[str, Column]
    present: Sequence[int] | None
    values: Mapping[str, Column]
    schemas: Mapping[str, ConnectSchema]

    def first(self) -> RowChange:
        """The first row that is written, as a change alone."""
        row = 0 if self.present is None else self.present[0]
        key = {name: column[row] for name, column in self.key.items()}
        values = {name: column[0] for name, column in self.values.items()}
        return RowChange(self.table, RowChangeKind.WRITE, key, values, self.schemas)


def row_columns(
    records: RecordColumns, table: str, mode: PrimaryKeyMode, fields: Sequence[str], *, deletes: bool
) -> RowColumns | None:
    """The changes that records make; `None`: they have to be looked at one by one, or make none.

    Args:
        records: in order.
        table: where the rows are.
        mode: where the primary key comes from.
        fields: columns of the primary key; none: all fields of the record's key.
        deletes: whether a record without a row deletes the one with its key.

    Raises:
        DataError: a value does not fit its schema.
    """
    rows = None if records.value is None else _unwrapped(records.value)
    if rows is None or (rows.present is not None and deletes and mode is not PrimaryKeyMode.RECORD_KEY):
        return None
    present = rows.present
    names, schemas = rows.names, _schemas(rows)
    keys: dict[str, Column] = {}
    if mode is PrimaryKeyMode.RECORD_KEY:
        key = None if records.key is None else _key_columns(records.key, fields)
        if key is None:
            return None
        keys, key_schemas = key
        schemas |= key_schemas
        if present is not None and not deletes:
            keys = {name: [column[row] for row in present] for name, column in keys.items()}
    elif mode is PrimaryKeyMode.RECORD_VALUE:
        if not set(fields) <= set(names):
            return None
        keys = {name: rows.column(name) for name in fields}
    elif mode is PrimaryKeyMode.KAFKA:
        offsets: Column = list(records.offsets.tolist() if present is None else records.offsets[present].tolist())
        place: tuple[Column, ...] = ([records.topic] * len(offsets), [records.partition] * len(offsets), offsets)
        keys = dict(zip(KAFKA_KEY, place, strict=True))
    return RowColumns(
        table,
        keys,
        present if deletes else None,
        {name: rows.column(name) for name in names if name not in keys},
        schemas,
    )


def _key_columns(
    key: StructColumns | SingleColumn, fields: Sequence[str]
) -> tuple[dict[str, Column], dict[str, ConnectSchema]] | None:
    """Columns of the primary key that keys of records make, and their schemas; `None`: there are keys without."""
    if isinstance(key, SingleColumn):
        if len(fields) != 1 or None in key.values:
            return None
        return {fields[0]: key.values}, {} if key.schema is None else {fields[0]: key.schema}
    if key.present is not None or not set(fields) <= set(key.names):
        return None
    return {name: key.column(name) for name in fields or key.names}, _schemas(key)


def _unwrapped(value: StructColumns) -> StructColumns | None:
    """The rows that values hold: those behind a change, where values are Debezium's envelopes."""
    return value.struct("after") if set(value.names) >= ENVELOPE else value


def _schemas(structs: StructColumns) -> dict[str, ConnectSchema]:
    return {} if structs.schema is None else {field.name: field.schema for field in structs.schema.fields}
