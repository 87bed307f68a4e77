"""Reading a bundle's state from any process while the application runs."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import NoReturn, Protocol

import lmdb

from hayase.core.errors import StateError
from hayase.state.environment import crash_marker, layout
from hayase.state.environment.base import BaseStore, Entries, MemoryBase
from hayase.state.environment.environment import (
    DAMAGED_FILE,
    DATA_FILE,
    NOTHING_APPLIED,
    base_in,
    damaged,
    open_state_environment,
    read_meta,
)
from hayase.storage.lmdb_env import is_environment_open, is_open, read_transaction
from hayase.storage.lmdb_pages import PagesDamaged
from hayase.storage.page_checksums import PageChecksums

_LOOKED_S = 0.02
"""For so long an environment that was looked at is read without another look at its files: with each look a thread that
answers lets go of Python's lock, and gets it back behind all others that compute."""
_CHECKED_EVERY = 512
"""Entries of a scan between two looks at the clock."""

READ_MAX_S = 10.0
"""So long a snapshot may be read: what it reads cannot be used again meanwhile."""


class _Deadline:
    def __init__(self, max_seconds: float, clock: Callable[[], float]) -> None:
        self._max_seconds = max_seconds
        self._clock = clock
        self._end = clock() + max_seconds

    def check(self) -> None:
        if self._clock() > self._end:
            raise StateError(
                "SCAN_TOO_LONG",
                f"A snapshot of the state was read for more than {self._max_seconds:g} s. Old pages cannot be reused "
                "while it is held, so it is ended: ask for smaller ranges, take a new snapshot for each, or allow "
                "more time.",
            )


class ReadOnlyStore:
    """`ByteStore` of a snapshot; writing raises StateError `READ_ONLY`. Valid while the snapshot is open."""

    def __init__(self, base: BaseStore, deadline: _Deadline) -> None:
        self._base = base
        self._deadline = deadline

    def get(self, key: bytes) -> bytes | None:
        """The value, `None` if absent."""
        self._deadline.check()
        return self._base.get(key)

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """The values of keys, in their order."""
        self._deadline.check()
        return self._base.get_many(keys)

    def range(self, start: bytes | None = None, end: bytes | None = None, *, reverse: bool = False) -> Entries:
        """Entries with `start <= key < end` in byte order."""
        if end is not None and (start or b"") >= end:
            return iter(())
        return self._limited(self._base.range(start, end, reverse))

    def ranges(self, bounds: Sequence[tuple[bytes, bytes]]) -> list[list[tuple[bytes, bytes]]]:
        """The entries of each range."""
        return [list(self.range(start, end)) for start, end in bounds]

    def approximate_count(self) -> int:
        """The number of entries."""
        return self._base.count()

    def put(self, key: bytes, value: bytes | None) -> NoReturn:
        """Refused."""
        _refuse()

    def put_many(self, keys: Sequence[bytes], values: Sequence[bytes | None]) -> NoReturn:
        """Refused."""
        _refuse()

    def delete_range(self, start: bytes | None, end: bytes | None) -> NoReturn:
        """Refused."""
        _refuse()

    def _limited(self, entries: Entries) -> Entries:
        while True:
            self._deadline.check()
            chunk = list(islice(entries, _CHECKED_EVERY))
            yield from chunk
            if len(chunk) < _CHECKED_EVERY:
                return


class ReaderSnapshot(Protocol):
    """A bundle's state after one epoch.

    Attributes:
        epoch: the last epoch in it; -1 if none is.
        checkpoint_id: of which checkpoint it is; empty if the state is empty.
    """

    epoch: int
    checkpoint_id: str

    def store(self, task: str, name: str) -> ReadOnlyStore:
        """A store of a task; empty if nothing was ever written to it."""
        ...

    def stores(self) -> list[tuple[str, str]]:
        """Task and name of every store something was written to, sorted."""
        ...


class StateSnapshot:
    """A `ReaderSnapshot` of a state on the disk or in memory: a read transaction of its environment."""

    def __init__(self, txn: layout.Txn, deadline: _Deadline) -> None:
        meta = read_meta(txn)
        self.epoch = meta.epoch if meta else NOTHING_APPLIED
        self.checkpoint_id = meta.checkpoint_id if meta else ""
        self._txn = txn
        self._deadline = deadline

    def store(self, task: str, name: str) -> ReadOnlyStore:
        """See `ReaderSnapshot.store`."""
        return ReadOnlyStore(base_in(self._txn, task, name), self._deadline)

    def stores(self) -> list[tuple[str, str]]:
        """See `ReaderSnapshot.stores`."""
        names: list[tuple[str, str]] = []
        with self._txn.cursor() as cursor:
            if cursor.set_range(layout.REGISTRY_PREFIX):
                for key in cursor.iternext(keys=True, values=False):
                    if not key.startswith(layout.REGISTRY_PREFIX):
                        break
                    task, _, name = key.removeprefix(layout.REGISTRY_PREFIX).partition(b"\x00")
                    names.append((task.decode(), name.decode()))
        return names


class EmptySnapshot:
    """The `ReaderSnapshot` of a bundle whose application has completed no epoch yet.

    Args:
        checkpoint_id: of which checkpoint it is.
        max_seconds: how long it may be read.
    """

    def __init__(self, checkpoint_id: str, max_seconds: float = READ_MAX_S) -> None:
        self.epoch = NOTHING_APPLIED
        self.checkpoint_id = checkpoint_id
        self._deadline = _Deadline(max_seconds, time.monotonic)

    def store(self, task: str, name: str) -> ReadOnlyStore:
        """A store of a task, which is empty."""
        return ReadOnlyStore(MemoryBase(), self._deadline)

    def stores(self) -> list[tuple[str, str]]:
        """Nothing was ever written to any."""
        return []


class BundleReader:
    """Reads a bundle's local state; never waits for the application and never makes it wait.

    Any process of the machine may have one, as many as it likes.

    Args:
        path: the folder of the bundle's state.
        boot_id: of the machine's current boot.
        clock: seconds, monotonic.
    """

    def __init__(self, path: Path, *, boot_id: str | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self.path = path.resolve()
        self._boot_id = boot_id or crash_marker.current_boot_id()
        self._clock = clock
        self._boot_file, self._data_file, self._damaged_file = (
            os.fspath(self.path / name) for name in (crash_marker.BOOT_FILE, DATA_FILE, DAMAGED_FILE)
        )
        self._trusted_boot: tuple[int, int] | None = None
        self._looked_at: tuple[float, lmdb.Environment] | None = None

    @contextmanager
    def snapshot(self, *, max_seconds: float = READ_MAX_S) -> Iterator[ReaderSnapshot]:
        """The state after the last epoch applied, the same for as long as the `with` lasts.

        Args:
            max_seconds: how long it may be read. Looked at when something is read, not in between.

        Raises:
            StateError: `STATE_DAMAGED`: a page is not what was written; the application rebuilds it. `STATE_NOT_THERE`:
                there is no state at the path yet, or none that survived the last power loss. `SCAN_TOO_LONG`, from the
                methods of its stores.
        """
        with read_transaction(self._environment()) as txn:
            yield StateSnapshot(txn, _Deadline(max_seconds, self._clock))

    def _environment(self) -> lmdb.Environment:
        """The environment, if it may be read."""
        now_s = self._clock()
        if self._looked_at is not None:
            until_s, environment = self._looked_at
            if now_s < until_s and is_open(environment):
                return environment
        # Never open what the application would delete: opening a damaged environment may crash.
        if not self._is_trusted() or not os.path.exists(self._data_file):  # noqa: PTH110 - as in `_identity`
            raise StateError(
                "STATE_NOT_THERE",
                f"There is no state at {self.path} that can be read: the application has completed no epoch here since "
                "the machine started, or keeps these stores in memory and does not run now. Start it, or, if it runs, "
                "wait for its first epoch; else look at its state.dir.",
            )
        self._check_once()
        environment = open_state_environment(self.path)
        self._looked_at = now_s + _LOOKED_S, environment
        return environment

    def _is_trusted(self) -> bool:
        """Whether the environment survived the last power loss; a BOOT file that was read is not read again."""
        identity = _identity(self._boot_file)
        if identity is not None and identity == self._trusted_boot:
            return True
        written = crash_marker.read(self.path)
        is_trusted = written is not None and written.trusted(self._boot_id)
        self._trusted_boot = identity if is_trusted else None
        return is_trusted

    def _check_once(self) -> None:
        """Compare the pages with their checksums before this process opens the environment.

        Raises StateError `STATE_DAMAGED`.
        """
        if os.path.exists(self._damaged_file):  # noqa: PTH110 - as in `_identity`
            raise damaged(self.path, "a process found it so")
        if is_environment_open(self.path):
            return
        try:
            PageChecksums(self.path).check()
        except PagesDamaged as error:
            raise damaged(self.path, error) from error


def _identity(file: str) -> tuple[int, int] | None:
    """Which file it is, of those that replaced each other; `None` if there is none."""
    try:
        status = os.stat(file)  # noqa: PTH116 - for every snapshot; a Path costs several times as much
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns


def _refuse() -> NoReturn:
    raise StateError("READ_ONLY", "A store opened for queries cannot be written; only its operators write to it.")
