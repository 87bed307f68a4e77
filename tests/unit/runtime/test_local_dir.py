"""The folders in which sessions of Spark's keep shuffled records."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from hayase.runtime.driver.session import _local_dir

OTHER = """
import sys
from pathlib import Path
from hayase.runtime.driver.session import _local_dir
print(_local_dir(Path(sys.argv[1])), flush=True)
sys.stdin.readline()
"""


@pytest.mark.long
def test_a_session_leaves_those_of_living_processes_alone_and_removes_those_of_ended_ones(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", OTHER, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None and other.stdin is not None
        theirs = Path(other.stdout.readline().strip())
        (theirs / "block").write_text("shuffled")
        first, second = _local_dir(tmp_path), _local_dir(tmp_path)
        assert first != second and first.is_dir() and second.is_dir()
        assert (theirs / "block").read_text() == "shuffled"
        other.stdin.write("end\n")
    _local_dir(tmp_path)
    assert not theirs.exists() and first.is_dir()
