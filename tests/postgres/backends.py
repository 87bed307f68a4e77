"""Server processes of connections that tests end."""

from __future__ import annotations

import time
from typing import Any

_END_S = 20.0


def end_backends(connection: Any, where: str, *values: object) -> None:
    """End the server processes of `pg_stat_activity` for which a condition holds, and wait until they are gone."""
    pids = [pid for (pid,) in connection.execute(f"SELECT pid FROM pg_stat_activity WHERE {where}", values).fetchall()]
    for pid in pids:
        connection.execute("SELECT pg_terminate_backend(%s::int)", (pid,))
    deadline = time.monotonic() + _END_S
    while connection.execute("SELECT 1 FROM pg_stat_activity WHERE pid = ANY(%s)", (pids,)).fetchone():
        assert time.monotonic() < deadline, f"processes {pids} do not end"
        time.sleep(0.05)
