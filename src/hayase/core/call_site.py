"""Which line of the user's program is at work: for errors in what it builds."""

from __future__ import annotations

import functools
import inspect
import os
import sys
import sysconfig
from pathlib import Path
from types import CodeType, FrameType

_OURS = str(Path(__file__).parent.parent) + os.sep
_SCRIPTS = os.path.realpath(sysconfig.get_path("scripts")) + os.sep
"""Folder of the command `hayase`, which other folders may have a link to."""
_STANDARD = tuple(dict.fromkeys(sysconfig.get_path(kind) + os.sep for kind in ("stdlib", "platstdlib", "scripts")))
_PACKAGES = ("site-packages", "dist-packages")
"""Folders of installed packages; a program may be one."""
_CALLERS = ("typer", "click", "pyspark", "py4j", "_pytest", "pluggy", "pytest", "execnet", "xdist", "hypothesis")
"""Packages that call Hayase, or the user's program."""
_CALLED = (
    *("polars", "pyarrow", "numpy", "msgspec", "pydantic", "fastavro", "jsonschema", "google", "lmdb", "httpx"),
    *("confluent_kafka", "boto3", "botocore"),
)
"""Packages that Hayase itself calls."""
_NO_FILES = ("<frozen", "<string>")


def users_line() -> str | None:
    """File and line of the innermost call that is neither Hayase's nor a library's, e.g. `app.py:12`.

    `None` if there is none.

    Some microseconds: for what happens once, not for each record.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        if is_users_file(file):
            return f"{shown_file(file)}:{frame.f_lineno}"
        frame = frame.f_back
    return None


def place_of(error: BaseException) -> str | None:
    """File, line and function of the user's program in which an error was raised, e.g. `shop.py:12 in price`.

    `None` if there is none.

    Of calls that it went through the innermost one of the program's own files; else of a package that Hayase does not
    call itself.
    """
    own: str | None = None
    packaged: str | None = None
    trace = error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        if is_users_file(code.co_filename):
            if not is_installed(code.co_filename):
                own = _shown_call(code.co_filename, trace.tb_lineno, code.co_name)
            elif package_of(code.co_filename) not in _CALLED:
                packaged = _shown_call(code.co_filename, trace.tb_lineno, code.co_name)
        trace = trace.tb_next
    return own or packaged


def place_of_function(function: object) -> str | None:
    """File, line and name of a function or method of the user, e.g. `shop.py:12 in price`; `None` if unknown."""
    while isinstance(function, functools.partial):
        function = function.func
    code = getattr(inspect.unwrap(function) if callable(function) else function, "__code__", None)
    if not isinstance(code, CodeType) or not is_users_file(code.co_filename):
        return None
    return _shown_call(code.co_filename, code.co_firstlineno, code.co_name)


def _shown_call(file: str, line: int, function: str) -> str:
    return f"{shown_file(file)}:{line} in {function}"


@functools.cache
def is_users_file(file: str) -> bool:
    """Whether code of that file may be the user's.

    Neither Hayase's nor Python's own, nor that of a package that calls it.
    """
    return not file.startswith((_OURS, *_NO_FILES)) and not _is_library(file)


def package_of(file: str) -> str | None:
    """The folder or file of an installed package that a file belongs to; `None` of others."""
    parts = Path(file).parts
    return next((parts[parts.index(folder) + 1] for folder in _PACKAGES if folder in parts[:-1]), None)


@functools.cache
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
    package = package_of(file)
    if package is not None:
        return package in _CALLERS
    return file.startswith(_STANDARD) or os.path.realpath(file).startswith(_SCRIPTS)
