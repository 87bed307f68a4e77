"""One running copy per application."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hayase.core.errors import LeaseHeldError
from hayase.runtime.driver.lease import FileLease

HOLD = """
import sys, time
from pathlib import Path
from hayase.runtime.driver.lease import FileLease
with FileLease(Path(sys.argv[1]), "app"):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.mark.long
def test_a_second_copy_is_refused_while_the_first_lives_and_let_in_when_it_was_killed(tmp_path: Path) -> None:
    first = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    try:
        assert first.stdout is not None
        assert first.stdout.readline() == "held\n"
        with pytest.raises(LeaseHeldError) as refused, FileLease(tmp_path, "app"):
            pass
        assert f"pid {first.pid}" in str(refused.value)
    finally:
        first.kill()
        first.wait()
    with FileLease(tmp_path, "app"):
        pass


def test_the_lease_is_free_again_after_a_clean_end(tmp_path: Path) -> None:
    for _ in range(2):
        with FileLease(tmp_path, "app"):
            pass


@pytest.mark.long
def test_a_lease_whose_file_goes_while_another_waits_is_taken_on_the_file_that_follows(tmp_path: Path) -> None:
    first, second = FileLease(tmp_path, "app"), FileLease(tmp_path, "app")
    first.__enter__()
    first.forget()
    waiting = os.open(tmp_path / "lease", os.O_RDWR)
    first.__exit__(None, None, None)
    with pytest.MonkeyPatch.context() as patch:
        given, real = [waiting], os.open
        patch.setattr(os, "open", lambda *args: given.pop() if given else real(*args))
        second.__enter__()
    with pytest.raises(LeaseHeldError), FileLease(tmp_path, "app"):
        pass
    second.__exit__(None, None, None)
