"""Retention: what is too old, or too much, is removed from the start of a partition.

As in Kafka (topic settings `retention.ms` and `retention.bytes`) whole segments are removed, here stored batches and
remote parts: one goes when its newest record is older than `retention.ms`, or when the rest still has
`retention.bytes`. The first that stays ends it. Remote parts count.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, pairwise

from hayase.core.failpoints import reach
from hayase.log.embedded.blob import read_header
from hayase.log.embedded.partition import ChangedMeanwhileError, CleanedPartition
from hayase.log.embedded.remote_part import RemotePart
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

    def add_part(self, part: RemotePart) -> None:
        """The part goes as well."""
        self.parts.append(part)
        self.start = part.end
        self.records += part.records

    def add_blob(self, base: int, end: int, size: int, records: int) -> None:
        """The blob goes as well."""
        self.bases.append(base)
        self.sizes.append(size)
        self.start = end
        self.records += records


def remove_expired(partition: CleanedPartition, now_ms: int) -> Expired | None:
    """Remove some of what retention does not keep, in one transaction; `None` if all of it is removed."""
    return _remove(partition, lambda tables: _find(partition, tables, now_ms))


def remove_before(partition: CleanedPartition, offset: int) -> Expired | None:
    """Remove some of what is stored before an offset, in one transaction; `None` if all of it is removed.

    A stored batch or remote part that goes beyond the offset stays whole. Batches may be damaged: where one ends says
    the next one.
    """
    return _remove(partition, lambda tables: _before(partition, tables, offset))


def _remove(partition: CleanedPartition, find: Callable[[Tables], Expired]) -> Expired | None:
    while True:
        with partition.store.read(buffers=True) as tables:
            if not partition.begin(tables):
                return None
            expired = find(tables)
            start = tables.partition_state(partition.key).start
        if not expired.parts and not expired.bases and expired.start <= start:
            return None
        reach("before_retention")
        try:
            partition.change(partial(_take_away, partition, expired=expired))
        except ChangedMeanwhileError:
            continue  # another cleaner, or who deletes records, was first
        reach("after_retention")
        return expired


def _take_away(partition: CleanedPartition, tables: Tables, expired: Expired) -> None:
    key, cleaned = partition.key, tables.cleaned(partition.key)
    for part in expired.parts:
        tables.drop_remote(key, part)
    tables.replace_blobs(key, expired.bases, sum(expired.sizes))
    clean = sum(size for base, size in zip(expired.bases, expired.sizes, strict=True) if base < cleaned.end)
    if clean:
        tables.put_cleaned(key, replace(cleaned, bytes=cleaned.bytes - clean))
    tables.move_start(key, expired.start)
    reach("inside_retention")


def _find(partition: CleanedPartition, tables: Tables, now_ms: int) -> Expired:
    settings, expired, where = partition.settings, Expired(), partition.location
    left = tables.partition_state(partition.key).bytes
    left += sum(part.bytes for part in tables.remote_parts(partition.key))

    def goes(max_timestamp_ms: int, size: int) -> bool:
        nonlocal left
        too_old = settings.retention_ms is not None and now_ms - max_timestamp_ms > settings.retention_ms
        too_much = settings.retention_bytes is not None and left - size >= settings.retention_bytes
        left -= size
        return too_old or too_much

    for part in tables.remote_parts(partition.key):
        if not goes(part.max_timestamp_ms, part.bytes):
            return expired
        expired.add_part(part)
    for base, data in tables.blobs(partition.key, 0):
        header = read_header(data, where, base)
        if len(expired.bases) == _AT_A_TIME or not goes(header.max_timestamp_ms, len(data)):
            break
        expired.add_blob(base, base + header.span, len(data), header.records)
    return expired


def _before(partition: CleanedPartition, tables: Tables, offset: int) -> Expired:
    expired = Expired()
    for part in tables.remote_parts(partition.key):
        if part.end > offset:
            return expired
        expired.add_part(part)
    end = tables.partition_state(partition.key).end
    blobs = ((base, len(data)) for base, data in tables.blobs(partition.key, 0))
    for (base, size), (next_base, _) in pairwise(chain(blobs, [(end, 0), (end, 0)])):
        if base > offset:
            break
        expired.start = base  # what is missing before it, because a page is damaged, is given up as well
        if len(expired.bases) == _AT_A_TIME or next_base > offset or base == end:
            break
        expired.add_blob(base, next_base, size, 0)
    return expired
