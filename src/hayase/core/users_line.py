"""Which line of the user's program is at work: for errors in what it builds."""

from __future__ import annotations

import os
import sys
import sysconfig
from pathlib import Path
from types import FrameType

_OURS = str(Path(__file__).parent.parent) + os.sep
_STANDARD = tuple(dict.fromkeys(sysconfig.get_path(kind) + os.sep for kind in ("stdlib", "platstdlib", "scripts")))
_PACKAGES = ("site-packages", "dist-packages")
"""Folders of installed packages; a program may be one."""
_CALLERS = ("typer", "click", "pyspark", "py4j", "_pytest", "pluggy", "pytest", "execnet", "xdist", "hypothesis")
"""Packages that call Hayase, or the user's program."""
_NO_FILES = ("<frozen", "<string>")


def users_line() -> str | None:
    """File and line of the innermost call that is neither Hayase's nor a library's, e.g. `app.py:12`; `None` if there is none.

    Some microseconds: for what happens once, not for each record.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        if is_users_file(file):
            return f"{shown_file(file)}:{frame.f_lineno}"
        frame = frame.f_back
    return None


def is_users_file(file: str) -> bool:
    """Whether code of that file may be the user's: neither Hayase's nor Python's own, nor that of a package that calls it."""
    return not file.startswith((_OURS, *_NO_FILES)) and not _is_library(file)


def is_installed(file: str) -> bool:
    """Whether a file is one of an installed package, which the user's program may be, or may use."""
    return any(folder in Path(file).parts[:-1] for folder in _PACKAGES)


def shown_file(file: str) -> str:
    """Below the working directory as seen from there."""
    try:
        return file.removeprefix(str(Path.cwd()) + os.sep)
    except OSError:  # that folder is gone
        return file


def _is_library(file: str) -> bool:
    parts = Path(file).parts
    for folder in _PACKAGES:
        if folder in parts[:-1]:
            return parts[parts.index(folder) + 1] in _CALLERS
    return file.startswith(_STANDARD)
