"""Keeping what Spark and its workers say on standard error out of a display."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hayase.core.private_files import open_file


@contextmanager
def stderr_to(path: Path) -> Iterator[None]:
    """Send standard error of this process, and of those it starts, to a file while the context lasts."""
    sys.stderr.flush()
    before = os.dup(2)
    target = open_file(path, os.O_WRONLY | os.O_APPEND)
    try:
        os.dup2(target, 2)
        yield
    finally:
        sys.stderr.flush()
        os.dup2(before, 2)
        os.close(before)
        os.close(target)
