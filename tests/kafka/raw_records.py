"""Batches of records as they lie on a broker, written without a client: what no client would write."""

from __future__ import annotations

import socket
import struct
from collections.abc import Sequence

from crc32c import crc32c

ZSTD = 4
"""The compression in a batch's attributes."""


def number(value: int) -> bytes:
    """A zigzag varint."""
    rest, found = (value << 1) ^ (value >> 63), b""
    while rest > 0x7F:
        found, rest = found + bytes([rest & 0x7F | 0x80]), rest >> 7
    return found + bytes([rest])


def record(index: int, value: bytes, headers: Sequence[tuple[bytes, bytes]] = ()) -> bytes:
    """One without a key."""
    body = b"\0" + number(0) + number(index) + number(-1) + number(len(value)) + value + number(len(headers))
    for name, content in headers:
        body += number(len(name)) + name + number(len(content)) + content
    return number(len(body)) + body


def batch(content: bytes, count: int, attributes: int = 0) -> bytes:
    """A batch of version 2 with a right checksum, whatever its content."""
    tail = struct.pack(">hiqqqhii", attributes, count - 1, 1, 1, -1, -1, -1, count) + content
    rest = struct.pack(">ibI", 0, 2, crc32c(tail)) + tail
    return struct.pack(">qi", 0, len(rest)) + rest


def produce(servers: str, topic: str, content: bytes) -> int:
    """Send a batch to partition 0; the broker's error code."""
    host, _, port = servers.partition(":")
    name = struct.pack(">h", len(topic)) + topic.encode()
    body = struct.pack(">hhii", -1, -1, 30_000, 1) + name + struct.pack(">iii", 1, 0, len(content)) + content
    request = struct.pack(">hhih", 0, 7, 1, 3) + b"raw" + body
    with socket.create_connection((host, int(port)), 10) as connection:
        connection.sendall(struct.pack(">i", len(request)) + request)
        with connection.makefile("rb") as answers:
            (length,) = struct.unpack(">i", answers.read(4))
            answer = answers.read(length)
    start = 4 + 4 + len(name) + 4 + 4
    return int(struct.unpack(">h", answer[start : start + 2])[0])
