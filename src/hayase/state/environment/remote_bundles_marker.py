"""A folder of local states says whether its bundles may be at work on other machines meanwhile.

On a cluster a bundle runs now here, now there: the state that a machine has of it may be of an older epoch, and no
process that reads it could tell. So readers do not use the states of such a folder.
"""

from __future__ import annotations

from pathlib import Path

from hayase.core.private_files import make_folder, write_file

_MARK = "MOVING"


def set_moving(folder: Path, *, moving: bool) -> None:
    """Say it, for all runs to come; raises OSError if the folder cannot be made or written."""
    if moving:
        make_folder(folder)
        write_file(folder / _MARK, b"")
    else:
        (folder / _MARK).unlink(missing_ok=True)


def is_moving(folder: Path) -> bool:
    """Whether bundles of this folder may be at work elsewhere."""
    return (folder / _MARK).exists()
