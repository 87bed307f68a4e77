"""What an epoch changed in the stores of a bundle, as plain data."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa

StoreKey = tuple[str, str]
"""Task id and store name."""

ByteRange = tuple[bytes, bytes | None]
"""`start <= key < end`; an end of `None` is none."""


@dataclass(slots=True)
class StoreChanges:
    """Changes of one store: first the ranges are deleted, then the keys written. No key occurs twice.

    Attributes:
        ranges: deleted ranges, ascending, apart from each other.
        keys: keys written, in order of their first write.
        values: their last values; `None` is a delete.
        ascending: whether the keys are known to ascend, so that writing them need not sort them.
    """

    ranges: list[ByteRange] = field(default_factory=list)
    keys: list[bytes] = field(default_factory=list)
    values: list[bytes | None] = field(default_factory=list)
    ascending: bool = False

    def __bool__(self) -> bool:
        return bool(self.ranges or self.keys)


@dataclass(slots=True)
class ColumnChanges:
    """The same in Arrow, as deltas hold them: for what looks at many and at none of them by itself.

    Attributes:
        ranges: as in StoreChanges.
        keys: large binaries.
        values: large binaries, null is a delete.
    """

    ranges: list[ByteRange]
    keys: pa.Array
    values: pa.Array


@dataclass(slots=True)
class StateChanges:
    """Changes of all stores of a bundle, by task and store; stores without changes are left out."""

    stores: dict[StoreKey, StoreChanges] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.stores)
