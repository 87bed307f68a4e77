"""Runs one side of one scenario and measures it from outside."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.processes import ProcessGroup
from bench.topics import Progress

_POLL_S = 0.1
_WAIT_POLL_S = 0.05
_MEMORY_EVERY_S = 1.0
_STOP_GRACE_S = 60.0
_LOG_TAIL = 3_000


class RunError(RuntimeError):
    """The application ended, hung, or finished before anything could be measured."""


@dataclass(frozen=True, slots=True)
class Run:
    """What was measured of one run.

    Attributes:
        startup_s: from the command to the first output record that a `read_committed` reader sees.
        steady_s: length of the steady part: from the first look at which output was visible and input offsets
            were committed, until all input was processed and its output visible; where that first look finds everything
            done, it is the whole run.
        steady_records: input records processed in the steady part.
        total_s: from the command to the end of the steady part.
        cpu_s: CPU seconds of all processes from the command to the end of the steady part.
        steady_cpu_s: those of the steady part.
        peak_pss_mb: highest sum of the processes' proportional memory, mapped files included, looked at
            each second.
        peak_anonymous_mb: the same without mapped files.
        whole: the steady part is the whole run, start-up included: there were too few records.
    """

    startup_s: float
    steady_s: float
    steady_records: int
    total_s: float
    cpu_s: float
    steady_cpu_s: float
    peak_pss_mb: float
    peak_anonymous_mb: float
    whole: bool = False

    @property
    def throughput(self) -> float:
        """Input records per second in the steady part."""
        return self.steady_records / self.steady_s

    @property
    def cpu_us_per_record(self) -> float:
        """CPU microseconds per input record in the steady part."""
        return self.steady_cpu_s / self.steady_records * 1e6


@dataclass(frozen=True, slots=True)
class _Look:
    """One look at the application: seconds since the command, and how far it was."""

    at_s: float
    cpu_s: float
    processed: int
    output_end: int


def measure(
    command: list[str], progress: Progress, log_file: Path, *, quiet_s: float, timeout_s: float, cwd: Path
) -> Run:
    """Run a command until it has processed all input, stop it with SIGTERM, and say what it took.

    All input is processed when the group's committed offsets have reached the end of the input and the output
    topic has not grown for `quiet_s`; the time that counts is that of the last of both events.

    Raises:
        RunError: with the end of the application's log.
    """
    started = time.monotonic()
    with running(command, log_file, cwd) as group:
        looks = _watch(group, progress, started, quiet_s=quiet_s, timeout_s=timeout_s)
        return _evaluate(looks, progress.input_end, group)


@contextmanager
def running(
    command: list[str], log_file: Path, cwd: Path, *, stop_grace_s: float = _STOP_GRACE_S
) -> Iterator[ProcessGroup]:
    """The processes of a command, with the sources beside the benchmark; they are ended with SIGTERM at the end.

    Raises:
        RunError: as the block raises it, with the command and the end of its log.
    """
    process = _start(command, log_file, cwd)
    group = ProcessGroup(process.pid)
    try:
        yield group
    except RunError as failure:
        raise RunError(f"{failure}. Command: {' '.join(command)}\n{_log_tail(log_file)}") from None
    finally:
        group.end(stop_grace_s)
        process.wait()


def wait_until(
    holds: Callable[[], bool],
    what: str,
    timeout_s: float,
    group: ProcessGroup | None = None,
    *,
    every_s: float = _WAIT_POLL_S,
) -> None:
    """Wait for a condition, which is looked at every `every_s`.

    Raises:
        RunError: it did not come, or the processes that are to bring it ended by themselves.
    """
    deadline = time.monotonic() + timeout_s
    while not holds():
        if group is not None and group.root_has_ended():
            raise RunError(f"the application ended by itself before {what}")
        if time.monotonic() > deadline:
            raise RunError(f"it took more than {timeout_s:g} s until {what}")
        time.sleep(every_s)


def _start(command: list[str], log_file: Path, cwd: Path) -> subprocess.Popen[bytes]:
    """Start a command that leads a session of its own."""
    path = os.pathsep.join((str(cwd), str(cwd / "src")))
    with log_file.open("wb") as log:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd=cwd,
            env={**os.environ, "PYTHONPATH": path, "PYTHONUNBUFFERED": "1"},
            start_new_session=True,
        )


def _log_tail(log_file: Path) -> str:
    """The end of what an application printed, for an error."""
    return f"End of its log:\n{log_file.read_text(errors='replace')[-_LOG_TAIL:]}"


def _watch(group: ProcessGroup, progress: Progress, started: float, *, quiet_s: float, timeout_s: float) -> list[_Look]:
    """Look at the application again and again until everything is processed."""
    looks: list[_Look] = []
    next_memory_s = 0.0
    changed_s = 0.0
    while True:
        at_s = time.monotonic() - started
        look = _Look(at_s, group.cpu_s(), progress.processed(), progress.output_end())
        if not looks or (look.processed, look.output_end) != (looks[-1].processed, looks[-1].output_end):
            changed_s = at_s
        looks.append(look)
        if at_s >= next_memory_s:
            group.sample_memory()
            next_memory_s = at_s + _MEMORY_EVERY_S
        if look.processed >= progress.input_end and at_s - changed_s >= quiet_s:
            return looks
        if group.root_has_ended():
            raise RunError(f"the application ended by itself after {at_s:.1f} s, {_where(look, progress)}")
        if at_s > timeout_s:
            raise RunError(f"not ready within {timeout_s:g} s, {_where(look, progress)}")
        time.sleep(max(0.0, _POLL_S - (time.monotonic() - started - at_s)))


def _where(look: _Look, progress: Progress) -> str:
    return f"with {look.processed} of {progress.input_end} records processed and {look.output_end} in the output"


def _evaluate(looks: list[_Look], input_end: int, group: ProcessGroup) -> Run:
    first_output = next(look for look in looks if look.output_end > 0)
    first = next(look for look in looks if look.output_end > 0 and look.processed > 0)
    output_end = looks[-1].output_end
    last = next(look for look in looks if look.processed >= input_end and look.output_end >= output_end)
    whole = first.processed >= input_end
    if whole:
        first = _Look(0.0, 0.0, 0, 0)
    return Run(
        startup_s=first_output.at_s,
        steady_s=last.at_s - first.at_s,
        steady_records=input_end - first.processed,
        total_s=last.at_s,
        cpu_s=last.cpu_s,
        steady_cpu_s=last.cpu_s - first.cpu_s,
        peak_pss_mb=group.peak_pss_mb,
        peak_anonymous_mb=group.peak_pss_anonymous_mb,
        whole=whole,
    )
