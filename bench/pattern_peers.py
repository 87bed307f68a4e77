"""The same accounts with the library `eventsourcing` on PostgreSQL, for `python -m bench patterns`."""

from __future__ import annotations

import json
import os
import subprocess

from bench.sides import ROOT, installed
from hayase.testing.postgres_server import PASSWORD, USER, PostgresServer

_REQUIREMENTS = ROOT / "bench" / "peers" / "eventsourcing.txt"
_ENVIRONMENT = ROOT / "bench" / "peers" / ".venv-eventsourcing"
_THREADS = (1, 4)
"""One sender, and as many as two cores and a database have work for: the better one counts."""


def library_rate(aggregates: int, seconds: float) -> float:
    """Commands per second of the library.

    Raises:
        RuntimeError: it cannot be installed, or failed.
    """
    python = installed(_REQUIREMENTS, _ENVIRONMENT)
    return max(_rate(str(python), aggregates, seconds, threads) for threads in _THREADS)


def _rate(python: str, aggregates: int, seconds: float, threads: int) -> float:
    with PostgresServer() as server:
        database = {
            "POSTGRES_DBNAME": "postgres",
            "POSTGRES_HOST": server.host,
            "POSTGRES_PORT": str(server.port),
            "POSTGRES_USER": USER,
            "POSTGRES_PASSWORD": PASSWORD,
        }
        program = str(ROOT / "bench" / "peers" / "eventsourcing_app.py")
        numbers = [f"--aggregates={aggregates}", f"--seconds={seconds}", f"--threads={threads}"]
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        done = subprocess.run(
            [python, program, *numbers], env={**environment, **database}, capture_output=True, text=True, check=False
        )
    if done.returncode != 0:
        raise RuntimeError(f"eventsourcing failed: {done.stderr[-1500:]}")
    result = json.loads(done.stdout)
    return float(result["commands"]) / float(result["seconds"])
