"""The tutorial's program and its commands."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "tutorial.md"


def blocks(kind: str) -> list[str]:
    return re.findall(rf"```{kind}\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    (tmp_path / "shop.py").write_text("\n".join(blocks("python")))
    return tmp_path


@pytest.mark.long
def test_the_program_prints_what_the_page_says(shop: Path) -> None:
    done = subprocess.run(
        [sys.executable, "shop.py"], cwd=shop, capture_output=True, text=True, check=True, timeout=120
    )
    assert [done.stdout] == blocks("text")


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(300)
def test_the_commands_run_it_on_spark(shop: Path) -> None:
    environment = {
        **{key: value for key, value in os.environ.items() if not key.startswith(("HAYASE_", "XDG_", "PYTHONPATH"))},
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "XDG_STATE_HOME": str(shop / "state"),
        "XDG_DATA_HOME": str(shop / "data"),
    }
    (commands,) = blocks("sh")
    done = subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", commands],
        cwd=shop, env=environment, capture_output=True, text=True, check=False, timeout=280,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    *_, consumed, scanned = done.stdout.splitlines()
    assert consumed == 'pen/eu@2026-11-23T06:00:00.000Z\t{"orders":1,"cents":500}'
    assert '"cents":500' in scanned.replace(" ", "")
