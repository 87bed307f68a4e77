"""Closing the states of a machine for workers that were ended.

Spark stops its Python processes without letting them close anything.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterable
from pathlib import Path

import msgspec

from hayase.core.errors import StateError
from hayase.state.environment import crash_marker
from hayase.state.environment.environment import DATA_FILE
from hayase.storage.page_checksums import PAGES_FILE

_LOG = logging.getLogger("hayase.state")

_TIME_MAX_S = 10.0
_PAUSE_S = 0.02


def seal_states(folders: Iterable[Path], *, wait_s: float = 1.0, boot_id: str | None = None) -> list[Path]:
    """Close cleanly what no process has open, as the last process to close a state would have: synced, and marked.

    Such a state survives a restart of the machine. One that is left out is none the worse for it: it is trusted until
    the machine is restarted. LMDB is not asked, for files are what is sealed. Small ones come first, and after ten
    seconds none is begun: the application is about to end.

    Args:
        folders: of environments, or of nothing.
        wait_s: how long to wait, in all, for processes that are about to end.
        boot_id: of the machine's current boot.

    Returns:
        Folders of states that stay as they are.
    """
    boot_id = boot_id or crash_marker.current_boot_id()
    now = time.monotonic()
    waits_until, ends = now + wait_s, now + _TIME_MAX_S
    left: list[Path] = []
    for folder in sorted(filter(_holds_a_state, folders), key=_size_of):
        try:
            sealed = time.monotonic() < ends and _sealed(folder, boot_id, waits_until)
        except (OSError, StateError) as error:
            _LOG.warning("the state at %s was not closed cleanly: %s", folder, error)
            sealed = False
        if not sealed:
            left.append(folder)
    return left


def _sealed(folder: Path, boot_id: str, waits_until: float) -> bool:
    with crash_marker.opening(folder):
        hold = crash_marker.Hold(folder)
        try:
            while not hold.alone():
                if time.monotonic() > waits_until:
                    return False
                time.sleep(_PAUSE_S)
            written = crash_marker.read(folder)
            if written is None or not written.trusted(boot_id):
                return False
            if not written.clean:
                _sync(folder / DATA_FILE)
                if (folder / PAGES_FILE).exists():
                    _sync(folder / PAGES_FILE)
                crash_marker.write(folder, msgspec.structs.replace(written, clean=True))
            return True
        finally:
            hold.release()


def _sync(file: Path) -> None:
    descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _holds_a_state(folder: Path) -> bool:
    return (folder / crash_marker.BOOT_FILE).exists() and (folder / DATA_FILE).exists()


def _size_of(folder: Path) -> int:
    return (folder / DATA_FILE).stat().st_size
