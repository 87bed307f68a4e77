"""Tiers: segments older than `local.retention.*` move from the log's folder to a Parquet file (KIP-405).

A segment is a run of stored batches from the start of what is local: as many as fit into `segment.bytes`. It moves when
all of it is older than `local.retention.ms`, or when `local.retention.bytes` stay without it; one that is not full
moves only when its first batch is older than `segment.ms`, so that a slow topic does not become a heap of small files.

The steps: the file's name is noted as garbage; the file is written and looked at; one transaction takes the name out of
the garbage, says where the records are and removes the local ones. A crash before that leaves garbage, which the next
cleaner removes; readers see the records in the one place or in the other.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial

from hayase.core.failpoints import reach
from hayase.log.embedded import blob
from hayase.log.embedded.blob import Rows, joined, read_header
from hayase.log.embedded.partition import ChangedMeanwhileError, CleanedPartition, StoredBlob
from hayase.log.embedded.remote_files import delete_file, write_part
from hayase.log.embedded.remote_part import RemotePart
from hayase.log.embedded.store import LogStore
from hayase.log.embedded.tables import Tables


@dataclass(slots=True)
class _Segment:
    bases: list[int] = field(default_factory=list)
    end: int = 0
    bytes: int = 0
    records: int = 0
    max_timestamp_ms: int = 0
    first_timestamp_ms: int = 0


def move_segment(partition: CleanedPartition, now_ms: int, new_id: Callable[[], uuid.UUID]) -> RemotePart | None:
    """Move the next segment to remote storage; `None` if there is none to move.

    Args:
        partition: of a topic with `remote.storage.enable`.
        now_ms: what ages are measured from.
        new_id: makes names of files unique.

    Raises:
        LogError: `REMOTE_STORAGE_FAILED`: nothing was moved.
    """
    with partition.store.read(buffers=True) as tables:
        if not partition.begin(tables):
            return None
        segment = _next_segment(partition, tables, now_ms)
    if segment is None:
        return None
    base = segment.bases[0]
    folder = f"{partition.settings.remote_url}/{partition.topic.name}-{partition.topic.topic_id}/{partition.number}"
    url = f"{folder}/{base:020d}-{new_id().hex}.parquet"
    partition.store.write(lambda tables: tables.put_garbage(url))
    reach("before_part")
    try:
        written = write_part(url, _row_groups(partition.blobs(base, segment.end)), sync=partition.store.settings.fsync)
        reach("after_part")
        part = RemotePart(
            base,
            segment.end,
            url,
            written.bytes,
            segment.records,
            segment.max_timestamp_ms,
            written.footer,
            written.groups,
        )
        partition.change(lambda tables: _move(partition, tables, segment, part))
    except ChangedMeanwhileError:
        # Another cleaner may have removed the file, and its name from the garbage, while it was written.
        partition.store.write(lambda tables: tables.put_garbage(url))
        return None
    reach("after_move")
    return part


def _move(partition: CleanedPartition, tables: Tables, segment: _Segment, part: RemotePart) -> None:
    if not tables.take_from_garbage(part.url):
        raise ChangedMeanwhileError.of(partition.topic.name, partition.number)
    tables.put_remote(partition.key, part)
    tables.replace_blobs(partition.key, segment.bases, segment.bytes)
    reach("inside_move")


def remove_garbage(store: LogStore) -> int:
    """Remove the files that nothing needs; how many there were.

    To be called with the cleaner's lock only, so that a file that is being written stays. Where two clean all the same,
    because the first hung, a file whose removal has begun is no longer moved to.

    Raises:
        LogError: `REMOTE_STORAGE_FAILED`: one could not be removed; it stays noted.
    """
    with store.read() as tables:
        urls = tables.garbage()
    for url in urls:
        if store.write(partial(Tables.remove_from_now_on, url=url)):
            delete_file(url)
            reach("after_delete_file")
            store.write(partial(Tables.delete_garbage, url=url))
    return len(urls)


def _next_segment(partition: CleanedPartition, tables: Tables, now_ms: int) -> _Segment | None:
    settings, segment, full = partition.settings, _Segment(), False
    local = tables.partition_state(partition.key).bytes
    for base, data in tables.blobs(partition.key, 0):
        header, size = read_header(data, partition.location, base), len(data)
        old = settings.local_retention_ms is not None and (
            now_ms - header.max_timestamp_ms > settings.local_retention_ms
        )
        left = local - segment.bytes - size
        if not old and (settings.local_retention_bytes is None or left < settings.local_retention_bytes):
            break
        if segment.bases and segment.bytes + size > settings.segment_bytes:
            full = True
            break
        if not segment.bases:
            segment.first_timestamp_ms = header.max_timestamp_ms
        segment.bases.append(base)
        segment.end = base + header.span
        segment.bytes += size
        segment.records += header.records
        segment.max_timestamp_ms = max(segment.max_timestamp_ms, header.max_timestamp_ms)
    full = full or segment.bytes >= settings.segment_bytes
    if not segment.bases or not (full or now_ms - segment.first_timestamp_ms >= settings.segment_ms):
        return None
    return segment


def _row_groups(blobs: Iterator[StoredBlob]) -> Iterator[Rows]:
    """Rows of several small blobs together, so that a row group is as large as a large one."""
    group: list[Rows] = []
    records = size = 0
    for stored in blobs:
        count, payload = stored.header.records, stored.header.payload_bytes
        if group and (records + count > blob.MAX_RECORDS or size + payload > blob.MAX_BYTES):
            yield joined(group)
            group, records, size = [], 0, 0
        group.append(stored.rows)
        records, size = records + count, size + payload
    if group:
        yield joined(group)
