"""Writes changes of rows into tables of PostgreSQL: by COPY, and one statement for each table and kind of change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from hayase.connect.config.config_def import TypedConfig
from hayase.connect.sql.copy_text import copy_lines, copy_texts
from hayase.connect.sql.offset_table import Execute
from hayase.connect.sql.postgres_types import column_type, storable
from hayase.connect.sql.row_change import RowChange, RowChangeKind, runs
from hayase.connect.sql.row_columns import RowColumns
from hayase.connect.sql.sink_config import InsertMode
from hayase.connect.sql.tables import Tables, quoted

if TYPE_CHECKING:
    import psycopg


@dataclass(frozen=True, slots=True)
class CopyColumns:
    """Changes of rows whose columns are texts for COPY.

    Attributes:
        rows: the changes.
        key: texts of the columns of the primary key.
        values: texts of all other columns, of the changes that write.
    """

    rows: RowColumns
    key: list[list[str]]
    values: list[list[str]]


def copy_columns(rows: RowColumns) -> CopyColumns | None:
    """Columns as texts; `None`: there are values that only the driver can write, or no columns."""
    key, values = (
        [copy_texts(column, rows.schemas.get(name)) for name, column in columns.items()]
        for columns in (rows.key, rows.values)
    )
    keys, others = [each for each in key if each is not None], [each for each in values if each is not None]
    whole = len(keys) == len(key) and len(others) == len(values) and (keys or others)
    return CopyColumns(rows, keys, others) if whole else None


def executing(database: psycopg.Connection[Any]) -> Execute:
    """Statements without parameters are sent as they are: a name may hold `%`."""
    return lambda statement, params: database.execute(statement, params or None)


_UNLIKE_TEXTS = frozenset((Decimal, float))
"""Types whose equal values may have several texts."""


def key_value(value: object) -> object:
    """A value of a key to compare by: equal for decimals and floats that PostgreSQL takes for the same key.

    Example:
        >>> key_value(Decimal("1.0")) == key_value(Decimal("1.00")), key_value(1) == key_value("1")
        (True, False)
    """
    if isinstance(value, Decimal) and value.is_finite():
        return value
    return repr(value + 0.0 if isinstance(value, float) else value)  # -0.0 is 0.0


_ODD_KEYS = """SELECT count(*) > 0 FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
LEFT JOIN pg_collation c ON c.oid = a.attcollation
WHERE a.attrelid = to_regclass(%s) AND a.attname = ANY (%s) AND NOT a.attisdropped
AND (t.typname IN ('citext', 'bpchar') OR NOT coalesce(c.collisdeterministic, true))"""
"""Whether columns take texts for equal that differ: in case, in blanks at their end."""


class RowWriter:
    """Writes in transactions of one connection at a time.

    Attributes:
        one_by_one: whether changes are written one after the other, as their keys may be equal to the database alone.

    Args:
        config: with the keys of `sql_sink_keys`.
        mode: what becomes of rows.
    """

    def __init__(self, config: TypedConfig, mode: InsertMode) -> None:
        self._mode = mode
        self._tables = Tables(config, _columns_of, _type, lock_tables)
        self._stages: dict[tuple[str, tuple[str, ...]], str] = {}
        self._odd: dict[tuple[str, ...], bool] = {}
        self.one_by_one = False

    def forget(self) -> None:
        """Forget tables that were made: they are gone with a transaction that was rolled back, or a connection."""
        self._stages = {}
        self._odd = {}
        self._tables.forget()

    def keeps_order(self, database: psycopg.Connection[Any], table: str, key: Sequence[str]) -> bool:
        """Whether changes of a table are written one after the other: the last of each key is not known here."""
        where = (table, *key)
        if where not in self._odd:
            row = database.execute(_ODD_KEYS, (quoted(table), list(key))).fetchone() if key else None
            self._odd[where] = bool(row and row[0])
        return self.one_by_one or self._odd[where]

    def takes(self, columns: CopyColumns) -> bool:
        """Whether changes can be written by column: in this mode their order does not matter, or there is but one."""
        deletes = columns.rows.present is not None
        return bool(columns.key) if self._mode is InsertMode.UPSERT else self._mode is InsertMode.INSERT and not deletes

    def write_columns(self, database: psycopg.Connection[Any], columns: CopyColumns) -> None:
        """Write changes that it takes."""
        rows = columns.rows
        self._tables.prepare(executing(database), rows.first())
        names = [*rows.key, *rows.values]
        if self._mode is InsertMode.INSERT:
            _copy_texts(database, quoted(rows.table), names, [*columns.key, *columns.values])
            return
        key, table = list(rows.key), quoted(rows.table)
        written, deleted = _last_changes(columns)
        if written[0]:
            stage = self._stage(database, rows.table, names)
            _copy_texts(database, stage, names, written)
            self._merge(database, table, stage, key, list(rows.values))
        if deleted[0]:
            stage = self._stage(database, rows.table, key)
            _copy_texts(database, stage, key, deleted)
            self._delete(database, table, stage, key)

    def write_rows(self, database: psycopg.Connection[Any], changes: list[RowChange]) -> None:
        """Write changes in order."""
        keys = {(change.table, *change.key) for change in changes} if self._mode is InsertMode.UPSERT else ()
        if any(self.keeps_order(database, table, key) for table, *key in keys):
            for change in changes:
                self._write_run(database, [change])
            return
        for run in self._runs(changes):
            self._write_run(database, run)

    def _runs(self, changes: list[RowChange]) -> list[list[RowChange]]:
        """Changes that one statement can make, in order; of upserts of one shape the last of each key is enough."""
        if self._mode is not InsertMode.UPSERT or any(not change.key for change in changes):
            return list(runs(changes))
        shapes: dict[str, set[tuple[str, ...]]] = {}
        for change in changes:
            if change.kind is RowChangeKind.WRITE:
                shapes.setdefault(change.table, set()).add((*change.key, "", *change.values))
        if any(len(each) > 1 for each in shapes.values()):
            return list(runs(changes))
        last: dict[tuple[object, ...], RowChange] = {}
        for change in changes:
            last[(change.table, *map(key_value, change.key.values()))] = change
        by_kind: dict[tuple[object, ...], list[RowChange]] = {}
        for change in last.values():
            by_kind.setdefault(change.shape, []).append(change)
        return list(by_kind.values())

    def _write_run(self, database: psycopg.Connection[Any], run: Sequence[RowChange]) -> None:
        first = run[0]
        if not self._tables.prepare(executing(database), first):
            return
        table, key, values = quoted(first.table), list(first.key), list(first.values)
        deletes = first.kind is RowChangeKind.DELETE
        names = key if deletes else [*key, *values]
        if not names:
            for _ in run:
                database.execute(f"INSERT INTO {table} DEFAULT VALUES")
            return
        if not deletes and (self._mode is InsertMode.INSERT or not key):
            _copy_rows(database, table, names, run)
            return
        if not deletes and self._mode is InsertMode.UPSERT:
            # Of several rows with one key in a statement only the last may be there.
            run = list({tuple(map(key_value, each.key.values())): each for each in run}.values())
        stage = self._stage(database, first.table, names)
        _copy_rows(database, stage, names, run)
        if deletes:
            self._delete(database, table, stage, key)
        else:
            self._merge(database, table, stage, key, values)

    def _merge(
        self, database: psycopg.Connection[Any], table: str, stage: str, key: Sequence[str], values: Sequence[str]
    ) -> None:
        """Write the rows of a stage, one for each key, and empty it."""
        if self._mode is InsertMode.UPDATE:
            assignments = ", ".join(f"{quoted(name)} = s.{quoted(name)}" for name in values)
            if assignments:
                database.execute(f"UPDATE {table} t SET {assignments} FROM {stage} s WHERE {_same(key)}")
        else:
            columns = ", ".join(map(quoted, (*key, *values)))
            changed = ", ".join(f"{quoted(name)} = excluded.{quoted(name)}" for name in values)
            action = f"UPDATE SET {changed}" if changed else "NOTHING"
            database.execute(
                f"INSERT INTO {table} ({columns}) SELECT {columns} FROM {stage} "
                f"ON CONFLICT ({', '.join(map(quoted, key))}) DO {action}"
            )
        database.execute(f"TRUNCATE {stage}")

    @staticmethod
    def _delete(database: psycopg.Connection[Any], table: str, stage: str, key: Sequence[str]) -> None:
        """Delete the rows whose keys a stage has, and empty it."""
        database.execute(f"DELETE FROM {table} t USING {stage} s WHERE {_same(key)}")
        database.execute(f"TRUNCATE {stage}")

    def _stage(self, database: psycopg.Connection[Any], table: str, names: Sequence[str]) -> str:
        """A temporary table with these columns of a table."""
        where = (table, tuple(names))
        stage = self._stages.get(where)
        if stage is None:
            stage = f"hayase_stage_{len(self._stages)}"
            columns = ", ".join(map(quoted, names))
            database.execute(f"DROP TABLE IF EXISTS pg_temp.{stage}")
            database.execute(f"CREATE TEMP TABLE {stage} AS SELECT {columns} FROM {quoted(table)} WITH NO DATA")
            self._stages[where] = stage
        return f"pg_temp.{stage}"


def _last_changes(columns: CopyColumns) -> tuple[list[list[str]], list[list[str]]]:
    """Of each key the last change: columns of the rows that are written, and of the keys that are deleted."""
    present, key = columns.rows.present, columns.key
    compared: list[Sequence[object]] = [
        list(map(key_value, column)) if not _UNLIKE_TEXTS.isdisjoint(map(type, column)) else texts
        for column, texts in zip(columns.rows.key.values(), key, strict=True)
    ]
    keys: Sequence[object] = compared[0] if len(key) == 1 else list(zip(*compared, strict=True))
    last: dict[object, int] = dict(zip(keys, range(len(keys)), strict=True))
    if present is None and len(last) == len(keys):
        return [*key, *columns.values], [[]]
    row_of = dict(zip(present, range(len(present)), strict=True)) if present is not None else None
    changes = [change for change in last.values() if row_of is None or change in row_of]
    rows = changes if row_of is None else [row_of[change] for change in changes]
    deleted = [] if row_of is None else [change for change in last.values() if change not in row_of]
    written = [[column[change] for change in changes] for column in key]
    written += [[column[row] for row in rows] for column in columns.values]
    return written, [[column[change] for change in deleted] for column in key]


def _copy_texts(
    database: psycopg.Connection[Any], table: str, names: Sequence[str], columns: Sequence[Sequence[str]]
) -> None:
    with database.cursor() as cursor, cursor.copy(_copy(table, names)) as copy:
        copy.write(copy_lines(columns))


def _copy(table: str, names: Sequence[str]) -> str:
    return f"COPY {table} ({', '.join(map(quoted, names))}) FROM STDIN"


def _same(key: Sequence[str]) -> str:
    return " AND ".join(f"t.{quoted(name)} = s.{quoted(name)}" for name in key)


def _copy_rows(database: psycopg.Connection[Any], table: str, names: Sequence[str], run: Sequence[RowChange]) -> None:
    schemas = run[0].schemas
    key = run[0].key
    stored = [(name, name in key, storable(schemas.get(name))) for name in names]
    with (
        database.cursor() as cursor,
        cursor.copy(_copy(table, names)) as copy,
    ):
        for change in run:
            row = []
            for name, in_key, convert in stored:
                value = (change.key if in_key else change.values)[name]
                row.append(None if value is None else convert(value))
            copy.write_row(row)


def _columns_of(execute: Execute, table: str) -> set[str]:
    statement = (
        "SELECT array_agg(attname::text) FROM pg_attribute "
        "WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped"
    )
    return set(execute(statement, (quoted(table),)).fetchone()[0] or ())


def lock_tables(execute: Execute) -> None:
    """Wait until no other transaction of a sink makes tables: the server lets but one make a table of a name."""
    execute("SELECT pg_advisory_xact_lock(hashtextextended('hayase-sink tables', 0))", ())


def _type(change: RowChange, name: str) -> str:
    return column_type(change.schemas.get(name), change.key.get(name, change.values.get(name)))
