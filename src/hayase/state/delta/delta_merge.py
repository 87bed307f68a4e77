"""Deltas that follow each other, put together, so that a state takes them in one transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hayase.core.errors import StateError
from hayase.state.delta.changes import ByteRange, ColumnChanges, StateChanges, StoreChanges, StoreKey
from hayase.state.delta.delta import Delta

_HELD_MAX = 4_000_000
_HELD_BYTES_MAX = 192 << 20
"""When so much is held, what was overwritten is thrown away; it is full if more than half of it is left."""
_SEARCHED_MAX = 20_000
_WRITTEN_AT_ONCE = 200_000
"""So many keys and values become Python objects at a time."""


@dataclass(frozen=True, slots=True)
class Step:
    """What takes a state from one epoch to a later one.

    Attributes:
        checkpoint_id: of which checkpoint.
        bundle: of which bundle.
        start: epoch and digest of the delta that it follows.
        end: epoch and digest of the last delta in it.
        delta_bytes: size of its deltas.
        deltas: how many they are.
        pieces: gives the changes to the stores, to be made one after the other.
    """

    checkpoint_id: str
    bundle: str
    start: tuple[int, str]
    end: tuple[int, str]
    delta_bytes: int
    deltas: int
    pieces: Callable[[], Iterable[StateChanges]]

    @classmethod
    def of(cls, delta: Delta) -> Step:
        """That of one delta."""
        start, end = (delta.prev_epoch, delta.prev_digest), (delta.epoch, delta.digest)
        return cls(delta.checkpoint_id, delta.bundle, start, end, delta.size_bytes, 1, delta.pieces)


class DeltaMerge:
    """Collects deltas, each of which must follow the one before. What is written to a key last counts.

    The same keys come again and again in the deltas of a chain; put together, each is written once. All of it stays in
    Arrow until it is written, which takes a third of the time of dicts.
    """

    def __init__(self) -> None:
        self._steps: tuple[Step, Step] | None = None
        self._delta_bytes = 0
        self._deltas = 0
        self._merged: dict[StoreKey, _Merged] = {}

    def __bool__(self) -> bool:
        return self._steps is not None

    def full(self) -> bool:
        """Whether it holds so much that it should be applied before more is added."""
        if not self._holds_more_than(_HELD_MAX, _HELD_BYTES_MAX):
            return False
        for merged in self._merged.values():
            merged.compact()
        return self._holds_more_than(_HELD_MAX // 2, _HELD_BYTES_MAX // 2)

    def takes(self, delta: Delta) -> bool:
        """Whether adding the delta is cheap: it deletes no ranges of a store of which much is held here.

        One in parts is never taken: it is too large for memory as it is.
        """
        if delta.parts:
            return False
        held = {key: merged.entries for key, merged in self._merged.items()}
        return not any(changes.ranges and held.get(key, 0) > _SEARCHED_MAX for key, changes in delta.columns().items())

    def add(self, delta: Delta) -> None:
        """Add the next delta.

        Raises:
            StateError: `DELTA_DOES_NOT_FIT`: it does not follow the last one.
        """
        assert not delta.parts
        step = Step.of(delta)
        if self._steps is not None and (self._steps[1].checkpoint_id, self._steps[1].end) != (
            step.checkpoint_id,
            step.start,
        ):
            raise StateError(
                "DELTA_DOES_NOT_FIT",
                f"The delta of epoch {delta.epoch} follows epoch {delta.prev_epoch}, not {self._steps[1].end[0]}.",
                bundle=delta.bundle,
                epoch=delta.epoch,
            )
        for key, changes in delta.columns().items():
            self._merged.setdefault(key, _Merged()).add(changes)
        self._steps = (self._steps[0] if self._steps else step, step)
        self._delta_bytes += step.delta_bytes
        self._deltas += step.deltas

    def take(self) -> Step:
        """Everything added so far as one step; the chain is empty then."""
        if self._steps is None:
            raise ValueError("take() before add(): there is nothing to be taken")
        first, last = self._steps
        merged = self._merged
        for each in merged.values():
            each.compact()

        def pieces() -> Iterator[StateChanges]:
            for key, each in merged.items():
                for changes in each.pieces():
                    yield StateChanges({key: changes})

        taken = Step(last.checkpoint_id, last.bundle, first.start, last.end, self._delta_bytes, self._deltas, pieces)
        self._steps, self._delta_bytes, self._deltas, self._merged = None, 0, 0, {}
        return taken

    def _holds_more_than(self, entries: int, size: int) -> bool:
        merged = self._merged.values()
        return sum(each.entries for each in merged) >= entries or sum(each.size_bytes for each in merged) >= size


class _Merged:
    """Changes of one store, those of later deltas behind those of earlier ones."""

    __slots__ = ("_compact", "_pieces", "_ranges", "entries", "size_bytes")

    def __init__(self) -> None:
        self._ranges: dict[ByteRange, None] = {}
        self._pieces: list[tuple[pa.Array, pa.Array]] = []
        self._compact = True
        self.entries = 0
        self.size_bytes = 0

    def add(self, changes: ColumnChanges) -> None:
        if changes.ranges:
            self._hold([_outside(keys, values, changes.ranges) for keys, values in self._pieces])
            self._ranges.update(dict.fromkeys(changes.ranges))
        if len(changes.keys):
            self._pieces.append((changes.keys, changes.values))
            self.entries += len(changes.keys)
            self.size_bytes += changes.keys.nbytes + changes.values.nbytes
            self._compact = False

    def compact(self) -> None:
        """Keep the last value of each key, keys ascending."""
        if self._compact:
            return
        keys = pa.concat_arrays([each for each, _ in self._pieces])
        values = pa.concat_arrays([each for _, each in self._pieces])
        encoded = keys.dictionary_encode()
        last = np.zeros(len(encoded.dictionary), np.int64)
        np.maximum.at(last, encoded.indices.to_numpy(), np.arange(len(keys)))
        order = pc.sort_indices(encoded.dictionary)
        self._hold([(encoded.dictionary.take(order), values.take(pa.array(last[order.to_numpy()])))])
        self._compact = True

    def pieces(self) -> Iterator[StoreChanges]:
        """What is held, after `compact`: first the ranges, then the keys ascending."""
        if self._ranges:
            yield StoreChanges(list(self._ranges))
        for keys, values in self._pieces:
            for start in range(0, len(keys), _WRITTEN_AT_ONCE):
                part = slice(start, start + _WRITTEN_AT_ONCE)
                yield StoreChanges([], keys[part].to_pylist(), values[part].to_pylist(), ascending=True)

    def _hold(self, pieces: list[tuple[pa.Array, pa.Array]]) -> None:
        self._pieces = pieces
        self.entries = sum(len(keys) for keys, _ in pieces)
        self.size_bytes = sum(keys.nbytes + values.nbytes for keys, values in pieces)


def _outside(keys: pa.Array, values: pa.Array, ranges: Iterable[ByteRange]) -> tuple[pa.Array, pa.Array]:
    inside = np.zeros(len(keys), bool)
    for start, end in ranges:
        within = pc.greater_equal(keys, pa.scalar(start, pa.large_binary()))
        if end is not None:
            within = pc.and_(within, pc.less(keys, pa.scalar(end, pa.large_binary())))
        inside |= within.to_numpy(zero_copy_only=False)
    kept = pa.array(~inside)
    return keys.filter(kept), values.filter(kept)
