"""How much memory a large epoch takes is bounded by `epoch.memory.max.bytes`, not by the epoch."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

RECORDS, VALUE_BYTES = 120_000, 1_000


def grown(folder: Path, form: str, max_bytes: int) -> int:
    """What memory the epoch took, in a process of its own."""
    spec: dict[str, Any] = {"folder": str(folder), "kind": "table", "form": form, "max_bytes": max_bytes}
    spec |= {"records": RECORDS, "value_bytes": VALUE_BYTES, "keys": RECORDS // 2}
    ran = subprocess.run(
        [sys.executable, "-m", "tests.unit.task.big_epoch", json.dumps(spec)],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return int(json.loads(ran.stdout)["grown"])


@pytest.mark.parametrize("form", ["rows", "columns"])
def test_an_epoch_takes_a_fraction_of_the_memory_that_its_input_would(tmp_path: Path, form: str) -> None:
    """Half of the input are changes of the store, which LMDB keeps in memory until they are committed, up to 512 MB."""
    whole = grown(tmp_path / "whole", form, 1 << 40)
    bounded = grown(tmp_path / "bounded", form, 16 << 20)
    assert whole > 3 * RECORDS * VALUE_BYTES
    assert bounded < whole * 0.45
    assert bounded < 2 * RECORDS * VALUE_BYTES
