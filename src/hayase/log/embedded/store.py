"""The LMDB environment of an embedded log, with its errors put into the log's words."""

from __future__ import annotations

import os
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import lmdb

from hayase.core.errors import ConfigError, LogError, StateError
from hayase.core.private_files import private_folder
from hayase.log.embedded import pid_namespace
from hayase.log.embedded.checked_rows import row_damaged
from hayase.log.embedded.failures import io_errors, log_disk_full
from hayase.log.embedded.group_commit import GroupCommit, Work
from hayase.log.embedded.settings import read_options
from hayase.log.embedded.tables import NAMES, Tables
from hayase.log.embedded.write_wait import waiting_for_write_lock
from hayase.log.protocol import LogConfig
from hayase.storage.lmdb_env import (
    close_environment,
    ends_early,
    is_disk_full,
    open_environment,
    read_transaction,
    run_write,
)
from hayase.storage.lmdb_pages import PagesDamaged
from hayase.storage.tree_check import check_trees

T = TypeVar("T")

_FORMAT = b"3"
_OLDER = (b"1", b"2")
FILES = ("data.mdb", "lock.mdb", "cleaner.lock", pid_namespace.USERS_LOCK)
"""What is in the folder."""
_commits: dict[tuple[int, str], GroupCommit] = {}
_users: Counter[tuple[int, str]] = Counter()
_users_lock = threading.Lock()


class LogStore:
    """Transactions on the log's folder. Recreated in every process; all of a process share one environment.

    Args:
        config: the log; its folder is made if absent.

    Raises:
        ConfigError: an option is unknown or has a value that is not allowed, or there is no folder.
        FolderError: the folder belongs to another user.
        LogError: `LOG_NOT_OPENED`: the folder cannot be used; `LOG_FORMAT`: it is of another version; `LOG_DAMAGED`:
            its file is cut off, or rows in it are not what was written; `LOG_IN_OTHER_PID_NAMESPACE`: processes of
            another container have it open; `DISK_FULL`.
    """

    def __init__(self, config: LogConfig) -> None:
        if not config.location:
            raise ConfigError("INVALID_SETTING", "an embedded log needs a folder as its location")
        self.settings = read_options(config)
        with io_errors(config.location, "LOG_NOT_OPENED"):
            private_folder(Path(config.location).absolute(), contents=FILES)
        self.path = os.path.realpath(config.location)
        self._handles: dict[str, lmdb._Database] = {}
        self._prepared: weakref.ref[lmdb.Environment] | None = None
        self._user = (os.getpid(), self.path)
        self._closed = False
        self._commits = _commits.setdefault(self._user, GroupCommit())
        with _users_lock:
            pid_namespace.enter(self.path)
            _users[self._user] += 1
        try:
            self._env()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Let go; the last user in the process closes the files."""
        with _users_lock:
            if self._closed:
                return
            self._closed = True
            _users[self._user] -= 1
            if _users[self._user] > 0:
                return
            del _users[self._user]
            _commits.pop(self._user, None)
            if self._user[0] == os.getpid():
                close_environment(self.path)
                pid_namespace.leave(self.path)

    @contextmanager
    def read(self, *, buffers: bool = False) -> Iterator[Tables]:
        """The log as of now. With `buffers` values are views into the map, valid only inside the `with`."""
        env = self._env()
        with self._translated(), read_transaction(env, buffers=buffers) as txn:
            yield Tables(env, txn, self._handles)

    def write(self, work: Work[T]) -> T:
        """Run `work` with the tables of a write transaction and commit; durable on return if `fsync` is on.

        Threads that write at the same time share a commit.

        Raises:
            LogError: `DISK_FULL`, `LOG_WRITE_FAILED`: nothing was written; calling again is safe.
        """
        self._env()
        return self._commits.write(work, self._transaction)

    def _transaction(self, work: Callable[[Tables], T]) -> T:
        env = self._env()
        with self._translated(), waiting_for_write_lock(self.path, pid_namespace.USERS_LOCK) as came:

            def begun(txn: lmdb.Transaction[bytes]) -> T:
                came()
                return work(Tables(env, txn, self._handles))

            return run_write(env, begun)

    def _env(self) -> lmdb.Environment:
        if self._closed or self._user[0] != os.getpid():
            raise LogError(
                "LOG_CLOSED",
                "the log was closed, or inherited over a fork: open it again from its LogConfig",
                location=self.path,
            )
        try:
            env = open_environment(self.path, map_size=self.settings.map_size, max_dbs=16, sync=self.settings.fsync)
        except StateError as error:
            if error.condition == "DISK_FULL":
                raise log_disk_full(self.path) from error
            if isinstance(error.__cause__, lmdb.InvalidError | lmdb.CorruptedError):
                raise self._damaged(str(error.__cause__)) from error
            raise LogError(
                "LOG_NOT_OPENED", f"the embedded log cannot be opened: {error.message}", location=self.path
            ) from error
        if self._prepared is None or self._prepared() is not env:
            if ends_early(env):
                close_environment(self.path)
                raise LogError(
                    "LOG_DAMAGED",
                    "the log's file data.mdb ends before its last page: it was cut off, as a power loss may do where "
                    "fsync is off. Restore the folder from a copy, or remove it to begin with an empty log",
                    location=self.path,
                )
            self._check_pages(env)
            self._prepare(env)
            self._handles = {}
            self._prepared = weakref.ref(env)
        return env

    def _check_pages(self, env: lmdb.Environment) -> None:
        """LMDB ends the process where a page of its trees is none."""
        with self._translated():
            try:
                check_trees(env)
            except PagesDamaged as error:
                close_environment(self.path)
                raise self._damaged(str(error)) from error

    def _damaged(self, what: str) -> LogError:
        return LogError(
            "LOG_DAMAGED",
            f"pages of {self.path}/data.mdb are damaged: {what}. Check the disk and restore the folder from a copy",
            location=f"{self.path}/data.mdb",
        )

    def _prepare(self, env: lmdb.Environment) -> None:
        """Make or check the layout. Database handles that are opened here stay open with the environment."""

        def prepare(txn: lmdb.Transaction[bytes]) -> None:
            came()
            meta = env.open_db(b"meta", txn=txn)
            for name in NAMES:
                env.open_db(name.encode(), txn=txn)
            tables = Tables(env, txn)
            stored = txn.get(b"format", db=meta)
            if stored is None:
                if any(txn.stat(env.open_db(name.encode(), txn=txn))["entries"] for name in NAMES):
                    raise row_damaged(f"{self.path}/data.mdb", "meta", b"format", "it is not there")
                tables.put("meta", b"format", _FORMAT)
            elif stored in _OLDER:
                tables.upgrade()
                tables.put("meta", b"format", _FORMAT)
            elif (version := stored if stored.isdigit() else tables.get("meta", b"format")) != _FORMAT:
                raise LogError(
                    "LOG_FORMAT",
                    f"{self.path} has format {(version or b'').decode(errors='replace')}, this version reads up to "
                    f"{_FORMAT.decode()}: use the version of Hayase that wrote it, or another folder",
                    location=self.path,
                )

        with self._translated(), waiting_for_write_lock(self.path, pid_namespace.USERS_LOCK) as came:
            run_write(env, prepare)

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except lmdb.Error as error:
            if is_disk_full(self.path, error):
                raise log_disk_full(self.path) from error
            if isinstance(error, lmdb.CorruptedError | lmdb.PageNotFoundError | lmdb.InvalidError):
                raise self._damaged(str(error)) from error
            if isinstance(error, lmdb.PanicError):
                close_environment(self.path)  # LMDB refuses it from now on; the next call opens it afresh
            raise LogError(
                "LOG_FAILED", f"the log's files could not be used: {error}. Calling again is safe", location=self.path
            ) from error
        except StateError as error:
            raise LogError("LOG_FAILED", error.message, location=self.path) from error


def _forget_inherited() -> None:
    """Stores of the parent are not used in the child; what it counts is under its own process id."""
    global _users_lock  # noqa: PLW0603 - a thread of the parent may have held it
    _users_lock = threading.Lock()


os.register_at_fork(after_in_child=_forget_inherited)
