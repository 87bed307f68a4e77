"""What the database's own catalog says about tables, columns and types."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

Query = Callable[[str, Sequence[object]], list[tuple[Any, ...]]]
"""Runs SQL with parameters and gives its rows."""


@dataclass(frozen=True, slots=True)
class PostgresType:
    """A type.

    Attributes:
        oid: its number.
        namespace: its schema.
        name: its name.
        kind: `b`ase, `c`omposite, `d`omain, `e`num, `p`seudo, `r`ange, `m`ultirange.
        element: of an array, the type of its elements; else 0.
        base: of a domain, the type below it; else 0.
        modifier: of a domain, the modifier of the type below it.
        labels: of an enum, in order.
    """

    oid: int
    namespace: str
    name: str
    kind: str
    element: int
    base: int
    modifier: int
    labels: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column of a table, as the catalog has it; `default` is an expression, `None`: it has none."""

    name: str
    type_oid: int
    modifier: int
    not_null: bool
    default: str | None = None


@dataclass(frozen=True, slots=True)
class Table:
    """A table that a publication has.

    Attributes:
        namespace: its schema.
        name: its name.
        partitioned: whether it is the root of partitions.
        identity: replica identity: `d`efault, `n`othing, `f`ull, `i`ndex.
        columns: those that the publication has, in order.
        primary_key: names of its columns.
        identity_key: columns by which changes name a row: those of the replica identity, else of the primary key.
        row_filter: of the publication, as SQL; `None`: all rows.
    """

    namespace: str
    name: str
    partitioned: bool
    identity: str
    columns: tuple[TableColumn, ...]
    primary_key: tuple[str, ...]
    identity_key: tuple[str, ...]
    row_filter: str | None = None

    @property
    def full_name(self) -> str:
        """`schema.table`."""
        return f"{self.namespace}.{self.name}"


_TYPES = """
SELECT t.oid::int8, n.nspname, t.typname, t.typtype::text,
       CASE WHEN t.typcategory = 'A' THEN t.typelem ELSE 0 END::int8,
       t.typbasetype::int8, t.typtypmod,
       ARRAY(SELECT e.enumlabel::text FROM pg_enum e WHERE e.enumtypid = t.oid ORDER BY e.enumsortorder)
FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace
"""
_TABLES = """
SELECT n.nspname, c.relname, c.relkind = 'p', c.relreplident::text,
       ARRAY(SELECT a.attname::text FROM pg_attribute a JOIN pg_index i ON i.indrelid = c.oid AND i.indisprimary
             AND a.attnum = ANY (i.indkey::int2[]) WHERE a.attrelid = c.oid
             ORDER BY array_position(i.indkey::int2[], a.attnum)),
       ARRAY(SELECT a.attname::text FROM pg_attribute a JOIN pg_index i ON i.indrelid = c.oid AND i.indisreplident
             AND a.attnum = ANY (i.indkey::int2[]) WHERE a.attrelid = c.oid
             ORDER BY array_position(i.indkey::int2[], a.attnum)),
       c.oid::int8
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p')
"""
_COLUMNS = """
SELECT a.attname::text, a.atttypid::int8, a.atttypmod,
       a.attnotnull AND NOT EXISTS (SELECT FROM pg_constraint k WHERE k.conrelid = a.attrelid AND k.contype = 'n'
                                    AND a.attnum = ANY (k.conkey) AND NOT k.convalidated),
       CASE WHEN a.attgenerated = '' THEN pg_get_expr(d.adbin, d.adrelid) END
FROM pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
WHERE a.attrelid = %s AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
"""


class TypeRegistry:
    """The types of a database, read again when an unknown one turns up.

    Args:
        query: asks the database.
    """

    def __init__(self, query: Query) -> None:
        self._query = query
        self._types: dict[int, PostgresType] = {}

    def get(self, oid: int) -> PostgresType | None:
        """The type with this number; `None` if it was dropped."""
        if oid not in self._types:
            self._types = {
                oid: PostgresType(oid, namespace, name, kind, element, base, modifier, tuple(labels))
                for oid, namespace, name, kind, element, base, modifier, labels in self._query(_TYPES, ())
            }
        return self._types.get(oid)


def read_table(query: Query, namespace: str, name: str) -> Table | None:
    """A table as it is now; `None` if there is none."""
    return _table(query, query(f"{_TABLES} AND n.nspname = %s AND c.relname = %s", (namespace, name)))


def read_table_of(query: Query, oid: int) -> Table | None:
    """The table with a number as it is now, under whatever name; `None` if it was dropped."""
    return _table(query, query(f"{_TABLES} AND c.oid = %s", (oid,)))


def _table(query: Query, rows: list[tuple[Any, ...]]) -> Table | None:
    if not rows:
        return None
    namespace, name, partitioned, identity, primary_key, replica_index, oid = rows[0]
    columns = tuple(TableColumn(*row) for row in query(_COLUMNS, (oid,)))
    if not columns and primary_key:  # dropped between the two questions
        return None
    identity_key = tuple(replica_index) if identity == "i" else tuple(primary_key)
    return Table(namespace, name, partitioned, identity, columns, tuple(primary_key), identity_key)


def published_tables(
    query: Query, publication: str, version: int
) -> list[tuple[str, str, list[str] | None, str | None]]:
    """The tables of a publication; before version 15 without columns and filter."""
    if version >= 150000:
        sql = "SELECT schemaname, tablename, attnames::text[], rowfilter FROM pg_publication_tables WHERE pubname = %s"
        return [(row[0], row[1], row[2], row[3]) for row in query(sql + " ORDER BY 1, 2", (publication,))]
    sql = "SELECT schemaname, tablename, NULL, NULL FROM pg_publication_tables WHERE pubname = %s ORDER BY 1, 2"
    return [(row[0], row[1], row[2], row[3]) for row in query(sql, (publication,))]


def user_tables(query: Query) -> Iterable[tuple[str, str]]:
    """Schema and name of all tables that are no partitions and belong to users."""
    return [
        (row[0], row[1])
        for row in query(
            "SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
            "WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND c.relpersistence = 'p' "
            "AND n.nspname NOT LIKE 'pg\\_%%' AND n.nspname <> 'information_schema' ORDER BY 1, 2",
            (),
        )
    ]
