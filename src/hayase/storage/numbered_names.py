"""Blobs whose names are numbers.

Names that Hayase does not give are skipped: file managers and tools for backups leave files of their own in a
folder.
"""

from __future__ import annotations

from collections.abc import Iterable


def numbers_of(names: Iterable[str], folder: str, digits: int, suffix: str = "") -> list[int]:
    """The numbers in the names of a folder's blobs, in the order of the names.

    Args:
        names: of blobs, with the folder.
        folder: a path ending in `/`.
        digits: how long a number is at least, with zeros before it.
        suffix: what is behind the number.
    """
    without_folder = (name.removeprefix(folder) for name in names if name.endswith(suffix))
    bare = (name.removesuffix(suffix) for name in without_folder)
    return [int(name) for name in bare if len(name) >= digits and name.isascii() and name.isdigit()]
