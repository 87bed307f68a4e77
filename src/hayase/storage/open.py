"""Opening the blob store that a URL names, and finding out whether it keeps its promise."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from urllib.parse import unquote, urlsplit

from hayase.core.errors import ConfigError
from hayase.storage.blobs import BlobStore
from hayase.storage.posix_blobs import PosixBlobs


def open_blobs(url: str | os.PathLike[str], fsync: bool = True) -> BlobStore:
    """The blob store at a path or a `file:` URL; nothing is touched until it is used.

    Args:
        url: a path (made absolute), `file:relative`, `file:/absolute` or `file:///absolute`.
        fsync: whether a published blob is on the disk when publishing returns.

    Raises:
        ConfigError: `UNSUPPORTED_STORAGE`: any other scheme.

    Example:
        >>> open_blobs("file:///data/app").root
        PosixPath('/data/app')
    """
    text = os.fspath(url)
    scheme, colon, rest = text.partition(":")
    if not colon or "/" in scheme:
        return PosixBlobs(Path(text).absolute(), fsync)
    if scheme != "file":
        raise ConfigError(
            "UNSUPPORTED_STORAGE",
            f"{text!r}: only local paths (POSIX) are supported in this version, e.g. '/data/app' or 'file:///data/app'.",
        )
    path = rest
    if rest.startswith("//"):
        parts = urlsplit(text)
        if parts.netloc not in ("", "localhost"):
            raise ConfigError(
                "UNSUPPORTED_STORAGE",
                f"{text!r} names the host {parts.netloc!r}; only local paths are supported: file:///{parts.netloc}{parts.path}?",
            )
        path = parts.path
    return PosixBlobs(Path(unquote(path)).absolute(), fsync)


def probe_put_if_absent(blobs: BlobStore) -> None:
    """Check that publishing works and that a blob can be published only once; leaves nothing behind.

    Raises:
        ConfigError: `PUBLISH_NOT_ATOMIC`: a second blob of one name was accepted, or the first can not be read.
        StateError: `DISK_FULL`.
    """
    name = f"probe/{socket.gethostname().replace('/', '_')}-{os.getpid()}"
    blobs.delete(name)
    try:
        first = blobs.put_if_absent(name, b"first")
        second = blobs.put_if_absent(name, b"second")
        if not first or second or blobs.get(name) != b"first":
            raise ConfigError(
                "PUBLISH_NOT_ATOMIC",
                "The storage of the checkpoint does not keep a blob that is there from being overwritten, which "
                "exactly_once_v2 rests on. Choose a folder on a local POSIX file system.",
            )
    finally:
        blobs.delete(name)
