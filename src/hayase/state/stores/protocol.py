"""How operators and tasks see state while an epoch runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol


class ByteStore(Protocol):
    """One store of one task during one epoch: the epoch's start plus own earlier writes, ordered by key bytes."""

    def get(self, key: bytes) -> bytes | None:
        """The value, `None` if absent."""
        ...

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """The values of keys, in their order; much cheaper than one by one."""
        ...

    def put(self, key: bytes, value: bytes | None) -> None:
        """Write; `None` deletes."""
        ...

    def put_many(self, keys: Sequence[bytes], values: Sequence[bytes | None]) -> None:
        """Write several, later entries winning."""
        ...

    def range(
        self,
        start: bytes | None = None,
        end: bytes | None = None,
        *,
        reverse: bool = False,
    ) -> Iterator[tuple[bytes, bytes]]:
        """Entries with `start <= key < end` in byte order. Writes made while iterating are not seen."""
        ...

    def ranges(self, bounds: Sequence[tuple[bytes, bytes]]) -> list[list[tuple[bytes, bytes]]]:
        """What `range` gives for each pair of start and end; much cheaper than one by one."""
        ...

    def delete_range(self, start: bytes | None, end: bytes | None) -> None:
        """Delete every key with `start <= key < end`; costs the same however many there are, until applied."""
        ...

    def approximate_count(self) -> int:
        """The number of entries; inexact only after `delete_range` in the same epoch; never negative."""
        ...


class TaskState(Protocol):
    """The stores of one task during one epoch."""

    def store(self, name: str) -> ByteStore:
        """The store of that name; made empty when first used."""
        ...
