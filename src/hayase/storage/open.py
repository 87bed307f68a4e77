"""Opening the blob store that a URL names, and finding out whether it keeps its promise."""

from __future__ import annotations

import importlib.util
import os
import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import unquote, urlsplit

from hayase.core.errors import ConfigError, MissingRequirementError
from hayase.core.patience import IMPATIENT, Patience
from hayase.storage.blobs import BlobStore
from hayase.storage.posix_blobs import PosixBlobs
from hayase.storage.s3_location import S3Location

_RACERS = 4
_RACES = 2


def open_blobs(url: str | os.PathLike[str], fsync: bool = True, patience: Patience = IMPATIENT) -> BlobStore:
    """The blob store at a path, a `file:` URL or an `s3:` URL; nothing is touched or contacted until it is used.

    Args:
        url: a path (made absolute), `file:relative`, `file:/absolute` or `file:///absolute`; or
            `s3://bucket/folder`, for other stores than Amazon's with `?endpoint=https://host:port`; see `S3Location`
            for more parameters.
        fsync: whether a published blob is on the disk when publishing returns; on S3 it always is.
        patience: how long an S3 store that is away is waited for, beyond a few attempts.

    Raises:
        ConfigError: `UNSUPPORTED_STORAGE`: any other scheme; `INVALID_STORAGE_URL`.
        MissingRequirementError: `S3_NOT_INSTALLED`: the extra `s3` is missing.

    Example:
        >>> open_blobs("file:///data/app").root
        PosixPath('/data/app')
    """
    text = os.fspath(url)
    scheme, colon, rest = text.partition(":")
    if not colon or "/" in scheme:
        return PosixBlobs(Path(text).absolute(), fsync)
    if scheme == "s3":
        return _open_s3(text, patience)
    if scheme != "file":
        raise ConfigError(
            "UNSUPPORTED_STORAGE",
            f"{text!r}: supported are local paths (POSIX), e.g. '/data/app' or 'file:///data/app', and S3 stores: "
            "'s3://bucket/folder'",
        )
    path = rest
    if rest.startswith("//"):
        parts = urlsplit(text)
        if parts.netloc not in ("", "localhost"):
            raise ConfigError(
                "UNSUPPORTED_STORAGE",
                f"{text!r} names the host {parts.netloc!r}; of file: URLs only local paths are supported: "
                f"file:///{parts.netloc}{parts.path}?",
            )
        path = parts.path
    return PosixBlobs(Path(unquote(path)).absolute(), fsync)


def _open_s3(url: str, patience: Patience) -> BlobStore:
    where = S3Location.parse(url)
    if importlib.util.find_spec("botocore") is None:
        raise MissingRequirementError(
            "S3_NOT_INSTALLED", "a checkpoint on s3:// needs the package botocore: pip install 'hayase[s3]'"
        )
    from hayase.storage.s3_blobs import S3Blobs

    return S3Blobs(where, patience=patience)


def probe_put_if_absent(blobs: BlobStore, *, exactly_once: bool = True) -> None:
    """Check that publishing works and that a blob can be published only once; leaves nothing behind.

    A probe cannot prove a promise, but it finds stores that never made it: those that take a second blob of one name,
    and those that look first and write then, of which several writers at the same moment win.

    Args:
        blobs: the store.
        exactly_once: whether of several writers at the same moment one must win. Without, it must do if they come one
            after the other.

    Raises:
        ConfigError: `PUBLISH_NOT_ATOMIC`: a second blob of one name was accepted, or the first cannot be read.
        StateError: `DISK_FULL`. ConfigError, StorageError: what the store raises when it cannot be used.
    """
    name = f"probe/{uuid.uuid4().hex}"
    if exactly_once and not blobs.publishes_once:
        raise _not_atomic("is used with conditional_put=false")
    blobs.delete(name)
    try:
        first = blobs.put_if_absent(name, b"first")
        second = blobs.put_if_absent(name, b"second")
        if not first or second or blobs.get(name) != b"first":
            raise _not_atomic("does not keep a blob that is there from being overwritten")
        for _ in range(_RACES if exactly_once else 0):
            blobs.delete(name)
            _race(blobs, name)
    finally:
        blobs.delete(name)


def _race(blobs: BlobStore, name: str) -> None:
    together = threading.Barrier(_RACERS)

    def publish(racer: int) -> bool:
        together.wait()
        return blobs.put_if_absent(name, b"%d" % racer)

    with ThreadPoolExecutor(_RACERS) as pool:
        won = list(pool.map(publish, range(_RACERS)))
    if won.count(True) != 1 or blobs.get(name) != b"%d" % won.index(True):
        raise _not_atomic(f"let {won.count(True)} of {_RACERS} writers win that wrote one blob at the same moment")


def _not_atomic(how: str) -> ConfigError:
    return ConfigError(
        "PUBLISH_NOT_ATOMIC",
        f"The storage of the checkpoint {how}, and exactly_once_v2 rests on it that exactly one writer wins. Choose a "
        "folder on a local POSIX file system or an S3 store with conditional writes (If-None-Match); or, on an S3 "
        "store without, processing.guarantee=at_least_once and '?conditional_put=false' in checkpoint.dir.",
    )
