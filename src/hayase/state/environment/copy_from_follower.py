"""A state that is missing begins as a copy of one that is there: a follower's, which is at a late epoch already."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import lmdb

from hayase.core.errors import StateError
from hayase.core.private_files import make_folder, settle_file
from hayase.state.environment import crash_marker
from hayase.state.environment.environment import (
    FORMAT,
    NOTHING_APPLIED,
    damaged,
    is_cut_off,
    open_state_environment,
    read_meta,
)
from hayase.state.environment.spill import TEMPORARY_PREFIX
from hayase.storage.lmdb_env import close_environment, is_environment_open, read_transaction
from hayase.storage.lmdb_pages import PagesDamaged
from hayase.storage.page_checksums import PAGES_FILE, PageChecksums

_LOG = logging.getLogger("hayase.state")


def adopt_copy(
    path: Path,
    copies: Sequence[Path],
    *,
    application_id: str,
    checkpoint_id: str,
    bundle: str,
    boot_id: str | None = None,
) -> int | None:
    """Copy the best of the copies to `path` if there is no state there; call it before `BundleState` is made.

    The best is the one at the latest epoch, of the same application, checkpoint and bundle. It may be in use, and may
    be behind or wrong: `Changelog.catch_up` checks it and brings it up to date as any other state. Nothing is raised:
    where it cannot be copied, the state is rebuilt from the changelog.

    Args:
        path: folder of the state.
        copies: folders of other states of the bundle on this machine.
        application_id: whose state.
        checkpoint_id: of which checkpoint.
        bundle: which bundle's.
        boot_id: of the machine's current boot.

    Returns:
        The epoch it is at; `None` if nothing was copied.
    """
    boot_id = boot_id or crash_marker.current_boot_id()
    if not copies or (path / "data.mdb").exists():
        return None
    try:
        make_folder(path)
        with crash_marker.opening(path):
            hold = crash_marker.Hold(path)
            try:
                if not hold.alone() or (path / "data.mdb").exists():
                    return None
                with _closed_again(copies):
                    epoch = _take_best(path, copies, (FORMAT, application_id, checkpoint_id, bundle), boot_id)
                if epoch is not None:
                    crash_marker.write(path, crash_marker.CrashMarker(boot_id, checkpoint_id, clean=False))
                return epoch
            finally:
                hold.release()
    except (OSError, lmdb.Error, StateError) as error:
        _LOG.warning("the state of bundle %s is rebuilt from the changelog, no copy could be taken: %s", bundle, error)
        return None


def _take_best(path: Path, copies: Sequence[Path], identity: tuple[int, str, str, str], boot_id: str) -> int | None:
    usable = [(epoch, copy) for copy in copies if (epoch := _epoch_of(copy, identity, boot_id)) is not None]
    if not usable:
        return None
    epoch, best = max(usable)
    _copy(best, path)
    return epoch


@contextmanager
def _closed_again(copies: Sequence[Path]) -> Iterator[None]:
    """Close what is opened meanwhile: every environment takes a part of the process's address space."""
    opened = [copy for copy in copies if not is_environment_open(copy)]
    try:
        yield
    finally:
        for copy in opened:
            close_environment(copy)


def _epoch_of(copy: Path, identity: tuple[int, str, str, str], boot_id: str) -> int | None:
    """The epoch a copy is at; `None` if it is of no use."""
    written = crash_marker.read(copy)
    if written is None or not written.trusted(boot_id) or not (copy / "data.mdb").exists() or is_cut_off(copy):
        return None
    with read_transaction(open_state_environment(copy)) as txn:
        meta = read_meta(txn)
    if meta is None or (meta.format, meta.application_id, meta.checkpoint_id, meta.bundle) != identity:
        return None
    return meta.epoch if meta.epoch > NOTHING_APPLIED else None


def _copy(copy: Path, path: Path) -> None:
    close_environment(path)
    _check_pages(copy)  # the copy gets checksums of its own, which would make damage look right
    with tempfile.TemporaryDirectory(prefix=TEMPORARY_PREFIX, dir=path) as folder:
        # Page by page: a compacting copy would take three times as long.
        open_state_environment(copy).copy(folder, compact=False)
        (path / PAGES_FILE).unlink(missing_ok=True)
        (Path(folder) / "data.mdb").replace(path / "data.mdb")
    settle_file(path / "data.mdb")


def _check_pages(copy: Path) -> None:
    env = open_state_environment(copy)
    with ExitStack() as stack:
        try:
            PageChecksums(copy).check(lambda: stack.enter_context(read_transaction(env)))
        except PagesDamaged as error:
            raise damaged(copy, error) from error
