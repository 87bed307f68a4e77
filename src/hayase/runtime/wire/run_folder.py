"""The folder of one run: small files through which the driver, the planner and command-line tools communicate."""

from __future__ import annotations

import os
from pathlib import Path

from hayase.core.private_files import write_file
from hayase.storage.disk_full import naming_full_disk

PAUSE = "pause"
STOP = "stop"
CHANGE = "change"
SUSPENDED = "holding"
READY = "ready"
STATUS = "status"
RUN = "run"
DUE = "due"
YIELD = "yield"
REPORTS = "told-"
WAITING = "waiting-"
FAILURE = "failure"
ENDED = "ended"
RELEASED = "released"
HUNG = "hung-"
WHAT = "What the driver and the planner of epochs publish for each other"


class RunFolder:
    """What both sides read and write; see `DriverControl` and `PlannerControl`.

    A request that planning is suspended has a token, which the planner repeats: its answer to an earlier request is not
    taken for one to this.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._prefix = f"{folder}{os.sep}"

    def pause_requested(self) -> bool:
        """Whether the application was paused."""
        return self._exists(PAUSE)

    def stop_requested(self) -> bool:
        """Whether the application is being closed."""
        return self._exists(STOP)

    def status(self) -> bytes | None:
        """Driver: what the planner published last."""
        return self._read(STATUS)

    def _tokens(self) -> list[str]:
        contents = [self._read(name) for name in (PAUSE, STOP, CHANGE)]
        return [data.decode() for data in contents if data]

    def _write(self, name: str, data: bytes) -> None:
        temporary = f"{self._prefix}{name}.{os.urandom(8).hex()}.new"
        with naming_full_disk(WHAT, self._folder):
            try:
                write_file(Path(temporary), data)
                os.replace(temporary, self._prefix + name)  # noqa: PTH105 - often, as below
            except BaseException:
                Path(temporary).unlink(missing_ok=True)
                raise

    def _names(self, prefix: str) -> list[str]:
        """Names of files that begin so, sorted."""
        try:
            return sorted(name for name in os.listdir(self._folder) if name.startswith(prefix))  # noqa: PTH208 - often
        except FileNotFoundError:
            return []

    # Planners look for requests many times an epoch. For a file that is not there, pathlib costs ten times as much.

    def _exists(self, name: str) -> bool:
        return os.access(self._prefix + name, os.F_OK)

    def _read(self, name: str) -> bytes | None:
        try:
            descriptor = os.open(self._prefix + name, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        with os.fdopen(descriptor, "rb") as file:
            return file.read()
