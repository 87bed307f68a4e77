"""Processes in PID namespaces of their own, as in containers: each is the first, with the id 1."""

from __future__ import annotations

import subprocess

import pytest

UNSHARED = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")
"""To be put before a command."""


def _works() -> bool:
    try:
        return subprocess.run([*UNSHARED, "true"], check=False, capture_output=True, timeout=30).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


needs_namespaces = pytest.mark.skipif(not _works(), reason="this user may not make PID namespaces")
