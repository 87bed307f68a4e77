"""Paths of files: folders of this machine, buckets and whatever else fsspec knows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hayase.connect.config.types import invalid
from hayase.connect.config.validators import non_empty

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem


def path_of_files(name: str, value: object) -> None:
    """A path whose file system is installed; absent is fine. Nothing is asked of the file system."""
    non_empty(name, value)
    if not isinstance(value, str):
        return
    import fsspec
    from fsspec.utils import get_protocol

    protocol = get_protocol(value)
    try:
        fsspec.get_filesystem_class(protocol)
    except ImportError as error:
        package = " (pip install 'hayase[s3-files]')" if protocol in ("s3", "s3a") else ""
        raise invalid(name, value, f"the library for {protocol}:// is not installed{package}: {error}") from error
    except ValueError as error:
        raise invalid(
            name,
            value,
            f"there is no file system {protocol}://. A path is as /data/in, s3://bucket/in or gs://bucket/in",
        ) from error


def errors_of(files: AbstractFileSystem) -> tuple[type[Exception], ...]:
    """What calls raise where the files cannot be reached, as for now."""
    if "s3" not in files.protocol:
        return (OSError,)
    from botocore.exceptions import BotoCoreError

    return (OSError, BotoCoreError)
