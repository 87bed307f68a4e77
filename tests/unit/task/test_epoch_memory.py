"""How much memory a large epoch takes is bounded by `epoch.memory.max.bytes`, not by the epoch."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

VALUE_BYTES, KEYS = 1_000, 60_000
CONSTANT_BYTES_MAX = 420_000_000
"""Chunks at work and LMDB's dirty pages of 60 MB of changes.

190 to 320 MB were seen for inputs of 120, 240 and 360 MB.
"""


def grown(folder: Path, form: str, records: int, max_bytes: int) -> int:
    """What memory the epoch took, in a process of its own."""
    spec: dict[str, Any] = {"folder": str(folder), "kind": "table", "form": form, "max_bytes": max_bytes}
    spec |= {"records": records, "value_bytes": VALUE_BYTES, "keys": KEYS}
    ran = subprocess.run(
        [sys.executable, "-m", "tests.unit.task.big_epoch", json.dumps(spec)],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return int(json.loads(ran.stdout)["grown"])


@pytest.mark.parametrize("form", ["rows", "columns"])
def test_what_memory_an_epoch_takes_does_not_depend_on_its_input(tmp_path: Path, form: str) -> None:
    whole = grown(tmp_path / "whole", form, 240_000, 1 << 40)
    bounded = grown(tmp_path / "bounded", form, 360_000, 16 << 20)
    assert whole > 2 * 240_000 * VALUE_BYTES
    assert bounded < CONSTANT_BYTES_MAX < whole
