"""Failures of the disk under an embedded log, in the log's words."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from hayase.core.errors import LogError
from hayase.storage.disk_full import is_out_of_space


def log_disk_full(folder: str) -> LogError:
    """`DISK_FULL` of a log's folder."""
    return LogError(
        "DISK_FULL",
        f"there is no space left for the log in {folder}. Nothing that was acknowledged is lost; make space on that "
        "disk (or raise the file size limit or quota) and call again",
        location=folder,
    )


@contextmanager
def io_errors(folder: str, condition: str = "LOG_FAILED") -> Iterator[None]:
    """Errors of the operating system about a log's folder as LogError `DISK_FULL` or another condition."""
    try:
        yield
    except OSError as error:
        if is_out_of_space(error.errno):
            raise log_disk_full(folder) from error
        raise LogError(
            condition,
            f"the log's files could not be used: {error}. Calling again is safe; if its folder cannot be made or "
            "written, set log.dir (--log-dir, HAYASE_LOG_DIR) to one that this user can write",
            location=folder,
        ) from error
