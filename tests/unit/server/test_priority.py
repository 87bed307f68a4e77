"""Priorities of threads: what processes records gives way to what answers."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import pytest

from hayase.server.hosts.priority import lower_priority

_ASKED = [sys.executable, "-c", "import os; print(os.getpriority(os.PRIO_PROCESS, 0))"]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="threads have priorities of their own on Linux only")
def test_a_thread_and_the_processes_it_starts_get_less_and_the_others_what_they_had() -> None:
    before = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
    if before >= 5:
        pytest.skip("this process has a low priority already")
    found = []

    def work() -> None:
        lower_priority()
        found.append(subprocess.run(_ASKED, capture_output=True, text=True, check=True).stdout.strip())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == ["5"]
    assert os.getpriority(os.PRIO_PROCESS, threading.get_native_id()) == before
