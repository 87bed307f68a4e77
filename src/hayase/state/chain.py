"""Deltas that follow each other, put together, so that a state takes them in one transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from hayase.core.errors import StateError
from hayase.state.changes import ByteRange, StateChanges, StoreChanges, StoreKey
from hayase.state.delta import Delta

_ENTRIES_MAX = 400_000
_BYTES_MAX = 64 << 20
_SEARCHED_MAX = 20_000


@dataclass(frozen=True, slots=True)
class Step:
    """What takes a state from one epoch to a later one.

    Attributes:
        lineage: of which checkpoint.
        bundle: of which bundle.
        start: epoch and digest of the delta that it follows.
        end: epoch and digest of the last delta in it.
        delta_bytes: size of its deltas.
        pieces: gives the changes to the stores, to be made one after the other.
    """

    lineage: str
    bundle: str
    start: tuple[int, str]
    end: tuple[int, str]
    delta_bytes: int
    pieces: Callable[[], Iterable[StateChanges]]

    @classmethod
    def of(cls, delta: Delta) -> Step:
        """That of one delta."""
        start, end = (delta.prev_epoch, delta.prev_digest), (delta.epoch, delta.digest)
        return cls(delta.lineage, delta.bundle, start, end, delta.size_bytes, delta.pieces)


class Chain:
    """Collects deltas, each of which must follow the one before. What is written to a key last counts.

    The same keys come again and again in the deltas of a chain; put together, each is written once.
    """

    def __init__(self) -> None:
        self._steps: tuple[Step, Step] | None = None
        self._delta_bytes = 0
        self._merged: dict[StoreKey, _Merged] = {}

    def __bool__(self) -> bool:
        return self._steps is not None

    def full(self) -> bool:
        """Whether it holds so much that it should be applied before more is added."""
        entries = sum(len(merged.entries) for merged in self._merged.values())
        return entries >= _ENTRIES_MAX or self._delta_bytes >= _BYTES_MAX

    def takes(self, delta: Delta) -> bool:
        """Whether adding the delta is cheap: it deletes no ranges of a store of which much is held here.

        One in parts is never taken: it is too large for memory as it is.
        """
        if delta.parts:
            return False
        held = {key: len(merged.entries) for key, merged in self._merged.items()}
        return not any(
            changes.ranges and held.get(key, 0) > _SEARCHED_MAX for key, changes in delta.changes.stores.items()
        )

    def add(self, delta: Delta) -> None:
        """Add the next delta.

        Raises:
            StateError: `DELTA_DOES_NOT_FIT`: it does not follow the last one.
        """
        assert not delta.parts
        step = Step.of(delta)
        if self._steps is not None and (self._steps[1].lineage, self._steps[1].end) != (step.lineage, step.start):
            raise StateError(
                "DELTA_DOES_NOT_FIT",
                f"The delta of epoch {delta.epoch} follows epoch {delta.prev_epoch}, not {self._steps[1].end[0]}.",
                bundle=delta.bundle,
                epoch=delta.epoch,
            )
        for key, changes in delta.changes.stores.items():
            self._merged.setdefault(key, _Merged()).add(changes)
        self._steps = (self._steps[0] if self._steps else step, step)
        self._delta_bytes += step.delta_bytes

    def take(self) -> Step:
        """Everything added so far as one step; the chain is empty then."""
        assert self._steps is not None
        first, last = self._steps
        changes = StateChanges({key: merged.changes() for key, merged in self._merged.items()})
        taken = Step(last.lineage, last.bundle, first.start, last.end, self._delta_bytes, lambda: (changes,))
        self._steps, self._delta_bytes, self._merged = None, 0, {}
        return taken


class _Merged:
    """Changes of one store."""

    __slots__ = ("entries", "ranges")

    def __init__(self) -> None:
        self.ranges: dict[ByteRange, None] = {}
        self.entries: dict[bytes, bytes | None] = {}

    def add(self, changes: StoreChanges) -> None:
        if changes.ranges:
            for key in list(_inside(self.entries, changes.ranges)):
                del self.entries[key]
            self.ranges.update(dict.fromkeys(changes.ranges))
        self.entries.update(zip(changes.keys, changes.values, strict=True))

    def changes(self) -> StoreChanges:
        return StoreChanges(list(self.ranges), list(self.entries), list(self.entries.values()))


def _inside(keys: Iterable[bytes], ranges: list[ByteRange]) -> Iterable[bytes]:
    return (key for key in keys if any(start <= key and (end is None or key < end) for start, end in ranges))
