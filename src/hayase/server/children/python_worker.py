"""The program of a child process: calls Python functions of statements until the server closes the socket.

It imports little, so that it starts soon.
"""

from __future__ import annotations

import contextlib
import resource
import socket
import sys

from hayase.runtime.worker.parent_death import watch_parent
from hayase.server.children.frames import receive, send
from hayase.server.children.values import pack, unpack
from hayase.sql.functions.python_text import compiled

_MEMORY_BYTES = 1 << 30


def main() -> None:
    """Serve the socket whose number is the first argument; the second is the number of the server's process."""
    watch_parent(int(sys.argv[2]))  # a function may be at work when the server is killed, and never look at the socket
    with contextlib.suppress(ValueError, OSError):  # not every system bounds it
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    with socket.socket(fileno=int(sys.argv[1])) as server:
        send(server, b"")
        while (request := receive(server)) is not None:
            send(server, _answer(request))


def _answer(request: bytes) -> bytes:
    name, parameters, body, values = unpack(request)
    try:
        return pack([True, compiled(name, tuple(parameters), body)(*values)])
    except Exception as error:
        return pack([False, f"{type(error).__name__}: {error}"[:1000]])


if __name__ == "__main__":
    main()
