"""Which process holds a lease, and whether it lives."""

from __future__ import annotations

import os
import socket
import uuid
from pathlib import Path

import msgspec
import psutil

from hayase.state.environment.crash_marker import current_boot_id

_PROC = Path("/proc")
_START_TICKS = 19  # of the fields of `/proc/PID/stat` behind the name: `starttime` in proc_pid_stat(5)


class Holder(msgspec.Struct, frozen=True):
    """The holder of a lease.

    Attributes:
        token: another one for every time that it is taken.
        machine: boot and process namespace: where the process id means something.
        host: for people.
        pid: of the process.
        born: when the process was started, by a clock that is never set: process ids come again.
        released: it was given back.
    """

    token: str
    machine: str
    host: str
    pid: int
    born: float
    released: bool = False

    def __str__(self) -> str:
        return f"pid {self.pid} on {self.host}"


def this_process() -> Holder:
    """This process, as the holder of a lease that it is about to take."""
    return Holder(uuid.uuid4().hex, machine(), socket.gethostname(), os.getpid(), born(os.getpid()) or 0.0)


def is_gone(holder: Holder) -> bool:
    """Whether it was a process of this machine, and has ended."""
    return holder.machine == machine() and born(holder.pid) != holder.born


def machine() -> str:
    """Where a process id means something."""
    try:
        namespace = str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        namespace = ""
    return f"{current_boot_id()} {namespace}"


def born(pid: int) -> float | None:
    """When the process was started; `None` if there is none."""
    if _PROC.exists():
        try:
            # psutil adds the time of the boot, which is another one after the machine's clock was set.
            return float((_PROC / f"{pid}/stat").read_text().rpartition(")")[2].split()[_START_TICKS])
        except (FileNotFoundError, ProcessLookupError):
            return None
    try:
        return float(psutil.Process(pid).create_time())
    except psutil.Error:
        return None
