"""The order of a `java.util.TreeSet` whose elements change their order while they are in it.

Such a tree is not sorted any more, and which way a new element takes depends on its shape. So this is the tree of
Java's `TreeMap`: an element goes in as a red leaf, and the tree is balanced as there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(eq=False, slots=True)
class _Entry(Generic[T]):
    """A place in the tree; `below` holds the one to the left and the one to the right."""

    element: T
    above: _Entry[T] | None
    below: list[_Entry[T] | None] = field(default_factory=lambda: [None, None])
    red: bool = True

    def side_of(self, entry: _Entry[T]) -> int:
        """The side on which an entry is below this one."""
        return int(self.below[1] is entry)


class JavaTree(Generic[T]):
    """A set in the order that `compare` gives at the moment when an element is added.

    Example:
        >>> tree = JavaTree(lambda one, other: one - other)
        >>> for number in (3, 1, 2, 1):
        ...     tree.add(number)
        >>> list(tree)
        [1, 2, 3]
    """

    def __init__(self, compare: Callable[[T, T], int]) -> None:
        self._compare = compare
        self._root: _Entry[T] | None = None

    def add(self, element: T) -> None:
        """Add it, unless an equal one is met on the way."""
        above, side, at = None, 0, self._root
        while at is not None:
            comparison = self._compare(element, at.element)
            if comparison == 0:
                return
            above, side = at, int(comparison > 0)
            at = at.below[side]
        added = _Entry(element, above)
        if above is None:
            self._root = added
        else:
            above.below[side] = added
        self._balance(added)

    def __iter__(self) -> Iterator[T]:
        return self._below(self._root)

    def _below(self, entry: _Entry[T] | None) -> Iterator[T]:
        if entry is not None:
            yield from self._below(entry.below[0])
            yield entry.element
            yield from self._below(entry.below[1])

    def _balance(self, entry: _Entry[T]) -> None:
        """No red entry below a red one (`TreeMap.fixAfterInsertion`)."""
        while (parent := entry.above) is not None and parent.red and (top := parent.above) is not None:
            side = top.side_of(parent)
            uncle = top.below[1 - side]
            if uncle is not None and uncle.red:
                parent.red = uncle.red = False
                top.red, entry = True, top
                continue
            if parent.side_of(entry) != side:
                self._rotate(parent, side)
                parent = entry
            parent.red, top.red = False, True
            self._rotate(top, 1 - side)
            break
        if self._root is not None:
            self._root.red = False

    def _rotate(self, entry: _Entry[T], side: int) -> None:
        """Let the entry sink to a side, and the one below it on the other side rise."""
        rising = entry.below[1 - side]
        assert rising is not None, "an entry sinks only where one rises"
        moved = entry.below[1 - side] = rising.below[side]
        if moved is not None:
            moved.above = entry
        rising.above = entry.above
        if entry.above is None:
            self._root = rising
        else:
            entry.above.below[entry.above.side_of(entry)] = rising
        rising.below[side], entry.above = entry, rising
