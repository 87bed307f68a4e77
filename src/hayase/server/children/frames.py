"""Messages over a socket: a length, then that many bytes."""

from __future__ import annotations

import socket
import struct
import time

_LENGTH = struct.Struct(">I")
_PART_BYTES = 1 << 16


def send(connection: socket.socket, message: bytes) -> None:
    """Send a message; raises OSError."""
    connection.sendall(_LENGTH.pack(len(message)) + message)


def receive(connection: socket.socket, timeout_s: float | None = None, max_bytes: int = 1 << 30) -> bytes | None:
    """The next message; `None`: the other side has ended.

    Args:
        connection: a stream socket.
        timeout_s: how long the whole message may take; `None`: any time.
        max_bytes: the largest message that is taken.

    Raises:
        TimeoutError: it took longer.
        OSError: the connection is broken, or the message too large.
    """
    until_s = None if timeout_s is None else time.monotonic() + timeout_s
    head = _exactly(connection, _LENGTH.size, until_s)
    if head is None:
        return None
    (length,) = _LENGTH.unpack(head)
    if length > max_bytes:
        raise OSError(f"a message of {length} bytes; {max_bytes} are allowed")
    return _exactly(connection, length, until_s)


def _exactly(connection: socket.socket, length: int, until_s: float | None) -> bytes | None:
    parts = bytearray()
    while len(parts) < length:
        if until_s is not None:
            left_s = until_s - time.monotonic()
            if left_s <= 0:
                raise TimeoutError
            connection.settimeout(left_s)
        part = connection.recv(min(_PART_BYTES, length - len(parts)))
        if not part:
            return None
        parts += part
    return bytes(parts)
