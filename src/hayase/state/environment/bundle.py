"""The state of one bundle on this machine: all its stores in one LMDB environment."""

from __future__ import annotations

import logging
import os
import shutil
from collections import Counter, deque
from collections.abc import Callable, Collection
from contextlib import ExitStack
from pathlib import Path
from typing import TypeVar

import lmdb
import msgspec

from hayase.core.errors import StateError
from hayase.core.metrics import STATES_REBUILT
from hayase.core.private_files import make_folder
from hayase.state.delta.changes import StoreChanges, StoreKey
from hayase.state.delta.delta import Delta
from hayase.state.delta.delta_merge import Step
from hayase.state.environment import crash_marker, layout
from hayase.state.environment.base import BaseStore
from hayase.state.environment.environment import (
    DAMAGE,
    DAMAGED_FILE,
    FORMAT,
    START,
    Meta,
    StatePosition,
    base_in,
    damaged,
    is_cut_off,
    open_state_environment,
    position_in,
    read_meta,
)
from hayase.state.environment.epoch import EpochState
from hayase.state.environment.spill import TEMPORARY_PREFIX
from hayase.storage.disk_full import disk_full, is_out_of_space
from hayase.storage.lmdb_env import (
    close_environment,
    is_disk_full,
    open_environment,
    read_transaction,
    run_write,
)
from hayase.storage.lmdb_pages import PagesDamaged
from hayase.storage.page_checksums import PAGES_FILE, PageChecksums

T = TypeVar("T")

_LOG = logging.getLogger("hayase.state")


class BundleState:
    """The stores of a bundle, epoch by epoch. Several processes may have it open; one applies at a time.

    Opening it compares all pages with their checksums and throws away what cannot be trusted: a damaged file, after a
    power loss without a clean close, and if the file is shorter than what is in it or no environment at all, the files
    are deleted; the state of another checkpoint, application, bundle or format is emptied. It is then at epoch -1, and
    `Changelog.catch_up` rebuilds it.

    Args:
        path: folder of the environment; made if absent. On a local file system.
        application_id: whose state.
        checkpoint_id: of which checkpoint.
        bundle: which bundle's.
        boot_id: of the machine's current boot.
        spill: another folder where an epoch of the bundle may have left temporary files, to be removed along.

    Raises:
        StateError: `ENVIRONMENT_NOT_OPENED`, `DISK_FULL`.
    """

    def __init__(
        self,
        path: Path,
        *,
        application_id: str,
        checkpoint_id: str,
        bundle: str,
        boot_id: str | None = None,
        spill: Path | None = None,
    ) -> None:
        self.path = path.resolve()
        self._mark = str(self.path / DAMAGED_FILE)
        self._pages = PageChecksums(self.path)
        self._pages_for_checks = PageChecksums(self.path)  # of another thread
        self._spill = spill
        self.application_id = application_id
        self.checkpoint_id = checkpoint_id
        self.bundle = bundle
        self._boot_id = boot_id or crash_marker.current_boot_id()
        self._fresh = Meta(FORMAT, application_id, checkpoint_id, bundle)
        # Of any thread: appending is atomic, adding up is not.
        self._events: deque[str] = deque()
        try:
            self._hold = self._open()
        except OSError as error:
            if is_out_of_space(error.errno):
                raise disk_full(f"The state of bundle {bundle}", self.path, error) from error
            raise
        self._write(self._empty_if_foreign)

    def count(self, event: str) -> None:
        """Count something that befell it, under the name of a metric."""
        self._events.append(event)

    def take_events(self) -> Counter[str]:
        """What was counted since the last call."""
        taken = [self._events.popleft() for _ in range(len(self._events))]
        return Counter(taken)

    def position(self) -> StatePosition:
        """The last epoch applied, by whatever process, and its digest."""
        meta = self.meta()
        return StatePosition(meta.epoch, meta.digest)

    @property
    def epoch(self) -> int:
        """The last epoch applied; -1 if none was."""
        return self.position().epoch

    @property
    def digest(self) -> str:
        """The digest of the last delta applied; empty if none was."""
        return self.position().digest

    def meta(self) -> Meta:
        """What the environment says about itself now."""
        with read_transaction(open_state_environment(self.path)) as txn:
            return read_meta(txn) or self._fresh

    def entries(self) -> dict[StoreKey, int]:
        """How many entries each store has, by task and name; stores that were never written are left out."""
        with read_transaction(open_state_environment(self.path)) as txn:
            return {_store_key(key): layout.unpack_registry_entry(data)[1] for key, data in _registered(txn)}

    def begin(self) -> EpochState:
        """A snapshot of the last epoch applied, to write over. Close it: it holds a read transaction."""
        with ExitStack() as stack:
            txn = stack.enter_context(read_transaction(open_state_environment(self.path)))
            meta = read_meta(txn) or self._fresh

            def base_of(key: StoreKey) -> BaseStore:
                return base_in(txn, *key)

            return EpochState(meta.epoch, meta.digest, base_of, stack.pop_all().close)

    def apply(self, delta: Delta) -> bool:
        """Apply the delta that follows the last one applied; all of it or nothing, in one transaction.

        Returns `False` and changes nothing if it has been applied already and nothing since.

        Raises:
            StateError: `DELTA_DOES_NOT_FIT`: it follows another delta than the last one applied, or belongs to another
                checkpoint or bundle; `DISK_FULL`.
        """
        return self.apply_step(Step.of(delta))

    def apply_step(self, step: Step) -> bool:
        """Apply what several deltas did, as `apply` does that of one: all of it or nothing, in one transaction.

        Raises:
            StateError: as `apply`.
        """
        return self._write(lambda txn: self._apply(txn, step))

    @property
    def damaged(self) -> bool:
        """Whether a process of this machine has found it damaged since it was made."""
        return os.path.exists(self._mark)  # noqa: PTH110 - for every epoch; a Path costs as much again

    def suspect(self, error: Exception) -> None:
        """Have it rebuilt before it is used again: reading it failed with that error."""
        damaged(self.path, error)

    def has_wrong_pages(self) -> bool:
        """Whether checksums find pages damaged, or the pages cannot be read; of any thread."""
        try:
            PageChecksums(self.path).check()
        except (PagesDamaged, OSError):
            return True
        return False

    def check(self) -> None:
        """Compare all pages with their checksums while epochs go on; raises StateError `STATE_DAMAGED`."""
        with ExitStack() as stack:
            env = open_state_environment(self.path)
            try:
                self._pages_for_checks.check(lambda: stack.enter_context(read_transaction(env)))
            except PagesDamaged as error:
                raise damaged(self.path, error) from error

    def discard(self) -> None:
        """Delete a damaged state; it is then empty, at epoch -1. Nothing happens if another process has done so."""
        with crash_marker.opening(self.path):
            if self.damaged:
                self._warn_of_damage()
                self._delete_files()
        self._write(self._empty_if_foreign)

    def wipe(self, expected: StatePosition | None = None) -> None:
        """Empty all stores; the state is then at epoch -1. Nothing happens if it is no longer at `expected`."""

        def empty(txn: layout.Txn) -> None:
            meta = read_meta(txn)
            if expected is None or meta is None or (meta.epoch, meta.digest) == expected:
                self._empty(txn)

        self._write(empty)

    def restart(self, expected: StatePosition | None, at: StatePosition) -> bool:
        """Empty all stores and say that they are at that position; `False` if the state is no longer at `expected`.

        For stores without changelog, which begin empty at any epoch; `expected` is `None` where the environment says
        nothing.
        """

        def empty(txn: layout.Txn) -> bool:
            if position_in(txn) != expected:
                return False
            self._empty(txn, at)
            return True

        return self._write(empty)

    def delete_stores(self, names: Collection[str]) -> None:
        """Delete stores of all tasks, where they are there; the position stays."""

        def delete(txn: layout.Txn) -> None:
            for key, data in _registered(txn):
                if _store_key(key)[1] in names:
                    layout.delete_stored_range(txn, layout.prefix_of(layout.unpack_registry_entry(data)[0]), b"", None)
                    txn.delete(key)

        self._write(delete)

    def reset_from(self, snapshot: Path, expected: StatePosition | None = None) -> bool:
        """Replace everything by the content of a snapshot's environment, in one transaction.

        Returns `False`, and nothing happens, if the state is no longer at `expected`.

        Args:
            snapshot: folder of an environment that `Snapshots.load` unpacked.
            expected: where the state must be; `None`: anywhere.

        Raises:
            StateError: `SNAPSHOT_FOREIGN`: it is of another checkpoint or bundle; `DISK_FULL`.
        """
        source = open_environment(snapshot, max_dbs=0, readonly=True, sync=False)
        try:
            with read_transaction(source) as content:
                meta = read_meta(content)
                if meta is None or (meta.format, meta.checkpoint_id, meta.bundle) != (
                    FORMAT,
                    self.checkpoint_id,
                    self.bundle,
                ):
                    raise StateError(
                        "SNAPSHOT_FOREIGN",
                        f"The snapshot says that it is of checkpoint {meta and meta.checkpoint_id!r} and bundle "
                        f"{meta and meta.bundle!r}; this is checkpoint {self.checkpoint_id!r}.",
                        bundle=self.bundle,
                    )

                def replace(txn: layout.Txn) -> bool:
                    current = read_meta(txn)
                    if expected is not None and current and (current.epoch, current.digest) != expected:
                        return False
                    txn.drop(_main(self.path), delete=False)
                    with content.cursor() as entries, txn.cursor() as target:
                        target.putmulti(entries.iternext(), append=True)
                    return True

                return self._write(replace)
        finally:
            close_environment(snapshot)

    def close(self, clean: bool = True) -> None:
        """Let go of it. With `clean`, the last process to close syncs it, so that it survives a power loss.

        The environment itself stays open for others in this process. Calling it again does nothing.
        """
        if not self.path.is_dir():
            self._hold.release()
            return
        with crash_marker.opening(self.path):
            if clean and self._hold.alone():
                open_state_environment(self.path).sync(True)
                self._pages.sync()
                crash_marker.write(self.path, crash_marker.CrashMarker(self._boot_id, self.checkpoint_id, clean=True))
            self._hold.release()

    def _open(self) -> crash_marker.Hold:
        make_folder(self.path)
        with crash_marker.opening(self.path):
            hold = crash_marker.Hold(self.path)
            alone = hold.alone()
            if alone and not self._trusted():
                self._delete_files()
            elif self._is_damaged():
                self._warn_of_damage()
                self._delete_files()
            if alone:
                if is_cut_off(self.path):
                    self._delete_files()
                self._discard_temporaries()
            crash_marker.write(self.path, crash_marker.CrashMarker(self._boot_id, self.checkpoint_id, clean=False))
            return hold

    def _trusted(self) -> bool:
        written = crash_marker.read(self.path)
        return written is not None and written.trusted(self._boot_id)

    def _is_damaged(self) -> bool:
        """Looks at every page, without LMDB, which may crash over a damaged one."""
        try:
            self._pages.verify()
        except PagesDamaged as error:
            raised = damaged(self.path, error)
            _LOG.debug("%s", raised)
        return self.damaged

    def _delete_files(self) -> None:
        close_environment(self.path)
        # The lock file first: a process that opens the old data meanwhile makes a new one, and finds out with its next
        # use.
        for name in ("lock.mdb", "data.mdb", PAGES_FILE, DAMAGED_FILE):
            (self.path / name).unlink(missing_ok=True)

    def _warn_of_damage(self) -> None:
        _LOG.warning(
            "%s is damaged: it is deleted, and the state of bundle %s is rebuilt from the checkpoint",
            self.path / "data.mdb",
            self.bundle,
        )
        self.count(STATES_REBUILT)

    def _discard_temporaries(self) -> None:
        for parent in (self.path, self._spill or self.path):
            for folder in parent.glob(f"{TEMPORARY_PREFIX}*"):
                shutil.rmtree(folder, ignore_errors=True)

    def _empty_if_foreign(self, txn: layout.Txn) -> None:
        meta = read_meta(txn)
        fresh = self._fresh
        if meta is None or (
            meta.format,
            meta.application_id,
            meta.checkpoint_id,
            meta.bundle,
        ) != (
            fresh.format,
            fresh.application_id,
            fresh.checkpoint_id,
            fresh.bundle,
        ):
            self._empty(txn)

    def _empty(self, txn: layout.Txn, at: StatePosition = START) -> None:
        txn.drop(_main(self.path), delete=False)
        meta = msgspec.structs.replace(self._fresh, epoch=at.epoch, digest=at.digest)
        txn.put(layout.POSITION_KEY, msgspec.msgpack.encode(meta))

    def _apply(self, txn: layout.Txn, step: Step) -> bool:
        meta = read_meta(txn) or self._fresh
        same_state = (meta.checkpoint_id, meta.bundle) == (step.checkpoint_id, step.bundle)
        if same_state and (meta.epoch, meta.digest) == step.end:
            return False
        if not same_state or (meta.epoch, meta.digest) != step.start:
            raise StateError(
                "DELTA_DOES_NOT_FIT",
                f"The delta of epoch {step.end[0]} (checkpoint {step.checkpoint_id}, bundle {step.bundle}) follows "
                f"epoch {step.start[0]} ({step.start[1] or 'the beginning'}), but the store at {self.path} is of "
                f"checkpoint {meta.checkpoint_id}, bundle {meta.bundle}, at epoch {meta.epoch} "
                f"({meta.digest or 'the beginning'}). Nothing was changed; Changelog.catch_up brings the store to "
                "where the changelog is.",
                bundle=self.bundle,
                epoch=step.end[0],
            )
        next_number = meta.next_number
        for piece in step.pieces():
            for (task, store), changes in piece.stores.items():
                next_number = _apply_store(txn, layout.registry_key(task, store), changes, next_number)
        meta = msgspec.structs.replace(
            meta,
            epoch=step.end[0],
            digest=step.end[1],
            next_number=next_number,
            delta_bytes=meta.delta_bytes + step.delta_bytes,
            deltas=meta.deltas + step.deltas,
        )
        txn.put(layout.POSITION_KEY, msgspec.msgpack.encode(meta))
        return True

    def _write(self, work: Callable[[layout.Txn], T]) -> T:
        if self._hold.released:
            raise StateError("STATE_CLOSED", f"The state at {self.path} was closed here; open it again to write to it.")
        try:
            env = open_state_environment(self.path)
            return self._pages.commit(lambda: run_write(env, work))
        except PagesDamaged as error:
            raise damaged(self.path, error) from error
        except OSError as error:
            if is_out_of_space(error.errno):
                raise disk_full(f"The state of bundle {self.bundle}", self.path, error) from error
            raise
        except lmdb.Error as error:
            if isinstance(error, DAMAGE):
                raise damaged(self.path, error) from error
            if not is_disk_full(self.path, error):
                raise StateError(
                    "STATE_WRITE_FAILED",
                    f"The state at {self.path} could not be written: {error}. Nothing was changed.",
                    bundle=self.bundle,
                ) from error
            raise disk_full(f"The state of bundle {self.bundle}", self.path, error) from error


def _apply_store(txn: layout.Txn, registry_key: bytes, changes: StoreChanges, next_number: int) -> int:
    """Apply one store's changes; returns the number for the next new store."""
    entry = txn.get(registry_key)
    if entry is None:
        if next_number > layout.LAST_NUMBER:
            raise StateError(
                "TOO_MANY_STORES",
                f"A bundle has at most {layout.LAST_NUMBER} stores over all its tasks.",
            )
        number, count = next_number, 0
        next_number += 1
        txn.put(registry_key, layout.pack_registry_entry(number, 0))
    else:
        number, count = layout.unpack_registry_entry(entry)
    prefix = layout.prefix_of(number)
    before = txn.stat()["entries"]
    for start, end in changes.ranges:
        layout.delete_stored_range(txn, prefix, start, end)
    if changes.keys:
        layout.write_stored(txn, prefix, count, changes.keys, changes.values, ascending=changes.ascending)
    count += txn.stat()["entries"] - before
    txn.put(registry_key, layout.pack_registry_entry(number, count))
    return next_number


def _registered(txn: layout.Txn) -> list[tuple[bytes, bytes]]:
    """The registry's entries."""
    entries = []
    with txn.cursor() as cursor:
        if cursor.set_range(layout.REGISTRY_PREFIX):
            for key, data in cursor:
                if not key.startswith(layout.REGISTRY_PREFIX):
                    break
                entries.append((key, data))
    return entries


def _store_key(key: bytes) -> StoreKey:
    """The task and the store of an entry of the registry."""
    task, _, name = key.removeprefix(layout.REGISTRY_PREFIX).partition(b"\x00")
    return task.decode(), name.decode()


def _main(path: Path) -> lmdb._Database:
    """The unnamed database."""
    return open_state_environment(path).open_db()
