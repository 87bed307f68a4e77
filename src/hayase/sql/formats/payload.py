"""What each format does: bytes of a record of columns, or of one bare column, and back."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from hayase.sql.formats.columns import Column


class PayloadCodec(ABC):
    """Bytes of columns in one format.

    Values are dicts of all columns, or the value of the only column if it is bare. Both are never None. What `write`
    and `read` raise becomes a SerializationError.
    """

    @abstractmethod
    def write(self, value: Any) -> bytes | None:
        """The bytes of a value; `None` where the format writes null."""

    @abstractmethod
    def read(self, data: bytes) -> Any:
        """The value of some bytes; `None` where they mean null."""


class NoColumns(PayloadCodec):
    """Nothing: what is written is null, what is read is ignored."""

    def write(self, value: Any) -> None:
        """Null."""
        return

    def read(self, data: bytes) -> None:
        """Null."""
        return


def fields_of(columns: Sequence[Column]) -> tuple[tuple[str, Any], ...]:
    """The columns as fields of a struct."""
    return tuple((column.name, column.type) for column in columns)
