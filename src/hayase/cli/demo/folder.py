"""The demo's folder: emptied for every run, one run at a time, and never one that holds other files."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hayase.core.errors import ConfigError, LeaseHeldError
from hayase.core.private_files import open_file, private_folder

_MARK = ".hayase-demo"


@contextmanager
def demo_folder(folder: Path) -> Iterator[Path]:
    """The folder, empty except for a mark, and locked for as long as the context lasts.

    Raises:
        ConfigError: `FOLDER_NOT_EMPTY`: it holds files and was not made by a demo.
        LeaseHeldError: a demo is running in it.
    """
    mark = folder / _MARK
    if folder.exists() and not mark.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigError(
            "FOLDER_NOT_EMPTY", f"{folder} holds files that are not the demo's; give --dir a new or empty folder"
        )
    private_folder(folder)
    handle = open_file(mark, os.O_RDWR)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise LeaseHeldError(
                "LEASE_HELD", f"a demo is running in {folder}; stop it, or give this one another folder with --dir"
            ) from None
        for item in folder.iterdir():
            if item.is_dir() and not item.is_symlink():
                shutil.rmtree(item)
            elif item.name != _MARK:
                item.unlink()
        yield folder
    finally:
        os.close(handle)
