"""The tables that a sink writes: which columns they have, made and widened where the settings allow it."""

from __future__ import annotations

from collections.abc import Callable

from hayase.connect.config.config_def import TypedConfig
from hayase.connect.exceptions import ConnectError
from hayase.connect.sql.offset_table import Execute
from hayase.connect.sql.row_change import RowChange, RowChangeKind
from hayase.connect.sql.sink_config import SchemaEvolution


class Tables:
    """Tables of one database, as far as they were looked at.

    Args:
        config: with the keys of `sql_sink_keys`.
        columns_of: names of a table's columns; none: there is no such table.
        type_of: the type of the column that is to hold a value of a change.
        lock: waits until no other transaction makes or widens tables, and keeps others from it.
    """

    def __init__(
        self,
        config: TypedConfig,
        columns_of: Callable[[Execute, str], set[str]],
        type_of: Callable[[RowChange, str], str],
        lock: Callable[[Execute], None] = lambda _: None,
    ) -> None:
        self._create = config.bool("auto.create")
        self._evolve = SchemaEvolution(config.string("schema.evolution").lower()) is SchemaEvolution.BASIC
        self._columns_of = columns_of
        self._type_of = type_of
        self._lock = lock
        self._columns: dict[str, set[str]] = {}

    def forget(self) -> None:
        """Look again: what was made is gone with a transaction that was rolled back."""
        self._columns = {}

    def prepare(self, execute: Execute, change: RowChange) -> bool:
        """Make the table of a change, or add the columns that it lacks.

        Returns:
            Whether the table is there; it is not for a deletion before the first row, which makes the table.

        Raises:
            ConnectError: `UNKNOWN_TABLE`, `UNKNOWN_COLUMN`: the settings do not allow that.
        """
        known = self._columns.get(change.table)
        if known is None:
            known = self._columns_of(execute, change.table)
            if not known and self._create and change.kind is RowChangeKind.DELETE:
                return False
            known = self._columns[change.table] = known or self._made(execute, change)
        lacking = [name for name in (*change.key, *change.values) if name not in known]
        if not lacking:
            return True
        if not self._evolve:
            raise ConnectError(
                "UNKNOWN_COLUMN",
                f"the table {change.table} has no column {lacking[0]!r}; add it, or set schema.evolution=basic",
                table=change.table,
            )
        self._lock(execute)
        known.update(self._columns_of(execute, change.table))  # another task has perhaps added them
        for name in (each for each in lacking if each not in known):
            column = f"{quoted(name)} {self._type_of(change, name)}"
            execute(f"ALTER TABLE {quoted(change.table)} ADD COLUMN {column}", ())
        known.update(lacking)
        return True

    def _made(self, execute: Execute, change: RowChange) -> set[str]:
        if not self._create:
            raise ConnectError(
                "UNKNOWN_TABLE",
                f"the database has no table {change.table!r}; make it, or set auto.create=true",
                table=change.table,
            )
        self._lock(execute)
        if made := self._columns_of(execute, change.table):  # by another task, meanwhile
            return made
        names = [*change.key, *change.values]
        columns = [f"{quoted(name)} {self._type_of(change, name)}" for name in names]
        if change.key:
            columns.append(f"PRIMARY KEY ({', '.join(map(quoted, change.key))})")
        execute(f"CREATE TABLE {quoted(change.table)} ({', '.join(columns)})", ())
        return set(names)


def quoted(name: str) -> str:
    """A name as both databases take it.

    Example:
        >>> print(quoted('a "b" c'))
        "a ""b"" c"
    """
    return '"' + name.replace('"', '""') + '"'
