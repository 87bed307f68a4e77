"""A column: a name with a type."""

from __future__ import annotations

from dataclasses import dataclass

from hayase.sql.types.sql_types import SqlType


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a key, a value or a stored row.

    Attributes:
        name: as it is in the bytes, case included.
        type: its SQL type.
    """

    name: str
    type: SqlType
