"""Blobs that are published once: create if absent, durable, never torn."""

from __future__ import annotations

from typing import Protocol


class BlobStore(Protocol):
    """A flat space of named blobs. Names are relative paths with `/`; a blob never changes once it is there.

    Safe for several processes and threads at once; may be pickled and inherited over a fork.
    """

    @property
    def publishes_once(self) -> bool:
        """Whether of several that publish one name at the same moment exactly one wins: what exactly-once rests on."""
        ...

    def put_if_absent(self, name: str, data: bytes) -> bool:
        """Publish a blob; `False`, and nothing changed, if there is one of that name already.

        When it returns the blob is durable (if the store was opened with fsync) and every reader sees all of it.
        When it raises, the blob may or may not be there; then it is whole.
        """
        ...

    def get(self, name: str) -> bytes | None:
        """The blob; `None` if there is none."""
        ...

    def size(self, name: str) -> int | None:
        """Bytes of the blob; `None` if there is none."""
        ...

    def exists(self, name: str) -> bool:
        """Whether there is a blob of that name."""
        ...

    def list(self, prefix: str) -> list[str]:
        """Names that begin with `prefix` (a folder path ending in `/`), sorted; not recursive."""
        ...

    def delete(self, name: str) -> None:
        """Remove a blob; nothing happens if there is none."""
        ...

    def delete_below(self, folder: str) -> None:
        """Remove all blobs of a folder (a path ending in `/`) and of the folders in it."""
        ...

    def is_empty(self) -> bool:
        """Whether there is no blob at all."""
        ...

    def tidy(self) -> None:
        """Remove what the store keeps for itself (folders, temporaries), if there is no blob.

        No process may be writing.
        """
        ...


def name_parts(name: str) -> list[str]:
    """The parts of a blob's name.

    Raises:
        ValueError: it is no relative path, or leads elsewhere.
    """
    parts = name.split("/")
    if any(part in ("", ".", "..") for part in parts):
        raise ValueError(f"{name!r} is no name of a blob: it must be a relative path without '.' and '..'")
    return parts


def check_folder(folder: str) -> None:
    """Check the name of a folder of blobs.

    Raises:
        ValueError: it does not end in `/`, or is no relative path.
    """
    if not folder.endswith("/"):
        raise ValueError(f"{folder!r} is no folder of blobs: it must end in '/'")
    name_parts(folder[:-1])
