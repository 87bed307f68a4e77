"""Folders that are made once per machine and kept: downloaded jars, the wrapped Java runtime.

They live under `<root>/hayase/`, where root is `HAYASE_CACHE`, else `XDG_CACHE_HOME`, else `~/.cache`.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from hayase.core.file_locks import lock_file
from hayase.core.private_files import check_owner, is_own_folder, make_folder, write_file

MARKER = ".complete"
_NAME = "hayase"


def cache_root(environ: Mapping[str, str] | None = None) -> Path:
    """The folder that holds everything Hayase caches on this machine. It need not exist yet.

    Args:
        environ: where `HAYASE_CACHE`, `XDG_CACHE_HOME` and `HOME` are looked up; default `os.environ`.
    """
    env = os.environ if environ is None else environ
    for name in ("HAYASE_CACHE", "XDG_CACHE_HOME"):
        if env.get(name):
            return Path(env[name]).expanduser() / _NAME
    home = Path(env["HOME"]) if env.get("HOME") else Path.home()
    return home / ".cache" / _NAME


def cached_folder(folder: Path, fill: Callable[[Path], None]) -> Path:
    """Return `folder`, made by `fill` if it is not complete yet.

    `fill` gets an empty folder beside the final one, which takes the final name in one rename after `fill`
    has returned; so a reader sees a complete folder or none. Of several processes that come at the same
    time one fills and the others wait. If `fill` raises, nothing is left and the error goes to the caller.
    A complete folder is returned without taking a lock, so a read-only cache works.

    Args:
        folder: the final place.
        fill: writes the content into the folder it is given.

    Raises:
        FolderError: `FOLDER_NOT_PRIVATE`: another user put it there, and what is in it is run; `LOCK_HELD`.
    """
    if folder.parent.name == _NAME and is_own_folder(folder.parent):
        with contextlib.suppress(OSError):  # of a read-only cache
            folder.parent.chmod(0o700)  # versions before left it open
    if (folder / MARKER).exists():
        check_owner(folder)
        return folder
    make_folder(folder.parent)
    with _locked(folder.with_name(folder.name + ".lock")):
        if (folder / MARKER).exists():
            return folder
        partial = folder.with_name(folder.name + ".partial")
        for leftover in (partial, folder):  # of a process that died, or a folder that was emptied
            shutil.rmtree(leftover, ignore_errors=True)
        make_folder(partial)
        try:
            fill(partial)
            write_file(partial / MARKER, b"")
            partial.rename(folder)
        except BaseException:
            shutil.rmtree(partial, ignore_errors=True)
            raise
    return folder


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold an exclusive lock on a file. The kernel releases it when the process dies."""
    descriptor = lock_file(path, fcntl.LOCK_EX)
    try:
        yield
    finally:
        os.close(descriptor)
