"""Dead letters: records that cannot be answered, kept so that their topic takes them whatever they are."""

from __future__ import annotations

from hayase.core.records import Headers, Record

_MAX_BYTES = 900_000
"""Kafka's topics take about a million; a letter has headers beside those of its record."""
_TRUNCATED = "__streams.errors.truncated"


def fitting(record: Record[bytes | None, bytes | None]) -> tuple[bytes, bytes, Headers]:
    """Key, value and headers of a record as a letter has them.

    Of one that is so large that the topic of the letters could refuse it, the beginning; the header
    `__streams.errors.truncated` says how many bytes it had. Its place, which the letter names, has all of it.
    """
    key, value = record.key or b"", record.value or b""
    size = len(key) + len(value) + sum(_size(header) for header in record.headers)
    if size <= _MAX_BYTES:
        return key, value, record.headers
    left, headers = _MAX_BYTES // 3, []
    for header in record.headers:
        if _size(header) <= left:
            headers.append(header)
            left -= _size(header)
    return key[: _MAX_BYTES // 3], value[: _MAX_BYTES // 3], (*headers, (_TRUNCATED, str(size).encode()))


def _size(header: tuple[str, bytes | None]) -> int:
    return len(header[0].encode()) + len(header[1] or b"")
