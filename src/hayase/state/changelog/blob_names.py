"""Names of a bundle's blobs in the checkpoint, which say of which epoch they are.

Names that Hayase does not give are skipped: file managers and tools for backups leave files of their own in a
folder.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from hayase.storage.numbered_names import numbers_of

_OF_PART = re.compile(r"([0-9]{20})-[0-9]{6,}-[0-9a-f]+")


def epochs_of(names: Iterable[str], folder: str) -> list[int]:
    """The epochs in the names of a folder's blobs, in their order."""
    return numbers_of(names, folder, 20)


def parts_of(names: Iterable[str], folder: str) -> Iterator[tuple[int, str]]:
    """The epochs and names of those blobs of a folder that are parts of something larger."""
    for name in names:
        match = _OF_PART.fullmatch(name.removeprefix(folder))
        if match is not None:
            yield int(match[1]), name
