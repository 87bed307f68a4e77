"""Checksums of the pages of an LMDB file, kept beside it by its writers: what LMDB 0.9 does not have.

A commit of LMDB writes changed pages to new places and then a new root, so that what one commit changed is what the new tree
has and the old one does not. `PageChecksums.update`, after each commit, walks both trees from their roots down, only where they differ,
and keeps a CRC-32 of each new page in the file `PAGES`. `verify` reads the whole tree and compares, without LMDB, whose
behaviour with damaged pages is undefined.

What is read here is the format of LMDB 0.9 on a 64-bit machine: two meta pages, then B+ trees of pages that begin with 16
bytes (number, flags, bounds) and the places of their nodes.
"""

from __future__ import annotations

import errno
import fcntl
import logging
import mmap
import os
import struct
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from hayase.core.private_files import open_file

T = TypeVar("T")

_LOG = logging.getLogger("hayase.storage")
Numbers = npt.NDArray[np.int64]

PAGES_FILE = "PAGES"
_HEADER = struct.Struct("<8sQQQQ")
"""What it is; transaction that it is as of; inode of the file; checksum of that transaction's meta page; number of entries."""
_MAGIC = b"HAYPAGE1"
_BLOCK = 1024
"""Entries that are written at once."""

_META = struct.Struct("<II16x" + "IHH16xQ8xQ" * 2 + "QQ")
_LMDB_MAGIC = 0xBEEFC0DE
_LMDB_VERSION = 1
_NO_PAGE = (1 << 64) - 1
_NO_TXN = -1
"""There are no checksums."""
_PAGE_HEADER = 16
_NODE_HEADER = 8
_BIG = 0x01
_METAS = 2
_PAGE_SIZES = frozenset(1 << power for power in range(9, 17))


class PagesDamaged(Exception):  # noqa: N818 - the caller makes it a condition of its own
    """What is wrong with the file."""


class _Tree(NamedTuple):
    """Root and depth of a tree, and whether it has values on pages of their own; depth 0: empty."""

    root: int
    depth: int
    overflow: bool


class _Meta(NamedTuple):
    """One of the two meta pages; `checksum` is of all that it says."""

    txn: int
    checksum: int
    page_size: int
    last_page: int
    trees: tuple[_Tree, _Tree]


class _File:
    """The mapped file of an environment."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._map: mmap.mmap | None = None
        self._identity: tuple[int, int] | None = None
        self.page_size = 4096
        self.words: npt.NDArray[np.uint16] = np.zeros(0, np.uint16)
        self.bytes = memoryview(b"")

    def metas(self) -> list[_Meta]:
        """The valid meta pages, the newer one first, with all pages up to its last one mapped.

        Raises:
            PagesDamaged: there is none, or the file ends before its last page.
            FileNotFoundError: there is no file.
        """
        descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            found = os.fstat(descriptor)
            head = (
                os.pread(descriptor, 1 << 16, 0) if self._map is None else os.pread(descriptor, 2 * self.page_size, 0)
            )
            metas = sorted(filter(None, (_meta_of(head, at) for at in (0, self._second(head)))), reverse=True)
            if not metas:
                raise PagesDamaged("it has no meta page")
            self.page_size = metas[0].page_size
            if (metas[0].last_page + 1) * self.page_size > found.st_size:
                raise PagesDamaged(f"it ends after {found.st_size} bytes, before its last page")
            if self._identity != (found.st_ino, found.st_size):
                self._map = mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ)
                self.bytes = memoryview(self._map)
                self.words = np.frombuffer(self._map, np.uint16, found.st_size // 2)
                self._identity = (found.st_ino, found.st_size)
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
        at = nodes * 2 + _NODE_HEADER + words[nodes + 3].astype(np.int64)
        data = np.frombuffer(self.bytes, np.uint8)
        first = data[at[:, None] + np.arange(8)].copy().view(np.int64).ravel()
        found: Numbers = np.repeat(first, counts) + _positions(counts)
        return found

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


class PageChecksums:
    """The checksums of one environment's pages. Every process that writes to it has one, and writes through `commit`.

    Args:
        folder: of the environment.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._data = _File(folder / "data.mdb")
        self._table = folder / PAGES_FILE
        self._txn = _NO_TXN
        self._inode = 0
        self._meta = 0
        self._sums: npt.NDArray[np.uint32] = np.zeros(0, np.uint32)

    def commit(self, write: Callable[[], T]) -> T:
        """Run a write transaction of an environment that is there, and take in what it changed. Other writers wait.

        Raises:
            PagesDamaged: the file cannot be what a commit left.
            OSError: the checksums cannot be kept; nothing was written.
        """
        with self._locked() as table:
            self._update(table)  # what a process that was killed did not come to
            done = write()
            try:
                self._update(table)
            except OSError as error:
                # The commit stands. Without checksums the file is taken as it is by the next commit.
                _LOG.warning("%s: checksums could not be written: %s", self._table, error)
                os.ftruncate(table, 0)
                self._txn = _NO_TXN
            return done

    def sync(self) -> None:
        """Have the checksums on the disk when this returns."""
        with self._locked() as table:
            os.fsync(table)

    def verify(self) -> None:
        """Compare every page in use with its checksum. Without any checksums, the file is taken as it is and gets them.

        Raises:
            PagesDamaged: a page is not what was written.
            OSError: the checksums could not be read or written.
        """
        if not (self._folder / "data.mdb").exists():
            return
        with self._locked() as table:
            self._update(table)
            self._compare_all(self._data.metas()[0])

    def check(self, pin: Callable[[], object] | None = None) -> None:
        """As `verify`, without making any checksums, while others write: they wait for moments only.

        Args:
            pin: begins a read transaction, which keeps others from writing to the pages that are compared; without one, they
                wait if a page seems to be wrong, until it was compared once more.

        Raises:
            PagesDamaged: a page is not what was written.
            OSError: they could not be read.
        """
        try:
            with self._locked(readonly=True) as table:
                newest = self._loaded(table)
                if pin is not None:
                    pin()
            if newest is not None:
                self._compare_all(newest)
        except PagesDamaged:
            if pin is not None:
                raise
            with self._locked(readonly=True) as table:
                newest = self._loaded(table)
                if newest is not None:
                    self._compare_all(newest)
        except FileNotFoundError:
            return

    def _loaded(self, table: int) -> _Meta | None:
        """The newest meta page; `None` if the checksums are of another commit."""
        newest = self._data.metas()[0]
        self._load(table)
        return newest if self._txn == newest.txn else None

    def _compare_all(self, newest: _Meta) -> None:
        if newest.checksum != self._meta:
            raise PagesDamaged("its meta page has a wrong checksum")
        with _damage_where_it_leads_nowhere():
            for tree in newest.trees:
                for pages in self._levels(tree, newest.last_page):
                    self._compare(pages)

    def _compare(self, pages: Numbers) -> None:
        wrong = pages[self._data.checksums(pages) != self._sums[pages]]
        if len(wrong):
            raise PagesDamaged(
                f"page {wrong[0]} has a wrong checksum ({len(wrong)} of {len(pages)} that were compared)"
            )

    def _levels(self, tree: _Tree, last: int) -> Iterator[Numbers]:
        """The pages of a tree, level by level; those of one are looked into only after they were taken."""
        if not tree.depth:
            return
        pages = np.array([tree.root], np.int64)
        for level in range(tree.depth):
            self._check_numbers(pages, last)
            yield pages
            if level + 1 < tree.depth:
                pages = self._data.children(pages)
        if tree.overflow:
            pages = self._data.overflow(pages)
            self._check_numbers(pages, last)
            yield pages

    def _check_numbers(self, pages: Numbers, last: int) -> None:
        if len(pages) and not (pages.min() >= _METAS and pages.max() <= min(last, len(self._sums) - 1)):
            raise PagesDamaged("it refers to pages that it does not have")

    def _update(self, table: int) -> None:
        metas = self._data.metas()
        newest = metas[0]
        if (self._txn, self._inode) not in [(meta.txn, self._data.inode) for meta in metas]:
            self._load(table)
        moved = self._inode != self._data.inode and self._txn != _NO_TXN
        if self._txn != newest.txn:
            self._take_in(table, newest, metas[-1])
        if moved:
            # Copied with its checksums, or put in the place of another: what no commit changed since is compared.
            self._compare_all(newest)
            self._store(table, newest, np.zeros(0, np.int64))

    def _take_in(self, table: int, newest: _Meta, before: _Meta) -> None:
        """Make the checksums those of the newest commit, from those of the one before it or from nothing."""
        older = before if self._txn != _NO_TXN else None
        if older and older.txn != self._txn:
            raise PagesDamaged(f"it is as of transaction {newest.txn}, its checksums as of {self._txn}")
        if len(self._sums) <= newest.last_page:
            length = -(-(newest.last_page + 1) // _BLOCK) * _BLOCK
            self._sums = np.concatenate([self._sums, np.zeros(length - len(self._sums), np.uint32)])
        touched: list[Numbers] = []
        for number, tree in enumerate(newest.trees):
            old = older.trees[number] if older else _Tree(_NO_PAGE, 0, False)
            with _damage_where_it_leads_nowhere():
                touched += self._changed(old, tree, newest.last_page)
        changed = np.concatenate([*touched, np.zeros(0, np.int64)])
        self._sums[changed] = self._data.checksums(changed)
        self._store(table, newest, changed if older else np.arange(len(self._sums)))

    def _changed(self, old: _Tree, new: _Tree, last: int) -> list[Numbers]:
        """The pages of the new tree that the old one does not have.

        Level by level, counted from the leaves: a page that both have is below one that only the old one had.
        """
        found: list[Numbers] = []
        nothing = np.zeros(0, np.int64)
        ours = np.array([new.root], np.int64) if new.depth else nothing
        theirs = nothing
        for height in range(max(new.depth, old.depth), 0, -1):
            if height > new.depth:
                theirs = self._below(theirs if height < old.depth else np.array([old.root], np.int64))
                continue
            if height == old.depth:
                theirs = np.array([old.root], np.int64)
            self._check_numbers(ours, last)
            fresh, gone = np.setdiff1d(ours, theirs), np.setdiff1d(theirs, ours)
            found.append(fresh)
            if height > 1:
                ours, theirs = self._below(fresh), self._below(gone)
            elif new.overflow:
                pages = self._data.overflow(fresh)
                if old.overflow:
                    pages = np.setdiff1d(pages, self._data.overflow(gone))
                self._check_numbers(pages, last)
                found.append(pages)
        return found

    def _below(self, pages: Numbers) -> Numbers:
        return self._data.children(pages) if len(pages) else pages

    def _load(self, table: int) -> None:
        head = os.pread(table, _HEADER.size, 0)
        self._txn, self._inode, self._meta, self._sums = _NO_TXN, 0, 0, np.zeros(0, np.uint32)
        if len(head) < _HEADER.size:
            return
        magic, txn, inode, meta, count = _HEADER.unpack(head)
        data = os.pread(table, count * 4, _HEADER.size) if magic == _MAGIC and count < 1 << 40 else b""
        if magic == _MAGIC and len(data) == count * 4:
            self._txn, self._inode, self._meta = txn, inode, meta
            self._sums = np.frombuffer(data, np.uint32).copy()

    def _store(self, table: int, newest: _Meta, changed: Numbers) -> None:
        # An attempt that fails on the way leaves what is made anew: it has not got the commit it says.
        self._txn = _NO_TXN
        for block in np.unique(changed // _BLOCK).tolist():
            _write(
                table, self._sums[block * _BLOCK : (block + 1) * _BLOCK].tobytes(), _HEADER.size + block * _BLOCK * 4
            )
        length = _HEADER.size + len(self._sums) * 4
        if os.fstat(table).st_size < length:
            os.ftruncate(table, length)
        _write(table, _HEADER.pack(_MAGIC, newest.txn, self._data.inode, newest.checksum, len(self._sums)), 0)
        self._txn, self._inode, self._meta = newest.txn, self._data.inode, newest.checksum

    @contextmanager
    def _locked(self, *, readonly: bool = False) -> Iterator[int]:
        descriptor = os.open(self._table, os.O_RDONLY | os.O_CLOEXEC) if readonly else open_file(self._table, os.O_RDWR)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield descriptor
        finally:
            os.close(descriptor)


@contextmanager
def _damage_where_it_leads_nowhere() -> Iterator[None]:
    """What numbers on pages that are no numbers of pages end in."""
    try:
        yield
    except (IndexError, ValueError, OverflowError, MemoryError) as error:
        raise PagesDamaged(f"its pages cannot be followed ({error})") from error


def _write(descriptor: int, data: bytes, at: int) -> None:
    if os.pwrite(descriptor, data, at) != len(data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _meta_of(head: bytes, at: int) -> _Meta | None:
    if len(head) < at + _PAGE_HEADER + _META.size:
        return None
    (
        magic, version, page_size, _, free_depth, free_overflow, free_root,
        _, _, depth, overflow, root, last_page, txn,
    ) = _META.unpack_from(head, at + _PAGE_HEADER)  # fmt: skip
    if magic != _LMDB_MAGIC or version != _LMDB_VERSION or page_size not in _PAGE_SIZES:
        return None
    trees = (
        _Tree(free_root, free_depth if free_root != _NO_PAGE else 0, free_overflow > 0),
        _Tree(root, depth if root != _NO_PAGE else 0, overflow > 0),
    )
    data = head[at + _PAGE_HEADER : at + _PAGE_HEADER + _META.size]
    return _Meta(txn, zlib.crc32(data), page_size, last_page, trees)


def _positions(counts: Numbers) -> Numbers:
    """0, 1, … up to each count, one behind the other."""
    ends = np.cumsum(counts)
    return np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - counts, counts)
