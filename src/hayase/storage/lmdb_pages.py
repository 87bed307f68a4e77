"""The pages of an LMDB file, read without LMDB: its meta pages, and the numbers of the pages of its trees.

The format is that of LMDB 0.9 on a 64-bit machine: two meta pages, then B+ trees of pages that begin with 16 bytes
(number, flags, bounds) and the places of their nodes.
"""

from __future__ import annotations

import mmap
import os
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.int64]
"""Of pages."""

NO_PAGE = (1 << 64) - 1
METAS = 2
"""The first two pages are in no tree."""

_META = struct.Struct("<II16x" + "IHH16xQ8xQ" * 2 + "QQ")
_LMDB_MAGIC = 0xBEEFC0DE
_LMDB_VERSION = 1
_PAGE_HEADER = 16
_NODE_HEADER = 8
_BIG = 0x01
_SUBTREE = 0x02
_BRANCH, _LEAF = 0x01, 0x02
_TREE = struct.Struct("<IHHQQQQQ")
"""A named database in a leaf: padding, flags, depth, branch, leaf and overflow pages, entries, root."""
_PAGE_SIZES = frozenset(1 << power for power in range(9, 17))


class PagesDamaged(Exception):  # noqa: N818 - the caller makes it a condition of its own
    """What is wrong with the file."""


class Tree(NamedTuple):
    """Root and depth of a tree, and whether it has values on pages of their own; depth 0: empty."""

    root: int
    depth: int
    overflow: bool


class Meta(NamedTuple):
    """One of the two meta pages; `checksum` is of all that it says."""

    txn: int
    checksum: int
    page_size: int
    last_page: int
    trees: tuple[Tree, Tree]


class PagesFile:
    """The mapped file of an environment."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._map: mmap.mmap | None = None
        self._identity: tuple[int, int] | None = None
        self.page_size = 4096
        self.words: npt.NDArray[np.uint16] = np.zeros(0, np.uint16)
        self.bytes = memoryview(b"")

    def metas(self) -> list[Meta]:
        """The valid meta pages, the newer one first, with all pages up to its last one mapped.

        Raises:
            PagesDamaged: there is none, or the file ends before its last page.
            FileNotFoundError: there is no file.
        """
        descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            status = os.fstat(descriptor)
            head = (
                os.pread(descriptor, 1 << 16, 0) if self._map is None else os.pread(descriptor, 2 * self.page_size, 0)
            )
            metas = sorted(filter(None, (_meta_of(head, at) for at in (0, self._second(head)))), reverse=True)
            if not metas:
                raise PagesDamaged("it has no meta page")
            self.page_size = metas[0].page_size
            if (metas[0].last_page + 1) * self.page_size > status.st_size:
                raise PagesDamaged(f"it ends after {status.st_size} bytes, before its last page")
            if self._identity != (status.st_ino, status.st_size):
                self._map = mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ)
                self.bytes = memoryview(self._map)
                self.words = np.frombuffer(self._map, np.uint16, status.st_size // 2)
                self._identity = (status.st_ino, status.st_size)
            return metas
        finally:
            os.close(descriptor)

    @property
    def inode(self) -> int:
        """Which file it is."""
        return self._identity[0] if self._identity else 0

    def checksums(self, pages: Numbers) -> npt.NDArray[np.uint32]:
        """The CRC-32 of pages."""
        size, data = self.page_size, self.bytes
        starts = (pages * size).tolist()
        return np.fromiter((zlib.crc32(data[at : at + size]) for at in starts), np.uint32, len(starts))

    def children(self, pages: Numbers) -> Numbers:
        """The pages below branch pages."""
        nodes = self._nodes(pages)
        words = self.words
        below: Numbers = words[nodes].astype(np.int64)
        below |= words[nodes + 1].astype(np.int64) << 16
        below |= words[nodes + 2].astype(np.int64) << 32
        return below

    def overflow(self, pages: Numbers) -> Numbers:
        """The pages with values that leaf pages refer to."""
        nodes, words, size = self._nodes(pages), self.words, self.page_size
        nodes = np.asarray(nodes[words[nodes + 2] & _BIG != 0], np.int64)
        lengths = words[nodes].astype(np.int64) | words[nodes + 1].astype(np.int64) << 16
        counts = (_PAGE_HEADER - 1 + lengths) // size + 1
        if counts.sum() > len(self.bytes) // size:
            raise PagesDamaged("its values are longer than the file")
        at = nodes * 2 + _NODE_HEADER + words[nodes + 3].astype(np.int64)
        data = np.frombuffer(self.bytes, np.uint8)
        first = data[at[:, None] + np.arange(8)].copy().view(np.int64).ravel()
        numbers: Numbers = np.repeat(first, counts) + _positions(counts)
        return numbers

    def subtrees(self, pages: Numbers) -> list[Tree]:
        """The trees of named databases that leaf pages refer to."""
        nodes, words = self._nodes(pages), self.words
        trees = []
        for node in nodes[words[nodes + 2] & _SUBTREE != 0].tolist():
            at = node * 2 + _NODE_HEADER + int(words[node + 3])
            _, _, depth, _, _, overflow, _, root = _TREE.unpack_from(self.bytes, at)
            trees.append(Tree(root, depth if root != NO_PAGE else 0, overflow > 0))
        return trees

    def wrong_headers(self, pages: Numbers, *, leaves: bool) -> Numbers:
        """Those of some pages that are no leaves, or no branches: other numbers, flags or bounds."""
        words, at = self.words, pages * (self.page_size // 2)
        numbers = sum(words[at + word].astype(np.int64) << 16 * word for word in range(4))
        lower, upper = words[at + 6], words[at + 7]
        right = (numbers == pages) & (words[at + 5] & (_BRANCH | _LEAF) == (_LEAF if leaves else _BRANCH))
        # A branch has two nodes at least, and LMDB relies on it.
        right &= (lower >= _PAGE_HEADER + (0 if leaves else 4)) & (lower <= upper) & (upper <= self.page_size)
        wrong: Numbers = pages[~right]
        return wrong

    def _nodes(self, pages: Numbers) -> Numbers:
        """Where the nodes of pages are, in words."""
        words, at = self.words, pages * (self.page_size // 2)
        counts = (words[at + 6].astype(np.int64) - _PAGE_HEADER) // 2
        pointers = np.repeat(at, counts) + _PAGE_HEADER // 2 + _positions(counts)
        nodes: Numbers = np.repeat(at, counts) + words[pointers].astype(np.int64) // 2
        return nodes

    def _second(self, head: bytes) -> int:
        first = _meta_of(head, 0)
        return first.page_size if first is not None else self.page_size


@contextmanager
def damage_where_it_leads_nowhere() -> Iterator[None]:
    """What numbers on pages that are no numbers of pages end in."""
    try:
        yield
    except (IndexError, ValueError, OverflowError, struct.error) as error:
        raise PagesDamaged(f"its pages cannot be followed ({error})") from error


def _meta_of(head: bytes, at: int) -> Meta | None:
    if len(head) < at + _PAGE_HEADER + _META.size:
        return None
    (
        magic, version, page_size, _, free_depth, free_overflow, free_root,
        _, _, depth, overflow, root, last_page, txn,
    ) = _META.unpack_from(head, at + _PAGE_HEADER)  # fmt: skip
    if magic != _LMDB_MAGIC or version != _LMDB_VERSION or page_size not in _PAGE_SIZES:
        return None
    trees = (
        Tree(free_root, free_depth if free_root != NO_PAGE else 0, free_overflow > 0),
        Tree(root, depth if root != NO_PAGE else 0, overflow > 0),
    )
    data = head[at + _PAGE_HEADER : at + _PAGE_HEADER + _META.size]
    return Meta(txn, zlib.crc32(data), page_size, last_page, trees)


def _positions(counts: Numbers) -> Numbers:
    """0, 1, … up to each count, one behind the other."""
    ends = np.cumsum(counts)
    return np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - counts, counts)
