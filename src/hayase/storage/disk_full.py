"""A full disk is one error, wherever it is met."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from hayase.core.errors import StateError

_NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def is_out_of_space(code: int | None) -> bool:
    """Whether an error number means no space, an exhausted quota or a file size limit."""
    return code in _NO_SPACE


def disk_full(what: str, where: object, error: Exception | str) -> StateError:
    """`DISK_FULL`, saying what could not be written, where, and what to do."""
    return StateError(
        "DISK_FULL",
        f"{what} could not be written at {where}: no space, or a quota or file size limit was hit ({error}). Nothing "
        "was changed and nothing is lost: free space on that file system (or lift the limit). A running application "
        "goes on when there is room within task.timeout.ms; after that, start it again.",
    )


@contextmanager
def naming_full_disk(what: str, where: object) -> Iterator[None]:
    """Make an `OSError` for lack of space `DISK_FULL`; other errors are passed on."""
    try:
        yield
    except OSError as error:
        if is_out_of_space(error.errno):
            raise disk_full(what, where, error) from error
        raise
