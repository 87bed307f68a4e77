"""Folders for Unix sockets: their paths have at most about 100 characters, whatever TMPDIR says."""

from __future__ import annotations

import tempfile
from pathlib import Path

_LENGTH_MAX = 60
"""The path of a Unix socket has at most about 100 characters, and Spark's names in a folder have 42."""


def socket_folder(prefix: str) -> Path:
    """A new private folder with a short path: in the temporary folder, or in `/tmp` where that has a long one."""
    folder = Path(tempfile.mkdtemp(prefix=prefix))
    if len(str(folder)) <= _LENGTH_MAX:
        return folder
    folder.rmdir()
    return Path(tempfile.mkdtemp(prefix=prefix, dir="/tmp"))
