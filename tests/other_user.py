"""What another user of the machine can do: a child process that gives up its rights. Needs root."""

from __future__ import annotations

import os
import pickle
import shutil
import signal
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

NOBODY = 65534
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as another user")


def as_other_user(action: Callable[[], Any]) -> Any:
    """What the action gives, or the exception that it raises, done by another user."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        _become_other_user()
        try:
            result = action()
        except BaseException as error:
            result = error
        os.write(write, pickle.dumps(result))
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as answer:
        data = answer.read()
    os.waitpid(child, 0)
    return pickle.loads(data)


@contextmanager
def other_user_goes_on(action: Callable[[], Any]) -> Iterator[int]:
    """A process of another user that has done the action and keeps what it has; its id."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        _become_other_user()
        try:
            kept = action()
            os.write(write, b"1")
            time.sleep(600)
            del kept
        finally:
            os._exit(1)
    os.close(write)
    try:
        assert os.read(read, 1) == b"1", "the other user could not do it"
        yield child
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(read)


@contextmanager
def shared_place() -> Iterator[Path]:
    """A folder that every user may enter: pytest's own are closed, so nothing in them would be found to be open."""
    folder = Path(tempfile.mkdtemp(prefix="hayase-shared-place-"))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def open_below(folder: Path) -> list[str]:
    """What below a folder, itself included, other users have any right to, with its mode."""
    paths = [folder, *(Path(place, name) for place, folders, files in os.walk(folder) for name in (*folders, *files))]
    return [f"{path} {mode & 0o777:o}" for path in paths if (mode := mode_of(path)) and mode & 0o077]


def mode_of(path: Path) -> int | None:
    """The mode of a file or folder; of a link, and of what a running application removed in the meantime, none."""
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return None
    return None if stat.S_ISLNK(mode) else mode


def _become_other_user() -> None:
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)
