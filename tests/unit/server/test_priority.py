"""Priorities of threads: what processes records gives way to what answers."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from hayase.server.hosts.priority import lower_priority, shorten_slices

_LINUX = tuple(int(part) for part in re.findall(r"\d+", platform.release())[:2]) if sys.platform == "linux" else (0, 0)
_ASKED = [sys.executable, "-c", "import os; print(os.getpriority(os.PRIO_PROCESS, 0))"]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="threads have priorities of their own on Linux only")
def test_a_thread_and_the_processes_it_starts_get_less_and_the_others_what_they_had() -> None:
    before = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
    if before >= 7:
        pytest.skip("this process has a low priority already")
    found = []

    def work() -> None:
        lower_priority(7)
        found.append(subprocess.run(_ASKED, capture_output=True, text=True, check=True).stdout.strip())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == ["7"]
    assert os.getpriority(os.PRIO_PROCESS, threading.get_native_id()) == before


def _slice_ns() -> int | None:
    """The slice of the calling thread; `None` where the system does not tell, or has none."""
    try:
        status = Path(f"/proc/self/task/{threading.get_native_id()}/sched").read_text()
    except OSError:
        return None
    found = re.search(r"^se\.slice\s*:\s*(\d+)$", status, re.MULTILINE)
    return None if found is None else int(found[1])


@pytest.mark.skipif(_LINUX < (6, 12), reason="threads have slices of their own on Linux since 6.12")
def test_slices_are_short_in_threads_that_answer_and_usual_in_those_that_process() -> None:
    usual = _slice_ns()
    if usual is None:
        pytest.skip("the system has no slices of threads, or does not tell them")
    found: list[int | None] = []

    def process() -> None:
        lower_priority(7)
        found.append(_slice_ns())

    def answer() -> None:
        shorten_slices()
        found.append(_slice_ns())
        processing = threading.Thread(target=process)
        processing.start()
        processing.join()

    answering = threading.Thread(target=answer)
    answering.start()
    answering.join()
    assert found == [200_000, usual]
    assert _slice_ns() == usual
