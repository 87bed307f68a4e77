"""What an epoch holds beyond its share of memory: files beside the state that are not needed once the epoch is over.

A `SpillFile` takes blobs and has no name, so the system removes it with the process, however that ends. `SpilledStore`s
are maps of bytes in a temporary LMDB environment; a process that is killed leaves its folder behind, and the next
one that opens the state for itself removes it (`TEMPORARY_PREFIX`).
"""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import lmdb

from hayase.core.private_files import make_folder
from hayase.state.environment import layout
from hayase.state.environment.base import Entries
from hayase.storage.disk_full import disk_full, is_out_of_space, naming_full_disk
from hayase.storage.lmdb_env import close_environment, is_disk_full, open_environment, read_transaction, run_write

_Scan = Generator[tuple[bytes, bytes], None, None]

TEMPORARY_PREFIX = "temporary-"
"""Folders in the state's folder that are not needed once their process is gone."""

_DELETED = b"\x00"
_WRITTEN = b"\x01"
_WHAT = "What an epoch holds beyond epoch.memory.max.bytes"


@contextmanager
def temporary_folder(parent: Path, what: str) -> Iterator[Path]:
    """A folder in a state's folder, removed afterwards; a process that is killed leaves it to the next one.

    Raises:
        StateError: `DISK_FULL`, saying what it was for.
    """
    with naming_full_disk(what, parent):
        folder = tempfile.TemporaryDirectory(prefix=TEMPORARY_PREFIX, dir=parent)
    with folder as name:
        yield Path(name)


class Spilled(NamedTuple):
    """Where a blob is in a SpillFile."""

    offset: int
    length: int


class SpillFile:
    """Blobs one behind the other in a file without a name.

    Args:
        folder: whose file system takes it.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._descriptor: int | None = None
        self._end = 0

    def append(self, data: bytes | memoryview) -> Spilled:
        """Write a blob; raises StateError `DISK_FULL`."""
        try:
            descriptor = self._opened()
            rest, at = memoryview(data), self._end
            while rest:
                written = os.pwrite(descriptor, rest, at)
                rest, at = rest[written:], at + written
        except OSError as error:
            if is_out_of_space(error.errno):
                raise disk_full(_WHAT, self._folder, error) from error
            raise
        place = Spilled(self._end, len(data))
        self._end = at
        return place

    def read(self, place: Spilled) -> bytes:
        """A blob that was written."""
        descriptor = self._opened()
        pieces: list[bytes] = []
        offset, left = place
        while left:
            piece = os.pread(descriptor, left, offset)
            if not piece:
                raise OSError(f"the spill file in {self._folder} ends at {offset}, before what was written to it")
            pieces.append(piece)
            offset, left = offset + len(piece), left - len(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def close(self) -> None:
        """Give the space back."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _opened(self) -> int:
        if self._descriptor is None:
            make_folder(self._folder)
            with tempfile.TemporaryFile(dir=self._folder) as file:
                self._descriptor = os.dup(file.fileno())
        return self._descriptor


class SpillMaps:
    """A temporary environment with any number of SpilledStores. Not thread-safe.

    Args:
        folder: in which it makes a folder of its own when first written to.
    """

    def __init__(self, folder: Path) -> None:
        self._parent = folder
        self._path: Path | None = None
        self._next = layout.FIRST_NUMBER
        self._stack = ExitStack()
        self._txn: layout.Txn | None = None
        self._scans: weakref.WeakSet[_Scan] = weakref.WeakSet()

    def store(self) -> SpilledStore:
        """A new, empty store."""
        self._next += 1
        return SpilledStore(self, layout.prefix_of(self._next - 1))

    def close(self) -> None:
        """Remove it; its stores cannot be read any more."""
        for scan in list(self._scans):
            scan.close()
        self._stack.close()
        self._txn = None
        if self._path is not None:
            close_environment(self._path)
            shutil.rmtree(self._path, ignore_errors=True)
            self._path = None

    def env(self) -> lmdb.Environment:
        """The environment; made when first asked for."""
        if self._path is None:
            with naming_full_disk(_WHAT, self._parent):
                make_folder(self._parent)
                self._path = Path(tempfile.mkdtemp(prefix=TEMPORARY_PREFIX, dir=self._parent)).resolve()
        return open_environment(self._path, max_dbs=0, sync=False)

    def txn(self) -> layout.Txn:
        """A read transaction that sees the last write."""
        if self._txn is None:
            self._txn = self._stack.enter_context(read_transaction(self.env()))
        return self._txn

    def write(self, prefix: bytes, keys: Sequence[bytes], values: Sequence[bytes]) -> None:
        """Write entries of one store."""

        def work(txn: layout.Txn) -> None:
            layout.write_stored(txn, prefix, txn.stat()["entries"], keys, values)

        self._run(work)

    def delete_range(self, prefix: bytes, start: bytes, end: bytes | None) -> None:
        """Forget entries of one store."""
        self._run(lambda txn: layout.delete_stored_range(txn, prefix, start, end))

    def scan(self, prefix: bytes, start: bytes | None, end: bytes | None, reverse: bool) -> Entries:
        """Entries as of this call, whatever is written while they are read."""
        scan = self._scan(prefix, start, end, reverse)
        next(scan)
        self._scans.add(scan)
        return scan

    def _scan(self, prefix: bytes, start: bytes | None, end: bytes | None, reverse: bool) -> _Scan:
        with read_transaction(self.env()) as txn:
            yield b"", b""  # now the snapshot is taken
            yield from layout.LmdbBase(txn, int.from_bytes(prefix, "big"), 0).range(start, end, reverse)

    def _run(self, work: Callable[[layout.Txn], None]) -> None:
        # An open snapshot would keep pages from being used again.
        self._stack.close()
        self._txn = None
        env = self.env()
        try:
            run_write(env, work)
        except lmdb.Error as error:
            folder = Path(env.path())
            if not is_disk_full(folder, error):
                raise
            raise disk_full(_WHAT, folder, error) from error


class SpilledStore:
    """Writes of one store: values, and that keys were deleted.

    `None` means that nothing is known of a key; a *mark* is what is known: see `value_of`.
    """

    __slots__ = ("_maps", "_prefix")

    def __init__(self, maps: SpillMaps, prefix: bytes) -> None:
        self._maps = maps
        self._prefix = prefix

    def get(self, key: bytes) -> bytes | None:
        """The mark of a key."""
        return self._base().get(key)

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """The marks of keys, in their order."""
        return self._base().get_many(keys)

    def marks(self, start: bytes | None = None, end: bytes | None = None, *, reverse: bool = False) -> Entries:
        """Keys and marks in byte order, as of this call."""
        return self._maps.scan(self._prefix, start, end, reverse)

    def put_many(self, keys: Sequence[bytes], values: Sequence[bytes | None]) -> None:
        """Write; `None` says that a key was deleted. No key may occur twice."""
        marks = [_DELETED if value is None else _WRITTEN + value for value in values]
        self._maps.write(self._prefix, keys, marks)

    def forget_range(self, start: bytes, end: bytes | None) -> None:
        """Forget what is known of keys with `start <= key < end`."""
        self._maps.delete_range(self._prefix, start, end)

    def _base(self) -> layout.LmdbBase:
        return layout.LmdbBase(self._maps.txn(), int.from_bytes(self._prefix, "big"), 0)


def value_of(mark: bytes) -> bytes | None:
    """The value that a mark stands for; `None` if the key was deleted."""
    return None if mark == _DELETED else mark[1:]


class EpochSpace:
    """Where one bundle's epoch puts what is beyond its share of memory; closed with the epoch.

    Attributes:
        max_bytes: of memory that the epoch may hold; see `epoch.memory.max.bytes`.
        read_bytes: about how much memory the input took that was read so far.
        file: for blobs.
        maps: for stores.
    """

    def __init__(self, folder: Path, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.read_bytes = 0
        self.file = SpillFile(folder)
        self.maps = SpillMaps(folder)

    @property
    def share(self) -> int:
        """What each of input, changes and outputs may hold: a quarter; the last is for what is made of these."""
        return max(1, self.max_bytes // 4)

    def close(self) -> None:
        """Give the space back. Calling it again does nothing."""
        self.file.close()
        self.maps.close()

    def __enter__(self) -> EpochSpace:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
