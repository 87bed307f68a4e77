"""Keys of rows in the order of the chunks of a snapshot."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from hayase.connect.exceptions import DataError
from hayase.connect.postgres.catalog import PostgresType, Query, Table, TypeRegistry
from hayase.connect.postgres.offsets import Chunk
from hayase.connect.postgres.pgoutput import Cell
from hayase.connect.postgres.replication import quoted

_NUMBERS = ("int2", "int4", "int8", "oid")
_TEXTS = ("text", "varchar")
_ORDERED_ENCODINGS = ("UTF8", "LATIN1", "SQL_ASCII")
"""Those whose bytes have the order of the characters in Unicode."""


class KeyOrder:
    """The order of a table's key, the same here and in the database.

    Texts are compared by their characters (`COLLATE "C"`), numbers as numbers; for keys of other types, and for texts
    in encodings of another order, the server is asked.

    Args:
        table: whose key.
        registry: the types of the database.
        query: asks the server.
    """

    def __init__(self, table: Table, registry: TypeRegistry, query: Query) -> None:
        self._query = query
        self._columns = [next(each for each in table.columns if each.name == name) for name in table.identity_key]
        self._types = [self._base(registry, column.type_oid) for column in self._columns]
        self._local = all(each.name in (*_NUMBERS, *_TEXTS) for each in self._types) and self._texts_are_ordered()
        self._casts = [f"{quoted(each.namespace)}.{quoted(each.name)}" for each in self._types]

    @staticmethod
    def _base(registry: TypeRegistry, oid: int) -> PostgresType:
        found = registry.get(oid)
        while found is not None and found.kind == "d":
            found = registry.get(found.base)
        if found is None:
            raise DataError("UNKNOWN_TYPE", f"the type {oid} of a key column is not in the catalog")
        return found

    def _texts_are_ordered(self) -> bool:
        """Whether texts have the same order here and under `COLLATE "C"`, which is that of the server's encoding."""
        if not any(each.name in _TEXTS for each in self._types):
            return True
        ((encoding,),) = self._query("SELECT current_setting('server_encoding')", ())
        return encoding in _ORDERED_ENCODINGS

    def _collation(self, at: int) -> str:
        return ' COLLATE "C"' if self._types[at].name in _TEXTS else ""

    def order_by(self) -> str:
        """The columns for ORDER BY; empty without a key."""
        return ", ".join(f"{quoted(column.name)}{self._collation(at)}" for at, column in enumerate(self._columns))

    def beyond(self) -> str:
        """A condition: the key is greater than the parameters $1, $2, …."""
        bounds = [f"${at + 1}::{cast}{self._collation(at)}" for at, cast in enumerate(self._casts)]
        return f"({self.order_by()}) > ({', '.join(bounds)})"

    def chunk_of(self, key: Sequence[Cell], chunks: Sequence[Chunk]) -> Chunk | None:
        """The chunk that holds a key; `None`: it was not read yet."""
        if not chunks:
            return None
        if not self._columns:
            return chunks[0]  # a table without a key is one chunk
        first = self._first_local(key, chunks) if self._local else self._first_of_server(key, chunks)
        return chunks[first] if first < len(chunks) else None

    def _first_local(self, key: Sequence[Cell], chunks: Sequence[Chunk]) -> int:
        bounded = len(chunks) - (chunks[-1].upper is None)
        wanted = self._parsed([str(cell) for cell in key])
        return bisect_left(range(bounded), wanted, key=lambda at: self._parsed(chunks[at].upper or ()))

    def _parsed(self, key: Sequence[str]) -> tuple[int | str, ...]:
        return tuple(int(cell) if kind.name in _NUMBERS else cell for cell, kind in zip(key, self._types, strict=True))

    def _first_of_server(self, key: Sequence[Cell], chunks: Sequence[Chunk]) -> int:
        row = ", ".join(f"%s::text::{cast}{self._collation(at)}" for at, cast in enumerate(self._casts))
        low, high = 0, len(chunks) - (chunks[-1].upper is None)
        while low < high:
            middle = (low + high) // 2
            bound = chunks[middle].upper or ()
            ((inside,),) = self._query(f"SELECT ({row}) <= ({row})", (*key, *bound))
            low, high = (low, middle) if inside else (middle + 1, high)
        return low
