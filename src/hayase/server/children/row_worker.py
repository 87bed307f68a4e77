"""The program of a child process: computes expressions for rows until the server closes the socket."""

from __future__ import annotations

import contextlib
import os
import pickle
import resource
import socket
import sys

os.environ["POLARS_MAX_THREADS"] = "1"  # modules of functions import it, and nothing is computed with it here

from hayase.core.errors import HayaseError
from hayase.runtime.worker.parent_death import watch_parent
from hayase.server.children.frames import receive, send
from hayase.server.children.row_calls import PROGRAMS_KEPT
from hayase.server.children.values import pack, unpack
from hayase.sql.expressions.rows import RowExpression

_MEMORY_BYTES = 512 << 20
_NICE = 5
"""A request of the server comes before an expression that takes long."""
_MESSAGE_MAX = 1000


def main() -> None:
    """Serve the socket whose number is the first argument; the second is the number of the server's process."""
    watch_parent(int(sys.argv[2]))
    os.nice(_NICE)
    with contextlib.suppress(ValueError, OSError):  # not every system bounds it
        resource.setrlimit(resource.RLIMIT_DATA, (_MEMORY_BYTES, _MEMORY_BYTES))
    programs: dict[bytes, RowExpression] = {}
    with socket.socket(fileno=int(sys.argv[1])) as server:
        send(server, b"")
        while (request := receive(server)) is not None:
            send(server, _answer(request, programs))


def _answer(request: bytes, programs: dict[bytes, RowExpression]) -> bytes:
    digest, program, row = unpack(request)
    if program is not None:
        if len(programs) >= PROGRAMS_KEPT:
            programs.clear()
        programs[digest] = pickle.loads(program)
    failures: list[list[str]] = []
    expression: RowExpression = programs[digest]
    expression.report = lambda error: failures.append(_shown(error))
    try:
        return pack([expression(row), failures, None])
    except Exception as error:
        return pack([None, [], _shown(error)])


def _shown(error: Exception) -> list[str]:
    if isinstance(error, HayaseError):
        return [error.condition, error.message[:_MESSAGE_MAX]]
    return ["FUNCTION_FAILED", f"{type(error).__name__}: {error}"[:_MESSAGE_MAX]]


if __name__ == "__main__":
    main()
