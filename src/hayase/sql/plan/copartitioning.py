"""Which rows with equal keys are in one task already, and which have to be partitioned again for a join.

Kafka partitions records by the bytes of their keys. Topics whose keys have one type and one format have equal bytes for
equal keys, unless the bytes name a schema: two topics may have different ids for one schema.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass

from hayase.sql.analysis.steps import JoinForeignKey, JoinStreamTable, JoinTables, ReadSource, Step
from hayase.sql.catalog.sources import DataSource
from hayase.sql.formats.support import supports_inference
from hayase.sql.types.sql_types import SqlType


@dataclass(frozen=True, slots=True)
class Partitioning:
    """What decides the bytes by which rows are partitioned.

    Attributes:
        format: name and properties of the format of the keys; nothing: that of stores.
        types: of the key's columns.
        window: whether keys are windowed, and how.
    """

    format: tuple[Hashable, ...]
    types: tuple[SqlType, ...]
    window: Hashable = None


def partitioning_of(source: DataSource) -> Partitioning | None:
    """How the topic of a source is partitioned; `None`: equal keys of another topic may be elsewhere."""
    if supports_inference(source.key_format.name):
        return None
    types = tuple(column.type for column in source.key)
    return Partitioning((source.key_format.name, source.key_format.properties), types, source.window)


def internal_partitioning(types: tuple[SqlType, ...], window: Hashable = None) -> Partitioning:
    """How rows are partitioned by the keys of stores."""
    return Partitioning((), types, window)


def tables_to_partition(root: Step) -> set[str]:
    """Names of the tables whose rows have to be partitioned again, or they would not meet what they are joined with.

    Streams are partitioned again where they are joined.
    """
    names: set[str] = set()
    for step in _steps(root):
        if isinstance(step, JoinTables):
            tables = [each.source for each in _steps(step) if isinstance(each, ReadSource)]
            kinds = {partitioning_of(table) for table in tables}
            if len(kinds) > 1 or None in kinds:
                names |= {table.name for table in tables}
        elif isinstance(step, JoinStreamTable | JoinForeignKey):
            right = step.right
            if isinstance(right, ReadSource) and partitioning_of(right.source) is None:
                names.add(right.source.name)
    return names


def _steps(step: Step) -> Iterator[Step]:
    yield step
    for before in step.inputs:
        yield from _steps(before)
