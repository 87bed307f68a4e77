"""Rows as Debezium's events: schemas of keys and envelopes, and the values in them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from typing import NamedTuple

from hayase.connect.exceptions import DataError
from hayase.connect.postgres.catalog import Table
from hayase.connect.postgres.column_types import ColumnType, ColumnTypes
from hayase.connect.postgres.config import CaptureConfig
from hayase.connect.postgres.pgoutput import Cell, Unchanged
from hayase.connect.schema import (
    INT64_SCHEMA,
    OPTIONAL_BYTES_SCHEMA,
    OPTIONAL_INT64_SCHEMA,
    OPTIONAL_STRING_SCHEMA,
    STRING_SCHEMA,
    ConnectSchema,
    struct_schema,
)

_SNAPSHOT = (
    STRING_SCHEMA.named(
        "io.debezium.data.Enum",
        version=1,
        parameters={"allowed": "true,first,first_in_data_collection,last_in_data_collection,last,false,incremental"},
    )
    .as_optional()
    .with_default("false")
)
SOURCE_SCHEMA = struct_schema(
    {
        "version": STRING_SCHEMA,
        "connector": STRING_SCHEMA,
        "name": STRING_SCHEMA,
        "ts_ms": INT64_SCHEMA,
        "snapshot": _SNAPSHOT,
        "db": STRING_SCHEMA,
        "sequence": OPTIONAL_STRING_SCHEMA,
        "ts_us": OPTIONAL_INT64_SCHEMA,
        "ts_ns": OPTIONAL_INT64_SCHEMA,
        "schema": STRING_SCHEMA,
        "table": STRING_SCHEMA,
        "txId": OPTIONAL_INT64_SCHEMA,
        "lsn": OPTIONAL_INT64_SCHEMA,
        "xmin": OPTIONAL_INT64_SCHEMA,
        "origin": OPTIONAL_STRING_SCHEMA,
        "origin_lsn": OPTIONAL_INT64_SCHEMA,
    },
    name="io.debezium.connector.postgresql.Source",
    version=1,
)
TRANSACTION_SCHEMA = struct_schema(
    {"id": STRING_SCHEMA, "total_order": INT64_SCHEMA, "data_collection_order": INT64_SCHEMA},
    name="event.block",
    version=1,
    optional=True,
)
ENVELOPE_VERSION = 2


class Position(NamedTuple):
    """Where an event is from.

    Attributes:
        lsn: of the change.
        last_commit: where the commit record of the transaction before ends; `None`: unknown.
        xid: of the transaction.
        commit_us: when it committed, microseconds since 1970.
        snapshot: `false`, or which record of a snapshot it is.
    """

    lsn: int
    last_commit: int | None
    xid: int | None
    commit_us: int
    snapshot: str = "false"


@dataclass(frozen=True, slots=True)
class TableColumnPlan:
    """A column that is captured: where it is in a row, and how its values are made."""

    index: int
    name: str
    optional: bool
    type: ColumnType


Row = dict[str, object]


class TableEvents:
    """Makes the events of one table in one shape.

    Attributes:
        topic: where they go.
        key_columns: columns of the key.
        row_columns: columns of the row.
        left_out: names of columns whose types are not captured.
        columns: how many values each row has.

    Args:
        config: the configuration.
        table: as the catalog has it: which columns may be null, and the key.
        columns: name, type and modifier of the values of each row, in order.
        types: the mapping of types.
        now_us: microseconds since 1970.
    """

    def __init__(
        self,
        config: CaptureConfig,
        table: Table,
        columns: Sequence[tuple[str, int, int]],
        types: ColumnTypes,
        now_us: Callable[[], int] = lambda: time.time_ns() // 1000,
    ) -> None:
        self.table = table
        self.topic = config.topic(table.namespace, table.name)
        self.config = config
        self.now_us = now_us
        not_null = {column.name for column in table.columns if column.not_null}
        defaults = {column.name: column.default for column in table.columns}
        # Deletes carry the columns of the replica identity only; the key is made of what they carry.
        key_order = table.identity_key if table.identity == "i" else table.primary_key or table.identity_key
        self.row_columns: list[TableColumnPlan] = []
        self.key_columns: list[TableColumnPlan] = []
        self.left_out: list[str] = []
        self.columns = len(columns)
        for index, (name, type_oid, modifier) in enumerate(columns):
            found = types.find_column(type_oid, modifier, defaults.get(name))
            if found is None:
                self.left_out.append(name)
                continue
            column = TableColumnPlan(index, name, name not in not_null, found)
            if name in key_order:
                self.key_columns.append(column)
            if config.captures_column(table.namespace, table.name, name):
                self.row_columns.append(column)
        self.key_columns.sort(key=lambda column: key_order.index(column.name))
        names = [name for name, _, _ in columns]
        self._identity = [names.index(name) for name in table.identity_key if name in names]
        self.key_schema = self._fields(self.key_columns, f"{self.topic}.Key") if self.key_columns else None
        row = self._fields(self.row_columns, f"{self.topic}.Value", optional=True)
        self.value_schema = struct_schema(
            {
                "before": row,
                "after": row,
                "source": SOURCE_SCHEMA,
                "transaction": TRANSACTION_SCHEMA,
                "op": STRING_SCHEMA,
                "ts_ms": OPTIONAL_INT64_SCHEMA,
                "ts_us": OPTIONAL_INT64_SCHEMA,
                "ts_ns": OPTIONAL_INT64_SCHEMA,
            },
            name=f"{self.topic}.Envelope",
            version=ENVELOPE_VERSION,
        )

    @staticmethod
    def _fields(columns: Sequence[TableColumnPlan], name: str, *, optional: bool = False) -> ConnectSchema:
        return struct_schema(
            {column.name: column.type.schema.as_optional(column.optional) for column in columns},
            name=name,
            optional=optional,
        )

    @property
    def has_key(self) -> bool:
        """Whether records have a key."""
        return bool(self.key_columns)

    def unexpected_nulls(self, new: Sequence[Cell]) -> set[str]:
        """Columns of a new row that are null, though the catalog says that they cannot be: it says so since later."""
        return {column.name for column in self.row_columns if not column.optional and new[column.index] is None}

    def identity(self, cells: Sequence[Cell]) -> tuple[Cell, ...]:
        """The values by which changes name a row, as text."""
        return tuple([cells[index] for index in self._identity])

    def key(self, cells: Sequence[Cell]) -> Row | None:
        """The key of a row."""
        return self._values(self.key_columns, cells) if self.key_columns else None

    def row(self, cells: Sequence[Cell]) -> Row:
        """A row."""
        return self._values(self.row_columns, cells)

    def _values(self, columns: Sequence[TableColumnPlan], cells: Sequence[Cell]) -> Row:
        values: Row = {}
        for column in columns:
            cell = cells[column.index]
            if cell is None:
                values[column.name] = None if column.optional else column.type.fallback
            elif isinstance(cell, Unchanged):
                unavailable = column.type.unavailable
                values[column.name] = column.type.fallback if unavailable is None else unavailable
            else:
                try:
                    values[column.name] = column.type.convert(cell)
                except (ValueError, ArithmeticError, DataError) as error:
                    raise self.refused(cells, column, error) from error
        return values

    def refused(self, cells: Sequence[Cell], column: TableColumnPlan, error: Exception) -> DataError:
        """The error for a row with a value that cannot be captured."""
        why = error.message if isinstance(error, DataError) else str(error)
        key = {each.name: cells[each.index] for each in self.key_columns} or None
        return DataError(
            "INVALID_VALUE",
            f"the value {str(cells[column.index])!r:.80} cannot be captured: {why}",
            table=self.table.full_name,
            column=column.name,
            key=key,
        )

    def envelope(self, op: str, before: Row | None, after: Row | None, position: Position) -> Row:
        """The value of an event."""
        now_us = self.now_us()
        return {
            "before": before,
            "after": after,
            "source": source_block(self.config, position, self.table.namespace, self.table.name),
            "transaction": None,
            "op": op,
            "ts_ms": now_us // 1000,
            "ts_us": now_us,
            "ts_ns": now_us * 1000,
        }


@cache
def _version() -> str:
    # Each look at it reads the metadata of the package.
    return metadata.version("hayase")


def source_block(config: CaptureConfig, position: Position, namespace: str, table: str) -> Row:
    """The field `source` of an event."""
    commit_us = position.commit_us
    last_commit = "null" if position.last_commit is None else f'"{position.last_commit}"'
    return {
        "version": _version(),
        "connector": "postgresql",
        "name": config.prefix,
        "ts_ms": commit_us // 1000,
        "snapshot": position.snapshot,
        "db": config.database,
        "sequence": f'[{last_commit},"{position.lsn}"]',
        "ts_us": commit_us,
        "ts_ns": commit_us * 1000,
        "schema": namespace,
        "table": table,
        "txId": position.xid,
        "lsn": position.lsn,
        "xmin": None,
        "origin": None,
        "origin_lsn": None,
    }


HEARTBEAT_KEY_SCHEMA = struct_schema(
    {"serverName": STRING_SCHEMA}, name="io.debezium.connector.common.ServerNameKey", version=1
)
HEARTBEAT_VALUE_SCHEMA = struct_schema(
    {"ts_ms": INT64_SCHEMA}, name="io.debezium.connector.common.Heartbeat", version=1
)
MESSAGE_KEY_SCHEMA = struct_schema(
    {"prefix": OPTIONAL_STRING_SCHEMA}, name="io.debezium.connector.postgresql.MessageKey", version=1
)
MESSAGE_VALUE_SCHEMA = struct_schema(
    {
        "op": STRING_SCHEMA,
        "ts_ms": OPTIONAL_INT64_SCHEMA,
        "source": SOURCE_SCHEMA,
        "transaction": TRANSACTION_SCHEMA,
        "message": struct_schema(
            {"prefix": OPTIONAL_STRING_SCHEMA, "content": OPTIONAL_BYTES_SCHEMA},
            name="io.debezium.connector.postgresql.Message",
            version=1,
        ),
    },
    name="io.debezium.connector.postgresql.MessageValue",
    version=1,
)


def message_value(config: CaptureConfig, position: Position, prefix: str, content: bytes, now_us: int) -> Row:
    """The value of the event of a logical decoding message."""
    return {
        "op": "m",
        "ts_ms": now_us // 1000,
        "source": source_block(config, position, "", ""),
        "transaction": None,
        "message": {"prefix": prefix, "content": content},
    }
