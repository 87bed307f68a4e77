"""Small blobs that carry a checksum of what they say."""

from __future__ import annotations

import hashlib

_DIGEST_BYTES = 16
_TRAILER_BYTES = 1 + 2 * _DIGEST_BYTES


def with_checksum(body: bytes) -> bytes:
    """The blob of a body: the body and, on a line of its own, its digest."""
    return body + b"\n" + _digest(body)


def without_checksum(blob: bytes) -> bytes | None:
    """The body of a blob; `None` if it is damaged."""
    body, trailer = blob[:-_TRAILER_BYTES], blob[-_TRAILER_BYTES:]
    return body if trailer == b"\n" + _digest(body) else None


def _digest(body: bytes) -> bytes:
    return hashlib.blake2b(body, digest_size=_DIGEST_BYTES).hexdigest().encode()
