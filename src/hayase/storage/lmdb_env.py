"""LMDB environments: one per process and path, maps that grow, nothing carried over a fork.

Why not simply `lmdb.open`: LMDB must not open the same files twice in one process, an open environment must
not be used after a fork, and a map can only be resized while no transaction of the process is open. So
everybody gets the environment from `open_environment`, once per use rather than once for life, and begins
transactions with `read_transaction` and `run_write`.

Facts this rests on (LMDB 0.9, py-lmdb 3.0):

* With `sync=True` a commit is durable before any reader sees it: data pages are written and `fdatasync`ed,
  then the meta page is written through a descriptor opened with `O_DSYNC`, and only then is the transaction
  number published that readers begin from. (After a writer was killed in the middle of that last step the
  next writer adopts its commit; `open_environment` therefore syncs once on opening.)
* There is one write transaction at a time over all processes. A writer that is killed leaves nothing behind:
  its lock is robust, its pages were never linked.
* Without `writemap` the file has the size of what is in it, so a map of 64 GiB costs address space only; but
  of that a process has 128 TiB, which must be enough for the environments of all bundles that it ever opens.
"""

from __future__ import annotations

import errno
import os
import resource
import shutil
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Literal, TypeVar, overload

import lmdb

from hayase.core.errors import StateError
from hayase.core.file_locks import wait_until_readable
from hayase.core.private_files import check_file, file_mode, make_folder, open_file, settle_file
from hayase.storage.disk_full import disk_full, is_out_of_space

T = TypeVar("T")

DEFAULT_MAP_SIZE = 1 << 36
"""Bytes of address space that an environment's map begins with. The file is as large as its content."""
MAX_READERS = 1024
"""Read transactions that may be open at a time, over all processes."""

_LOCK_FILE_BYTES = 64 * (MAX_READERS + 2)
_SMALLEST_MAP_SIZE = 64 << 20
_ALONE_TIMEOUT_S = 30.0
_WRITES_PER_READER_CHECK = 256
_NEARLY_FULL_BYTES = 64 << 20
_LOCK_FILE_BYTES = 64 * MAX_READERS + 128
_BLOCK_BYTES = 512
_NOT_WRITABLE = (errno.EACCES, errno.EROFS, errno.ENOENT, errno.EPERM)


class _Entry:
    """An open environment and the number of transactions this process has in it."""

    def __init__(self, env: lmdb.Environment, path: str, max_dbs: int, readonly: bool, sync: bool) -> None:
        self.env = env
        self.path = path
        self.max_dbs = max_dbs
        self.readonly = readonly
        self.sync = sync
        self.data = f"{path}/data.mdb"
        self.identity = _identity(self.data)
        self.replaced = False
        self.active: Counter[int] = Counter()  # transactions by thread
        self.closing = False
        self.writes = 0
        self.changed = threading.Condition()
        self.one_at_a_time = threading.Lock()

    def enter(self) -> None:
        """Count a transaction in; a thread that has none waits while another wants to be alone."""
        thread = threading.get_ident()
        with self.changed:
            if thread not in self.active:
                self.changed.wait_for(lambda: not self.closing, _ALONE_TIMEOUT_S)
            self.active[thread] += 1

    def leave(self) -> None:
        """Count a transaction out."""
        thread = threading.get_ident()
        with self.changed:
            self.active[thread] -= 1
            if self.active[thread] == 0:
                del self.active[thread]
                if self.closing:
                    self.changed.notify_all()
                if self.replaced and not self.active:
                    self.env.close()

    def let_go(self) -> None:
        """Close it as soon as no transaction is open: its files are gone, and others may be in their place."""
        with self.changed:
            self.replaced = True
            if not self.active:
                self.env.close()

    def alone(self, action: Callable[[], None]) -> None:
        """Run `action` while this process has no transaction open and cannot begin one."""
        with self.one_at_a_time:
            self.closing = True  # before the lock is taken: busy readers would hardly ever leave it free
            with self.changed:
                try:
                    if not self.changed.wait_for(lambda: not self.active, _ALONE_TIMEOUT_S):
                        raise StateError(
                            "ENVIRONMENT_BUSY",
                            f"{self.path} cannot be resized or closed: a transaction of this process stayed open "
                            f"for {_ALONE_TIMEOUT_S:.0f} s. End long reads, or open it with a larger map.",
                        )
                    action()
                finally:
                    self.closing = False
                    self.changed.notify_all()

    def grow(self, full_at: int) -> None:
        """Double the map, unless another thread has done so since it was found full."""

        def double() -> None:
            if self.env.info()["map_size"] <= full_at:
                self.env.set_mapsize(full_at * 2)

        self.alone(double)

    def adopt_map_size(self) -> None:
        """Follow another process that has grown the map."""
        self.alone(lambda: self.env.set_mapsize(0))


_entries: dict[tuple[int, str], _Entry] = {}
_lock = threading.Lock()


def open_environment(
    path: str | os.PathLike[str],
    *,
    map_size: int = DEFAULT_MAP_SIZE,
    max_dbs: int = 16,
    readonly: bool = False,
    sync: bool = True,
) -> lmdb.Environment:
    """The environment in the folder `path`: opened by the first call of a process, then the same object.

    Call it again for every use instead of keeping the result: an environment that was closed in between, or
    inherited over a fork, is opened afresh; and so is one whose files were deleted, or replaced by others, meanwhile:
    transactions that are open go on in the old files until they end. The call costs about two microseconds if `path`
    is absolute and without symbolic links. Opening clears reader slots of dead processes, and so does every 256th
    write. Thread-safe.

    Args:
        path: folder of the environment; made if absent (unless `readonly`). Must be on a local file system.
        map_size: bytes of address space to begin with; smaller if the system does not give as much. The map
            grows by itself in `run_write`.
        max_dbs: how many named databases it may have.
        readonly: no writes; the environment must exist. If it is open for writing already, that one is
            returned.
        sync: whether a commit is durable (fsync) before it returns and before readers see it. Without, a power
            loss can damage the environment.

    Raises:
        StateError: `ENVIRONMENT_OPEN_OTHERWISE`: it is open in this process with another `sync`, fewer
            `max_dbs`, or readonly; `ENVIRONMENT_NOT_OPENED`: it cannot be opened; the message says why; `DISK_FULL`.
    """
    given = os.fspath(path)
    entry = _entries.get((os.getpid(), given))
    if entry is None or _identity(entry.data) != entry.identity:
        with _lock:
            real = os.path.realpath(given)
            key = (os.getpid(), real)
            entry = _entries.get(key)
            if entry is not None and _identity(entry.data) != entry.identity:
                del _entries[key]
                entry.let_go()
                entry = None
            if entry is None:
                entry = _open(real, map_size, max_dbs, readonly, sync)
                _entries[key] = entry
    if entry.max_dbs < max_dbs or entry.sync != sync or (entry.readonly and not readonly):
        raise StateError(
            "ENVIRONMENT_OPEN_OTHERWISE",
            f"{entry.path} is open in this process with max_dbs={entry.max_dbs}, sync={entry.sync}, "
            f"readonly={entry.readonly}; asked for max_dbs={max_dbs}, sync={sync}, readonly={readonly}. "
            "Use the same settings everywhere in a process, or close it first.",
        )
    return entry.env


def close_environment(path: str | os.PathLike[str]) -> None:
    """Close the environment for this whole process, after its open transactions; nothing if it is not open.

    Needed before its folder is deleted or replaced. Objects made from it (transactions, cursors, databases)
    are invalid afterwards; `open_environment` opens it again.

    Raises:
        StateError: `ENVIRONMENT_BUSY` after 30 s with a transaction open.
    """
    with _lock:
        entry = _entries.get((os.getpid(), os.path.realpath(path)))
        if entry is None:
            return
        entry.alone(entry.env.close)
        del _entries[(os.getpid(), entry.path)]


def is_environment_open(path: str | os.PathLike[str]) -> bool:
    """Whether this process has it open."""
    pid, given = os.getpid(), os.fspath(path)
    return (pid, given) in _entries or (pid, os.path.realpath(given)) in _entries


def is_open(env: lmdb.Environment) -> bool:
    """Whether an environment that `open_environment` gave is still open in this process."""
    try:
        entry = _entries.get((os.getpid(), env.path()))
    except lmdb.Error:
        return False
    return entry is not None and entry.env is env


@overload
def read_transaction(
    env: lmdb.Environment, *, buffers: Literal[False] = False
) -> AbstractContextManager[lmdb.Transaction[bytes]]: ...
@overload
def read_transaction(
    env: lmdb.Environment, *, buffers: Literal[True]
) -> AbstractContextManager[lmdb.Transaction[memoryview]]: ...
@overload
def read_transaction(env: lmdb.Environment, *, buffers: bool) -> AbstractContextManager[lmdb.Transaction]: ...
def read_transaction(env: lmdb.Environment, *, buffers: bool = False) -> AbstractContextManager[lmdb.Transaction]:
    """A snapshot of the environment as of now; never blocks and is never blocked by writers.

    Keep it short: pages that a snapshot can see are not reused, and the map cannot grow meanwhile. With
    `buffers=True` values are memory views into the map, valid only inside the `with`.
    """
    return _transaction(_entry_of(env), write=False, buffers=buffers)


def run_write(env: lmdb.Environment, work: Callable[[lmdb.Transaction[bytes]], T]) -> T:
    """Run `work` in the environment's write transaction, commit, and return its result.

    Waits for other writers, in this process and others. If `work` raises, nothing is written. If the map is
    full it is doubled and `work` **runs again** in a new transaction, so it must have no other effects. Must
    not be called inside a transaction of the same environment and thread.

    Raises:
        lmdb.Error: the write failed and changed nothing; `is_disk_full` tells whether that was for lack of
        space. StateError: `ENVIRONMENT_BUSY`: the map must grow, but a transaction of this process stays
        open.
    """
    entry = _entry_of(env)
    entry.writes += 1
    if entry.writes % _WRITES_PER_READER_CHECK == 0:
        env.reader_check()
    while True:
        map_size = env.info()["map_size"]
        try:
            with _transaction(entry, write=True, buffers=False) as txn:
                result = work(txn)
                txn.commit()
                return result
        except lmdb.MapFullError:
            entry.grow(map_size)


def ends_early(env: lmdb.Environment) -> bool:
    """Whether the file ends before its last page, as a power loss may leave it: reading it could kill the process.

    Other damage is not found.
    """
    pages = env.info()["last_pgno"] + 1
    return Path(env.path(), "data.mdb").stat().st_size < pages * env.stat()["psize"]


def is_disk_full(env_path: str | os.PathLike[str], error: lmdb.Error) -> bool:
    """Whether a failed write is due to a full disk, a quota or a file size limit.

    LMDB reports a write that was cut short as an I/O error, so for that one the free space decides.
    """
    if isinstance(error, lmdb.DiskError) or is_out_of_space(error.code):
        return True
    if error.code != errno.EIO:
        return False
    if shutil.disk_usage(env_path).free < _NEARLY_FULL_BYTES:
        return True
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
    size = Path(env_path, "data.mdb").stat().st_size
    return limit != resource.RLIM_INFINITY and size + _NEARLY_FULL_BYTES > limit


def _identity(file: str) -> tuple[int, int] | None:
    """Which file it is; `None` if there is none."""
    try:
        status = os.stat(file)  # noqa: PTH116 - for every use of an environment; a Path costs as much again
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _open(path: str, map_size: int, max_dbs: int, readonly: bool, sync: bool) -> _Entry:
    try:
        if not readonly:
            make_folder(Path(path))
            for name in ("data.mdb", "lock.mdb"):
                check_file(Path(path, name))
            wait_until_readable(Path(path, "lock.mdb"))
        _reserve_lock_file(path)
        env = _open_with_largest_map(path, map_size, max_dbs, readonly, sync)
    except (lmdb.Error, OSError) as error:
        code = error.errno if isinstance(error, OSError) else error.code
        if isinstance(error, lmdb.DiskError) or is_out_of_space(code):
            raise disk_full("An LMDB environment", path, error) from error
        if code == errno.EAGAIN:  # of the lock on the byte that is numbered like the process
            raise StateError(
                "ENVIRONMENT_NOT_OPENED",
                f"{path} is open in another process with the same process id, {os.getpid()}, which is in another "
                "container: let both share a PID namespace (docker run --pid=container:NAME), or let only one of "
                "them use the folder",
            ) from error
        raise StateError(
            "ENVIRONMENT_NOT_OPENED",
            f"{path} cannot be opened as an LMDB environment: {error}. It must be a writable folder on a local disk; "
            "after a fork no object of the child may still hold the parent's environment.",
        ) from error
    if not readonly:
        for name in ("data.mdb", "lock.mdb"):
            settle_file(Path(path, name))
    env.reader_check()
    if sync and not readonly:
        env.sync(True)
    return _Entry(env, path, max_dbs, readonly, sync)


def _reserve_lock_file(path: str) -> None:
    """Give the lock file its blocks, which LMDB maps and writes to as readers come.

    On a full disk that would be a SIGBUS.

    Nothing happens where they are there: closing a descriptor of the file would give up LMDB's own locks on it.
    """
    file = Path(path, "lock.mdb")
    try:
        status = file.stat()
    except FileNotFoundError:
        status = None
    if status is not None and status.st_blocks * _BLOCK_BYTES >= _LOCK_FILE_BYTES:
        return
    try:
        descriptor = open_file(file, os.O_RDWR)
    except OSError as error:
        if error.errno in _NOT_WRITABLE:
            return  # LMDB will say so, or do without
        raise
    try:
        os.posix_fallocate(descriptor, 0, _LOCK_FILE_BYTES)
    finally:
        os.close(descriptor)


def _open_with_largest_map(path: str, map_size: int, max_dbs: int, readonly: bool, sync: bool) -> lmdb.Environment:
    while True:
        try:
            return lmdb.open(
                path,
                map_size=map_size,
                max_dbs=max_dbs,
                readonly=readonly,
                sync=sync,
                metasync=sync,
                max_readers=MAX_READERS,
                create=not readonly,
                mode=file_mode(Path(path)),
            )
        except lmdb.MemoryError:
            if map_size <= _SMALLEST_MAP_SIZE:
                raise
            map_size = max(map_size // 8, _SMALLEST_MAP_SIZE)


def _entry_of(env: lmdb.Environment) -> _Entry:
    entry = _entries.get((os.getpid(), env.path()))
    if entry is None or entry.env is not env:
        raise StateError(
            "ENVIRONMENT_CLOSED",
            "The environment was closed, inherited over a fork or not opened with open_environment; open it again.",
        )
    return entry


@overload
def _transaction(
    entry: _Entry, *, write: bool, buffers: Literal[False]
) -> AbstractContextManager[lmdb.Transaction[bytes]]: ...
@overload
def _transaction(entry: _Entry, *, write: bool, buffers: bool) -> AbstractContextManager[lmdb.Transaction]: ...
@contextmanager
def _transaction(entry: _Entry, *, write: bool, buffers: bool) -> Iterator[lmdb.Transaction[Any]]:
    txn = _begin(entry, write=write, buffers=buffers)
    pid = os.getpid()
    try:
        yield txn
    finally:
        # In a child forked meanwhile an abort would free the parent's reader slot.
        if os.getpid() == pid:
            txn.abort()
            entry.leave()


def _begin(entry: _Entry, *, write: bool, buffers: bool) -> lmdb.Transaction:
    while True:
        entry.enter()
        try:
            return entry.env.begin(None, None, write, True) if buffers else entry.env.begin(None, None, write)
        except lmdb.MapResizedError:
            entry.leave()
            entry.adopt_map_size()
        except BaseException:
            entry.leave()
            raise


def _forget_inherited() -> None:
    """Drop the parent's environments unclosed: closing them would free reader slots that the parent uses."""
    global _lock  # noqa: PLW0603 - a thread of the parent may have held it
    _lock = threading.Lock()
    _entries.clear()


os.register_at_fork(after_in_child=_forget_inherited)
