"""Partitions of a store that are taken when they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from typing import overload

from hayase.state.stores.protocol import ByteStore


class LazyPartitions(Sequence[ByteStore]):
    """The partitions of a store, each as it is when it is asked for first; `close` lets go of them.

    Args:
        count: how many there are.
        take: gives the epoch of a partition and its data.
    """

    def __init__(self, count: int, take: Callable[[int], AbstractContextManager[tuple[int, ByteStore]]]) -> None:
        self._count = count
        self._take = take
        self._taken: dict[int, tuple[int, ByteStore]] = {}
        self._stack = ExitStack()

    @property
    def epoch(self) -> int:
        """The last epoch that all partitions that were asked for take into account; -1 before."""
        return min((epoch for epoch, _ in self._taken.values()), default=-1)

    def close(self) -> None:
        """Let go of the partitions."""
        self._stack.close()

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, number: int) -> ByteStore: ...
    @overload
    def __getitem__(self, number: slice) -> Sequence[ByteStore]: ...
    def __getitem__(self, number: int | slice) -> ByteStore | Sequence[ByteStore]:
        if isinstance(number, slice):
            return [self[each] for each in range(*number.indices(self._count))]
        if not 0 <= number < self._count:
            raise IndexError(number)
        if number not in self._taken:
            self._taken[number] = self._stack.enter_context(self._take(number))
        return self._taken[number][1]
