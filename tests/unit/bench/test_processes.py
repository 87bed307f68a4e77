"""CPU time of process trees, measured on real processes."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest
from bench.processes import ProcessGroup

# The root burns some CPU, and so do a child it waits for and one it leaves running.
_TREE = """
import subprocess, sys, time
burn = "import time\\nwhile time.process_time() < 0.4: pass\\n"
subprocess.run([sys.executable, "-c", burn])
subprocess.Popen([sys.executable, "-c", burn + "print('x', flush=True)\\ntime.sleep(60)"])
while time.process_time() < 0.4: pass
time.sleep(60)
"""


@pytest.mark.long
def test_cpu_of_the_root_of_an_ended_child_and_of_a_running_child_is_counted_once() -> None:
    process = subprocess.Popen([sys.executable, "-c", _TREE], stdout=subprocess.PIPE, start_new_session=True)
    group = ProcessGroup(process.pid)
    try:
        assert process.stdout is not None
        process.stdout.readline()  # the last child has burnt its share
        deadline = time.monotonic() + 20
        while group.cpu_s() < 1.1 and time.monotonic() < deadline:
            time.sleep(0.05)
        settled = group.cpu_s()
    finally:
        group.end(grace_s=10)
        process.wait()
    assert 1.1 <= settled < 1.55  # three times 0.4 s, in ticks of 10 ms, and starting three interpreters


def test_no_process_of_the_tree_is_left_after_end() -> None:
    script = "import subprocess,sys,time; subprocess.Popen(['sleep','60']); print('x',flush=True); time.sleep(60)"
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, start_new_session=True)
    assert process.stdout is not None
    process.stdout.readline()
    group = ProcessGroup(process.pid)
    group.sample_memory()
    group.end(grace_s=10)
    process.wait()
    assert group.peak_pss_mb > 1
    assert group.root_has_ended()
    assert process.stdout.read() == b""  # the pipe is closed: the sleeping child is gone too
