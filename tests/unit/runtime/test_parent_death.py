"""Processes that end with the one that started them."""

from __future__ import annotations

import subprocess
import sys
import time

import psutil

WORKER = """
import multiprocessing, os, subprocess, sys, time
from concurrent.futures import ProcessPoolExecutor
from hayase.runtime.worker.parent_death import end_with_forker
end_with_forker()
worker = os.fork()
if worker == 0:
    {work}
    os._exit(0)
print(os.waitpid(worker, 0)[1], flush=True)
"""
FORKS = """
    fork = multiprocessing.get_context("fork")
    child = fork.Process(target=int)
    child.start(), child.join()
    with ProcessPoolExecutor(1, mp_context=fork) as pool:
        seven = pool.submit(abs, -7).result(timeout=20)
    ran = subprocess.run(["true"], preexec_fn=lambda: None).returncode
    print(child.exitcode, seven, ran, flush=True)
"""
WAITS = """
    print(os.getpid(), flush=True)
    time.sleep(600)
"""


def test_functions_of_the_user_may_fork_processes_in_a_worker() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WORKER.format(work=FORKS.strip())],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout.split() == ["0", "7", "0", "0"], done.stderr


def test_a_worker_ends_with_the_process_that_forked_it() -> None:
    daemon = subprocess.Popen(
        [sys.executable, "-c", WORKER.format(work=WAITS.strip())], stdout=subprocess.PIPE, text=True
    )
    assert daemon.stdout is not None
    worker = psutil.Process(int(daemon.stdout.readline()))
    daemon.kill()
    daemon.wait()
    deadline = time.monotonic() + 30
    while worker.is_running() and worker.status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    daemon.stdout.close()
