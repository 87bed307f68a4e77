"""The driver's side of a run: what it requests of the planner and reads from it. Command-line tools use it, too."""

from __future__ import annotations

import uuid
from pathlib import Path

import psutil

from hayase.runtime.wire.run_folder import (
    CHANGE,
    DUE,
    ENDED,
    FAILURE,
    PAUSE,
    READY,
    RELEASED,
    REPORTS,
    RUN,
    STOP,
    SUSPENDED,
    WAITING,
    YIELD,
    RunFolder,
)


class DriverControl(RunFolder):
    """Requests that planning is suspended, and reads what the planner publishes."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._read_bytes: dict[str, int] = {}

    @classmethod
    def of_running(cls, runs: Path) -> DriverControl | None:
        """The folder of the running application, found by another process; `None` if there is no folder of a run.

        A run that was killed leaves its folder, so whether the application runs is for the lease to say.
        """
        folders = [folder for folder in runs.iterdir() if folder.is_dir()] if runs.is_dir() else []
        return cls(max(folders, key=lambda folder: folder.stat().st_mtime_ns)) if folders else None

    def request_pause(self, pause: bool) -> None:
        """Driver, or a command: no new epochs until further notice (or: go on). Asking again changes nothing."""
        if not pause:
            (self._folder / PAUSE).unlink(missing_ok=True)
        elif not self.pause_requested():
            self._write(PAUSE, uuid.uuid4().hex.encode())

    def request_stop(self) -> None:
        """Driver: no new epochs; the query is about to be stopped. Cannot be taken back."""
        self._write(STOP, uuid.uuid4().hex.encode())

    def request_change(self, change: bool) -> None:
        """Driver: no new epochs until the query has been replaced by one with another plan (or: it has been)."""
        if change:
            self._write(CHANGE, uuid.uuid4().hex.encode())
        else:
            (self._folder / CHANGE).unlink(missing_ok=True)

    def request_yield(self, others: bool) -> None:
        """Driver: others want Spark's cores too, so leave them after each epoch (or: there are no others any more)."""
        if others:
            self._write(YIELD, b"")
        else:
            (self._folder / YIELD).unlink(missing_ok=True)

    def suspended(self) -> bool:
        """Driver: whether the planner is suspended between epochs."""
        said = (self._read(SUSPENDED) or b"").decode().split()
        return any(token in said for token in self._tokens())

    def ready(self) -> bool:
        """Driver: whether the planner is up."""
        return self._exists(READY)

    def planner_lost(self) -> bool:
        """Driver: whether the planner's process is gone without having ended in order."""
        data = self._read(READY)
        return data is not None and not _alive(int(data))

    def forget_planner(self) -> None:
        """Driver: the planner is gone, and what it published with it; another one is started."""
        for name in (READY, SUSPENDED, FAILURE, ENDED):
            (self._folder / name).unlink(missing_ok=True)

    def failure(self) -> str | None:
        """Driver: what the topology failed with, in a shared runtime; `None` if it did not."""
        data = self._read(FAILURE)
        return None if data is None else data.decode()

    def released(self) -> int:
        """Driver: the last start of which a shared runtime keeps nothing any more; 0 if there is none."""
        return int(self._read(RELEASED) or 0)

    def ended(self) -> bool:
        """Driver: whether the topology is at the end of its input, in a shared runtime."""
        return self._exists(ENDED)

    def waiting(self) -> str:
        """Driver: why one of them waits; empty if none does."""
        for name in self._names(WAITING):
            pid = name.rpartition("-")[2]
            if pid.isdigit() and _alive(int(pid)):  # else it died while it waited, or the file is still being written
                return (self._read(name) or b"").decode()
        return ""

    def publish_due(self, epoch: int, due_ms: int) -> None:
        """Driver: as of that epoch, when something of the application is due by the wall clock."""
        self._write(DUE, f"{epoch} {due_ms}".encode())

    def reports(self) -> list[bytes]:
        """Driver: the lines since the last call, in order. Files of former spans are removed."""
        lines: list[bytes] = []
        paths = [self._folder / name for name in self._names(REPORTS)]
        for path in paths:
            with path.open("rb") as file:
                file.seek(self._read_bytes.get(path.name, 0))
                data = file.read()
            whole = data[: data.rfind(b"\n") + 1]
            lines += whole.splitlines()
            self._read_bytes[path.name] = self._read_bytes.get(path.name, 0) + len(whole)
            if path != paths[-1]:
                path.unlink()
                del self._read_bytes[path.name]
        return lines

    def publish_run(self, run: bytes) -> None:
        """Driver: what commands of other processes may know about this run."""
        self._write(RUN, run)

    def run(self) -> bytes | None:
        """A command: what the driver published last."""
        return self._read(RUN)


def _alive(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
