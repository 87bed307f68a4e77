"""Blobs that are published once: create if absent, durable, never torn."""

from __future__ import annotations

from typing import Protocol


class BlobStore(Protocol):
    """A flat space of named blobs. Names are relative paths with `/`; a blob never changes once it is there.

    Safe for several processes at once.
    """

    def put_if_absent(self, name: str, data: bytes) -> bool:
        """Publish a blob; `False`, and nothing changed, if there is one of that name already.

        When it returns the blob is durable (if the store was opened with fsync) and every reader sees all of it.
        """
        ...

    def get(self, name: str) -> bytes | None:
        """The blob; `None` if there is none."""
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
