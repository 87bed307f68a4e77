"""CPU time and memory of all processes of a system under test."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_PR_SET_CHILD_SUBREAPER = 36
_PROC = Path("/proc")


class ProcessGroup:
    """All processes that descend from one root, alive or ended.

    The CPU time of a process that ended is in its parent's `cutime` once the parent has waited for it; a
    process whose parent ended first becomes a child of this one (`become_subreaper`) and stays readable until
    `reap`. So the sum over what is in `/proc` counts everybody exactly once.

    The root must lead a session of its own (`start_new_session`).
    """

    def __init__(self, root: int) -> None:
        self._root = root
        self._known: set[tuple[int, int]] = set()
        self._highest_cpu_s = 0.0
        self._reaped_cpu_s = 0.0
        self.peak_pss_mb = 0.0
        self.peak_pss_anonymous_mb = 0.0

    def cpu_s(self) -> float:
        """User and system seconds of all processes since they started. Never falls."""
        ticks = sum(own + waited for _, own, waited in self._scan())
        self._highest_cpu_s = max(self._highest_cpu_s, ticks / _TICKS_PER_SECOND + self._reaped_cpu_s)
        return self._highest_cpu_s

    def sample_memory(self, without: Sequence[str] = ()) -> float:
        """The proportional memory of all processes now, in MB; keeps the highest sums.

        Args:
            without: texts; a process with one of them in its command line does not count.
        """
        total = anonymous = 0
        for pid, _, _ in self._scan():
            if any(text in _command_line(pid) for text in without):
                continue
            try:
                rollup = (_PROC / str(pid) / "smaps_rollup").read_text()
            except OSError:  # it ended, or is a zombie
                continue
            for line in rollup.splitlines():
                if line.startswith("Pss:"):
                    total += int(line.split()[1])
                elif line.startswith("Pss_Anon:"):
                    anonymous += int(line.split()[1])
        self.peak_pss_mb = max(self.peak_pss_mb, total / 1024)
        self.peak_pss_anonymous_mb = max(self.peak_pss_anonymous_mb, anonymous / 1024)
        return total / 1024

    def end(self, grace_s: float) -> None:
        """SIGTERM to the root; SIGKILL to what is left after `grace_s`. Returns when no process is left."""
        deadline = time.monotonic() + grace_s
        _signal(self._root, signal.SIGTERM)
        while self._alive(self._root) and time.monotonic() < deadline:
            self.reap()
            time.sleep(0.05)
        while pids := [pid for pid, _, _ in self._scan() if self._alive(pid)]:
            for pid in pids:
                _signal(pid, signal.SIGKILL)
            time.sleep(0.05)
            self.reap()
        self.reap()

    def reap(self) -> None:
        """Wait for the ended processes among this process' own children."""
        for pid, own, waited in self._scan():
            try:
                ended, _ = os.waitpid(pid, os.WNOHANG)
            except ChildProcessError:
                continue
            if ended:
                self._reaped_cpu_s += (own + waited) / _TICKS_PER_SECOND

    def root_has_ended(self) -> bool:
        """Whether the root ended by itself (it may still be waiting to be reaped)."""
        return not self._alive(self._root)

    @staticmethod
    def _alive(pid: int) -> bool:
        try:
            return (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
        except OSError:
            return False

    def _scan(self) -> list[tuple[int, int, int]]:
        """Process id, own ticks, ticks of waited children of every process that belongs to the group."""
        rows = [row for entry in _PROC.iterdir() if entry.name.isdigit() and (row := _read_stat(int(entry.name)))]
        parents = {row.pid: row for row in rows}
        members: dict[int, bool] = {}

        def belongs(row: _Stat) -> bool:
            if row.pid not in members:
                parent = parents.get(row.parent)
                members[row.pid] = (
                    self._root in (row.pid, row.session)
                    or (row.pid, row.started) in self._known
                    or (parent is not None and belongs(parent))
                )
            return members[row.pid]

        found = [row for row in rows if belongs(row)]
        self._known.update((row.pid, row.started) for row in found)
        return [(row.pid, row.own, row.waited) for row in found]


class _Stat:
    __slots__ = ("own", "parent", "pid", "session", "started", "waited")

    def __init__(self, pid: int, fields: list[str]) -> None:
        # proc(5): state is field 3; utime, stime, cutime, cstime are 14 to 17, starttime is 22
        self.pid = pid
        self.parent = int(fields[1])
        self.session = int(fields[3])
        self.own = int(fields[11]) + int(fields[12])
        self.waited = int(fields[13]) + int(fields[14])
        self.started = int(fields[19])


def _read_stat(pid: int) -> _Stat | None:
    try:
        return _Stat(pid, (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split())
    except OSError:
        return None


def _command_line(pid: int) -> str:
    try:
        return (_PROC / str(pid) / "cmdline").read_bytes().decode(errors="replace").replace("\0", " ")
    except OSError:
        return ""


def cpu_s_of(pid: int) -> float:
    """User and system seconds of one process, without its children."""
    stat = _read_stat(pid)
    return stat.own / _TICKS_PER_SECOND if stat is not None else 0.0


def _signal(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def become_subreaper() -> None:
    """From now on, descendants whose parent ends become children of this process (Linux)."""
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER) failed")
