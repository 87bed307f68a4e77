"""How the driver, the process that plans epochs, and commands of other processes talk.

Small files in a folder of the run.
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from hayase.core.private_files import open_file, write_file
from hayase.storage.disk_full import naming_full_disk

_PAUSE = "pause"
_STOP = "stop"
_CHANGE = "change"
_SUSPENDED = "holding"
_READY = "ready"
_STATUS = "status"
_RUN = "run"
_DUE = "due"
_YIELD = "yield"
_REPORTS = "told-"
_WAITING = "waiting-"
_WHAT = "What the driver and the planner of epochs publish for each other"


class RunControl:
    """The folder of one run.

    The driver and commands request that planning is suspended; the planner publishes that it is ready, suspended, and
    how far it is.

    A request has a token, which the planner repeats: its answer to an earlier request is not taken for one to this.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._seen: list[str] = []
        self._read_bytes: dict[str, int] = {}

    @classmethod
    def of_running(cls, runs: Path) -> RunControl | None:
        """The folder of the running application, found by another process; `None` if there is no folder of a run.

        A run that was killed leaves its folder, so whether the application runs is for the lease to say.
        """
        folders = [folder for folder in runs.iterdir() if folder.is_dir()] if runs.is_dir() else []
        return cls(max(folders, key=lambda folder: folder.stat().st_mtime_ns)) if folders else None

    def request_pause(self, pause: bool) -> None:
        """Driver, or a command: no new epochs until further notice (or: go on). Asking again changes nothing."""
        if not pause:
            (self._folder / _PAUSE).unlink(missing_ok=True)
        elif not self.pause_requested():
            self._write(_PAUSE, uuid.uuid4().hex.encode())

    def request_stop(self) -> None:
        """Driver: no new epochs; the query is about to be stopped. Cannot be taken back."""
        self._write(_STOP, uuid.uuid4().hex.encode())

    def request_change(self, change: bool) -> None:
        """Driver: no new epochs until the query has been replaced by one with another plan (or: it has been)."""
        if change:
            self._write(_CHANGE, uuid.uuid4().hex.encode())
        else:
            (self._folder / _CHANGE).unlink(missing_ok=True)

    def request_yield(self, others: bool) -> None:
        """Driver: others want Spark's cores too, so leave them after each epoch (or: there are no others any more)."""
        if others:
            self._write(_YIELD, b"")
        else:
            (self._folder / _YIELD).unlink(missing_ok=True)

    def yield_requested(self) -> bool:
        """Planner: whether there are others."""
        return (self._folder / _YIELD).exists()

    def pause_requested(self) -> bool:
        """Whether the application was paused."""
        return (self._folder / _PAUSE).exists()

    def stop_requested(self) -> bool:
        """Whether the application is being closed."""
        return (self._folder / _STOP).exists()

    def suspend_requested(self) -> bool:
        """Planner: whether to open no new epoch, for whatever reason."""
        self._seen = self._tokens()
        return bool(self._seen)

    def publish_suspended(self) -> None:
        """Planner: no epoch is open, and none begins while a request that it has seen is in place."""
        self._write(_SUSPENDED, "\n".join(self._seen).encode())

    def suspended(self) -> bool:
        """Driver: whether the planner is suspended between epochs."""
        said = (self._read(_SUSPENDED) or b"").decode().split()
        return any(token in said for token in self._tokens())

    def publish_ready(self) -> None:
        """Planner: up and asking the log for data."""
        if not self.ready():
            self._write(_READY, str(os.getpid()).encode())

    def publish_closed(self) -> None:
        """Planner: about to end in order."""
        if self._read(_READY) == str(os.getpid()).encode():
            (self._folder / _READY).unlink(missing_ok=True)

    def ready(self) -> bool:
        """Driver: whether the planner is up."""
        return (self._folder / _READY).exists()

    def planner_lost(self) -> bool:
        """Driver: whether the planner's process is gone without having ended in order."""
        data = self._read(_READY)
        return data is not None and not _alive(int(data))

    def forget_planner(self) -> None:
        """Driver: the planner is gone, and what it published with it; another one is started."""
        for name in (_READY, _SUSPENDED):
            (self._folder / name).unlink(missing_ok=True)

    def publish_status(self, status: bytes) -> None:
        """Planner: how far the application is."""
        self._write(_STATUS, status)

    def status(self) -> bytes | None:
        """Driver: what the planner published last."""
        return self._read(_STATUS)

    def publish_waiting(self, who: str, why: str) -> None:
        """Planner, or a worker on the same machine: it waits for something that is away; empty: it goes on."""
        try:
            if why:
                self._write(f"{_WAITING}{who}", why.encode())
            else:
                (self._folder / f"{_WAITING}{who}").unlink(missing_ok=True)
        except OSError:  # the run is over
            return

    def waiting(self) -> str:
        """Driver: why one of them waits; empty if none does."""
        for path in sorted(self._folder.glob(f"{_WAITING}*")):
            pid = path.name.rpartition("-")[2]
            if pid.isdigit() and _alive(int(pid)):  # else it died while it waited, or the file is still being written
                return (self._read(path.name) or b"").decode()
        return ""

    def publish_due(self, epoch: int, due_ms: int) -> None:
        """Driver: as of that epoch, when something of the application is due by the wall clock."""
        self._write(_DUE, f"{epoch} {due_ms}".encode())

    def due(self) -> tuple[int, int] | None:
        """Planner: what the driver published last; `None` if nothing is due at any time that is known."""
        data = self._read(_DUE)
        if data is None:
            return None
        epoch, due_ms = data.split()
        return int(epoch), int(due_ms)

    @contextmanager
    def reporting(self) -> Iterator[Callable[[bytes], object]]:
        """Planner: while a span goes on, one line, without line ends in it, for each completed epoch."""
        path = self._folder / f"{_REPORTS}{time.time_ns():020d}"
        with os.fdopen(open_file(path, os.O_WRONLY | os.O_APPEND), "ab", buffering=0) as file:

            def report(line: bytes) -> None:
                rest = memoryview(line + b"\n")
                # A line that is cut short ends the span, and the next one has a file of its own.
                with naming_full_disk(_WHAT, self._folder):
                    while rest:
                        rest = rest[file.write(rest) :]

            yield report

    def reports(self) -> list[bytes]:
        """Driver: the lines since the last call, in order. Files of former spans are removed."""
        lines: list[bytes] = []
        paths = sorted(self._folder.glob(f"{_REPORTS}*"))
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
        self._write(_RUN, run)

    def run(self) -> bytes | None:
        """A command: what the driver published last."""
        return self._read(_RUN)

    def _tokens(self) -> list[str]:
        found = [self._read(name) for name in (_PAUSE, _STOP, _CHANGE)]
        return [data.decode() for data in found if data]

    def _write(self, name: str, data: bytes) -> None:
        temporary = self._folder / f"{name}.{uuid.uuid4().hex}.new"
        with naming_full_disk(_WHAT, self._folder):
            try:
                write_file(temporary, data)
                temporary.replace(self._folder / name)
            finally:
                temporary.unlink(missing_ok=True)

    def _read(self, name: str) -> bytes | None:
        try:
            return (self._folder / name).read_bytes()
        except FileNotFoundError:
            return None


def _alive(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
