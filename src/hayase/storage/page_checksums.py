"""Checksums of the pages of an LMDB file, kept beside it by its writers: what LMDB 0.9 does not have.

A commit of LMDB writes changed pages to new places and then a new root, so that what one commit changed is what the new
tree has and the old one does not. `PageChecksums.update`, after each commit, walks both trees from their roots down,
only where they differ, and keeps a CRC-32 of each new page in the file `PAGES`. `verify` reads the whole tree and
compares, without LMDB, whose behaviour with damaged pages is undefined.
"""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from hayase.core.file_locks import lock_within
from hayase.core.private_files import open_file
from hayase.storage.lmdb_pages import (
    METAS,
    NO_PAGE,
    Meta,
    Numbers,
    PagesDamaged,
    PagesFile,
    Tree,
    damage_where_it_leads_nowhere,
)

T = TypeVar("T")

_LOG = logging.getLogger("hayase.storage")
PAGES_FILE = "PAGES"
_HEADER = struct.Struct("<8sQQQQ")
"""What it is.

Transaction that it is as of; inode of the file; checksum of that transaction's meta page; number of entries.
"""
_MAGIC = b"HAYPAGE1"
_LOCK_TRIES = 50
_LOCK_PAUSE_S = 0.01
_BLOCK = 1024
"""Entries that are written at once."""

_NO_TXN = -1
"""There are no checksums."""


class PageChecksums:
    """The checksums of one environment's pages. Every process that writes to it has one, and writes through `commit`.

    Args:
        folder: of the environment.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._data = PagesFile(folder / "data.mdb")
        self._table = folder / PAGES_FILE
        self._txn = _NO_TXN
        self._inode = 0
        self._meta = 0
        self._sums: npt.NDArray[np.uint32] = np.zeros(0, np.uint32)
        self._marks: npt.NDArray[np.bool_] = np.zeros(0, np.bool_)
        """One for each of `_sums`; all false between two calls of `_without`."""

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
        """As `verify`, without making any checksums, while others write.

        They wait for moments only, and are not waited for.

        Args:
            pin: begins a read transaction, which keeps others from writing to the pages that are compared; without one,
                or while another commits for long, a page that seems to be wrong is compared once more when no process
                writes.

        Raises:
            PagesDamaged: a page is not what was written.
            OSError: they could not be read.
        """
        try:
            if self._seems_right(pin):
                return
            with self._locked(readonly=True) as table:
                newest = self._loaded(table)
                if newest is not None:
                    self._compare_all(newest)
        except FileNotFoundError:
            return

    def _seems_right(self, pin: Callable[[], object] | None) -> bool:
        certain = False
        try:
            with self._opened(os.O_RDONLY) as table:
                locked = _lock_soon(table)
                certain = locked and pin is not None
                newest = self._loaded(table)
                if pin is not None:
                    pin()
            if newest is not None:
                self._compare_all(newest)
        except PagesDamaged:
            if certain:
                raise
            return False
        return True

    def _loaded(self, table: int) -> Meta | None:
        """The newest meta page; `None` if the checksums are of another commit."""
        newest = self._data.metas()[0]
        self._load(table)
        return newest if self._txn == newest.txn else None

    def _compare_all(self, newest: Meta) -> None:
        if newest.checksum != self._meta:
            raise PagesDamaged("its meta page has a wrong checksum")
        with damage_where_it_leads_nowhere():
            for tree in newest.trees:
                for pages in self._levels(tree, newest.last_page):
                    self._compare(pages)

    def _compare(self, pages: Numbers) -> None:
        wrong = pages[self._data.checksums(pages) != self._sums[pages]]
        if len(wrong):
            raise PagesDamaged(
                f"page {wrong[0]} has a wrong checksum ({len(wrong)} of {len(pages)} that were compared)"
            )

    def _levels(self, tree: Tree, last: int) -> Iterator[Numbers]:
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
        if len(pages) and not (pages.min() >= METAS and pages.max() <= min(last, len(self._sums) - 1)):
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

    def _take_in(self, table: int, newest: Meta, before: Meta) -> None:
        """Make the checksums those of the newest commit, from those of the one before it or from nothing."""
        older = before if self._txn != _NO_TXN else None
        if older and older.txn != self._txn:
            raise PagesDamaged(f"it is as of transaction {newest.txn}, its checksums as of {self._txn}")
        if len(self._sums) <= newest.last_page:
            length = -(-(newest.last_page + 1) // _BLOCK) * _BLOCK
            self._sums = np.concatenate([self._sums, np.zeros(length - len(self._sums), np.uint32)])
        touched: list[Numbers] = []
        for number, tree in enumerate(newest.trees):
            old = older.trees[number] if older else Tree(NO_PAGE, 0, False)
            with damage_where_it_leads_nowhere():
                touched += self._changed(old, tree, newest.last_page)
        changed = np.concatenate([*touched, np.zeros(0, np.int64)])
        self._sums[changed] = self._data.checksums(changed)
        self._store(table, newest, changed if older else np.arange(len(self._sums)))

    def _changed(self, old: Tree, new: Tree, last: int) -> list[Numbers]:
        """The pages of the new tree that the old one does not have.

        Level by level, counted from the leaves: a page that both have is below one that only the old one had.
        """
        changed: list[Numbers] = []
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
            fresh, gone = self._without(ours, theirs), self._without(theirs, ours)
            changed.append(fresh)
            if height > 1:
                ours, theirs = self._below(fresh), self._below(gone)
            elif new.overflow:
                pages = self._data.overflow(fresh)
                if old.overflow:
                    pages = self._without(pages, self._data.overflow(gone))
                self._check_numbers(pages, last)
                changed.append(pages)
        return changed

    def _below(self, pages: Numbers) -> Numbers:
        return self._data.children(pages) if len(pages) else pages

    def _without(self, pages: Numbers, others: Numbers) -> Numbers:
        """The pages that are not among the others. Marks take a tenth of what numpy's own functions for sets take.

        Raises:
            IndexError: a number is none of a page.
        """
        if not (len(pages) and len(others)):
            return pages
        if len(self._marks) != len(self._sums):
            self._marks = np.zeros(len(self._sums), np.bool_)
        self._marks[others] = True
        try:
            left: Numbers = pages[~self._marks[pages]]
        finally:
            self._marks[others] = False
        return left

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

    def _store(self, table: int, newest: Meta, changed: Numbers) -> None:
        # An attempt that fails on the way leaves what is recreated: it has not got the commit it says.
        self._txn = _NO_TXN
        for block in sorted(set((changed // _BLOCK).tolist())):
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
        with self._opened(os.O_RDONLY if readonly else os.O_RDWR) as descriptor:
            lock_within(descriptor, fcntl.LOCK_EX, self._table)
            yield descriptor

    @contextmanager
    def _opened(self, flags: int) -> Iterator[int]:
        readonly = flags == os.O_RDONLY
        descriptor = os.open(self._table, flags | os.O_CLOEXEC) if readonly else open_file(self._table, flags)
        try:
            yield descriptor
        finally:
            os.close(descriptor)


def _lock_soon(descriptor: int) -> bool:
    """Lock the table.

    `False` if another commits for long: a large delta, whose parts may come from a store that is away.
    """
    for _ in range(_LOCK_TRIES):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(_LOCK_PAUSE_S)
        else:
            return True
    return False


def _write(descriptor: int, data: bytes, at: int) -> None:
    if os.pwrite(descriptor, data, at) != len(data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
