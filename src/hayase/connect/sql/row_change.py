"""A change of one row."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum

import msgspec

from hayase.connect.schema import ConnectSchema

KAFKA_KEY = ("__connect_topic", "__connect_partition", "__connect_offset")
"""Columns of the primary key of `primary.key.mode=kafka`."""
ENVELOPE = frozenset(("before", "after", "op", "source"))
"""Fields of a value that is a Debezium envelope."""


class RowChangeKind(StrEnum):
    """What a change does to its row."""

    WRITE = "write"
    DELETE = "delete"


class RowChange(msgspec.Struct, frozen=True):
    """A change of one row.

    Attributes:
        table: its name.
        kind: what happens.
        key: columns of the primary key with their values.
        values: all other columns.
        schemas: of the columns, as far as they are known.
    """

    table: str
    kind: RowChangeKind
    key: Mapping[str, object]
    values: Mapping[str, object]
    schemas: Mapping[str, ConnectSchema]

    @property
    def shape(self) -> tuple[str, RowChangeKind, tuple[str, ...], tuple[str, ...]]:
        """What changes have in common that one statement can make."""
        return self.table, self.kind, tuple(self.key), tuple(self.values)


def runs(changes: Iterable[RowChange]) -> Iterator[list[RowChange]]:
    """Consecutive changes that one statement can make."""
    run: list[RowChange] = []
    for change in changes:
        if run and run[0].shape != change.shape:
            yield run
            run = []
        run.append(change)
    if run:
        yield run
