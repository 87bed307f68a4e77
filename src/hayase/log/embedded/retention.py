"""Retention: what is too old, or too much, is removed from the start of a partition.

As in Kafka (topic settings `retention.ms` and `retention.bytes`) whole segments are removed, here stored batches and
remote parts: one goes when its newest record is older than `retention.ms`, or when the rest still has `retention.bytes`.
The first that stays ends it. Remote parts count.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from hayase.core.failpoints import reach
from hayase.log.embedded.blob import read_header
from hayase.log.embedded.partition import CleanedPartition
from hayase.log.embedded.remote_files import RemotePart
from hayase.log.embedded.tables import Tables

_AT_A_TIME = 1_000


@dataclass(slots=True)
class Expired:
    """What is to be removed from the start of a partition."""

    start: int = 0
    parts: list[RemotePart] = field(default_factory=list)
    bases: list[int] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    records: int = 0

    @property
    def bytes(self) -> int:
        """What that frees, locally and remotely."""
        return sum(self.sizes) + sum(part.bytes for part in self.parts)


def remove_expired(partition: CleanedPartition, now_ms: int) -> Expired | None:
    """Remove some of what retention does not keep, in one transaction; `None` if all of it is removed."""
    return _remove(partition, lambda tables: _find(partition, tables, now_ms))


def remove_before(partition: CleanedPartition, offset: int) -> Expired | None:
    """Remove some of what is stored before an offset, in one transaction; `None` if all of it is removed.

    A stored batch or remote part that goes beyond the offset stays whole.
    """
    return _remove(partition, lambda tables: _before(partition, tables, offset))


def _remove(partition: CleanedPartition, find: Callable[[Tables], Expired]) -> Expired | None:
    with partition.store.read(buffers=True) as tables:
        if not partition.is_there(tables):
            return None
        expired = find(tables)
    if not expired.parts and not expired.bases:
        return None

    def remove(tables: Tables) -> bool:
        if not partition.is_there(tables):
            return False
        key, cleaned = partition.key, tables.cleaned(partition.key)
        for part in expired.parts:
            tables.drop_remote(key, part)
        tables.replace_blobs(key, expired.bases, sum(expired.sizes))
        clean = sum(size for base, size in zip(expired.bases, expired.sizes, strict=True) if base < cleaned.end)
        if clean:
            tables.put_cleaned(key, replace(cleaned, bytes=cleaned.bytes - clean))
        tables.move_start(key, expired.start)
        reach("inside_retention")
        return True

    reach("before_retention")
    removed = partition.store.write(remove)
    reach("after_retention")
    return expired if removed else None


def _find(partition: CleanedPartition, tables: Tables, now_ms: int) -> Expired:
    settings = partition.settings
    left = tables.partition_state(partition.key).bytes
    left += sum(part.bytes for part in tables.remote_parts(partition.key))

    def goes(max_timestamp_ms: int, size: int, _: int) -> bool:
        nonlocal left
        too_old = settings.retention_ms is not None and now_ms - max_timestamp_ms > settings.retention_ms
        too_much = settings.retention_bytes is not None and left - size >= settings.retention_bytes
        left -= size
        return too_old or too_much

    return _from_start(partition, tables, goes)


def _before(partition: CleanedPartition, tables: Tables, offset: int) -> Expired:
    return _from_start(partition, tables, lambda _, __, end: end <= offset)


def _from_start(partition: CleanedPartition, tables: Tables, goes: Callable[[int, int, int], bool]) -> Expired:
    """Remote parts and batches up to the first that stays; `goes` gets largest timestamp, size and end offset of each."""
    expired = Expired()
    for part in tables.remote_parts(partition.key):
        if not goes(part.max_timestamp_ms, part.bytes, part.end):
            return expired
        expired.parts.append(part)
        expired.start = part.end
        expired.records += part.records
    for base, data in tables.blobs(partition.key, 0):
        header = read_header(data)
        if len(expired.bases) == _AT_A_TIME or not goes(header.max_timestamp_ms, len(data), base + header.span):
            break
        expired.bases.append(base)
        expired.sizes.append(len(data))
        expired.start = base + header.span
        expired.records += header.records
    return expired
