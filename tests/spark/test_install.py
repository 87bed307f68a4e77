"""The wheel in an environment of its own, used outside the repository."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    build = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        str(ROOT),
        "--no-deps",
        "--no-build-isolation",
        "-q",
        "-w",
        str(folder),
    ]
    subprocess.run(build, check=True, cwd=folder)
    (found,) = folder.glob("*.whl")
    return found


def test_the_wheel_holds_the_licence_and_no_exact_versions(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (metadata,) = [archive.read(name).decode() for name in names if name.endswith("METADATA")]
    assert any(name.endswith("licenses/LICENSE") for name in names)
    required = [line for line in metadata.splitlines() if line.startswith("Requires-Dist:")]
    assert len(required) > 15 and not [line for line in required if "==" in line.partition(";")[0]]


def test_it_runs_the_demo_with_the_newest_packages_that_its_ranges_allow(wheel: Path, tmp_path: Path) -> None:
    venv.create(tmp_path / "venv", with_pip=True)
    python = tmp_path / "venv" / "bin" / "python"
    installed = subprocess.run(
        [python, "-m", "pip", "install", "-q", "--disable-pip-version-check", wheel],
        check=False,
        capture_output=True,
        text=True,
    )
    if "Could not find a version" in installed.stderr or "Connection" in installed.stderr:
        pytest.skip(f"no package index: {installed.stderr[-200:]}")
    assert installed.returncode == 0, installed.stderr
    outside = {**os.environ, "HOME": str(tmp_path / "home"), "PATH": f"{python.parent}:{os.environ['PATH']}"}
    for name in ("PYTHONPATH", "SPARK_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME"):
        outside.pop(name, None)
    (tmp_path / "home").mkdir()
    shown = subprocess.run(
        ["hayase", "demo", "--orders", "2000"],
        check=False,
        cwd=tmp_path,
        env=outside,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert shown.returncode == 0, shown.stdout[-2000:] + shown.stderr[-2000:]
