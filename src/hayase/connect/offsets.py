"""Offsets of source connectors: records of the offsets topic in Kafka Connect's format.

The key is the JSON array `["connector",{source partition}]`, the value the JSON object of the source offset, or null
where it was forgotten. A header of ours names the transaction that the record is of.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import msgspec

from hayase.connect.contracts import SourcePartitionKey, source_partition_key
from hayase.connect.exceptions import ConnectError
from hayase.connect.generations import has_transactions
from hayase.connect.model import SourceOffset, SourcePartition
from hayase.core.decoding import decode_json
from hayase.core.errors import LogError
from hayase.core.records import Headers, TopicPartition
from hayase.log.protocol import OPEN_TRANSACTION_MAX_S, Log, OutputBatch

OFFSETS_SETTINGS = {"cleanup.policy": "compact"}
MARKER_HEADER = "hayase.marker"
_POLL_S = 0.01


@dataclass(frozen=True, slots=True)
class StoredOffset:
    """An offset as the topic has it.

    Attributes:
        key: of the record, byte by byte, so that a later record replaces it whatever order its fields are in.
        partition: of the source.
        offset: in it.
    """

    key: bytes
    partition: SourcePartition
    offset: SourceOffset


@dataclass(slots=True)
class ConnectorOffsets:
    """All offsets of one connector.

    Attributes:
        stored: by source partition.
        last_markers: the highest number of a transaction of each task among them.
    """

    stored: dict[SourcePartitionKey, StoredOffset] = field(default_factory=dict)
    last_markers: dict[int, int] = field(default_factory=dict)

    def offset(self, partition: SourcePartition) -> SourceOffset | None:
        """See `OffsetStorageReader.offset`."""
        found = self.stored.get(source_partition_key(partition))
        return None if found is None else found.offset

    def offsets(self) -> Mapping[SourcePartitionKey, SourceOffset]:
        """See `OffsetStorageReader.offsets`."""
        return {key: stored.offset for key, stored in self.stored.items()}


def ensure_topic(log: Log, name: str, partitions: int, config: Mapping[str, str], replicas: int | None = None) -> None:
    """Make a topic if it does not exist, whichever process does so first; arguments as those of `Log.create_topic`."""
    if log.describe([name]):
        return
    try:
        log.create_topic(name, partitions, config, replicas=replicas)
    except LogError as error:
        if error.condition != "TOPIC_EXISTS":
            raise


def offset_key(connector: str, partition: SourcePartition) -> bytes:
    """The key of an offset's record.

    Example:
        >>> offset_key("shop", {"server": "a"})
        b'["shop",{"server":"a"}]'
    """
    return msgspec.json.encode([connector, partition])


def offset_batch(
    topic: str,
    offsets: Iterable[tuple[bytes, SourceOffset | None]],
    task: int,
    number: int,
    now_ms: int,
) -> OutputBatch:
    """The records of a transaction's offsets.

    Args:
        topic: the offsets topic.
        offsets: keys of records with their offsets; `None`: forgotten.
        task: whose transaction.
        number: its marker's number.
        now_ms: the time that the records get.
    """
    pairs = list(offsets)
    header: Headers = ((MARKER_HEADER, f"{task}:{number}".encode()),)
    return OutputBatch(
        topic,
        [key for key, _ in pairs],
        [None if offset is None else msgspec.json.encode(offset) for _, offset in pairs],
        [now_ms] * len(pairs),
        headers=[header] * len(pairs),
    )


def load_offsets(
    log: Log,
    topic: str,
    connector: str,
    *,
    sleep: Callable[[float], None] = time.sleep,
    wait_s: float = OPEN_TRANSACTION_MAX_S,
) -> ConnectorOffsets:
    """All offsets of a connector that were committed before the call.

    Raises:
        LogError: `BROKER_UNAVAILABLE`: a transaction stays open for longer than a minute.
        ConnectError: `OFFSETS_DAMAGED`: a record of the topic is no offset.
    """
    offsets = ConnectorOffsets()
    for key, value, headers in read_whole_topic(log, topic, sleep=sleep, wait_s=wait_s):
        _take(offsets, connector, key, value, headers, topic)
    return offsets


def read_whole_topic(
    log: Log, topic: str, *, sleep: Callable[[float], None] = time.sleep, wait_s: float = OPEN_TRANSACTION_MAX_S
) -> Iterator[tuple[bytes | None, bytes | None, Headers]]:
    """Keys, values and headers of all records that were committed before the call; none if there is no such topic.

    The topic is shared with other connectors, and their transactions may be open: what stands behind such a one is
    waited for.

    Raises:
        LogError: `BROKER_UNAVAILABLE`: a transaction stays open for longer than a minute.
    """
    info = log.describe([topic]).get(topic)
    if info is None:
        return
    partitions = [TopicPartition(topic, number) for number in range(info.partitions)]
    ends = log.written_offsets(partitions)
    _wait_until_committed(log, ends, sleep, wait_s)
    starts = log.start_offsets(partitions)
    reader = log.reader()
    try:
        for partition, end in ends.items():
            for batch in reader.fetch(partition, starts[partition], end):
                for row, key in enumerate(batch.keys):
                    yield key, batch.values[row], batch.headers[row] if batch.headers is not None else ()
    finally:
        reader.close()


def _wait_until_committed(
    log: Log, ends: Mapping[TopicPartition, int], sleep: Callable[[float], None], wait_s: float
) -> None:
    open_partitions = list(ends)
    for _ in range(int(wait_s / _POLL_S) + 1):
        committed = log.end_offsets(open_partitions)
        open_partitions = [each for each in open_partitions if committed[each] < ends[each]]
        if not open_partitions:
            return
        sleep(_POLL_S)
    raise LogError(
        "BROKER_UNAVAILABLE",
        f"a transaction that wrote to the offsets topic is open for more than {wait_s:g} s; the brokers end one of a "
        "process that died after its transaction.timeout.ms. Trying again is safe",
        topic=open_partitions[0].topic,
        partition=open_partitions[0].partition,
    )


def _take(
    offsets: ConnectorOffsets, connector: str, key: bytes | None, value: bytes | None, headers: Headers, topic: str
) -> None:
    try:
        name, partition = decode_json(key or b"null", as_type=tuple[str, dict[str, object]])
        if name != connector:
            return
        offset = None if value is None else decode_json(value, as_type=dict[str, object] | None)
    except msgspec.MsgspecError as error:
        raise ConnectError(
            "OFFSETS_DAMAGED",
            f"a record of the offsets topic is no offset of a source connector ({error}): its key is {key!r}. "
            "Something else writes to that topic; give the worker another offset.storage.topic",
            topic=topic,
        ) from error
    where = source_partition_key(partition)
    if offset is None:
        offsets.stored.pop(where, None)
    else:
        offsets.stored[where] = StoredOffset(key or b"", partition, offset)
    for header, text in headers:
        if header == MARKER_HEADER and text is not None:
            task, _, number = text.decode().partition(":")
            offsets.last_markers[int(task)] = max(offsets.last_markers.get(int(task), 0), int(number))


def check_complete(offsets: ConnectorOffsets, markers: Mapping[int, int], connector: str) -> None:
    """Whether the offsets topic has everything that tasks published, by the numbers of their last transactions.

    Args:
        offsets: as they were loaded, after the tasks were fenced.
        markers: the last marker of each task before it was fenced.
        connector: whose.

    Raises:
        ConnectError: `OFFSETS_BEHIND`: going on would publish records twice.
    """
    for task, number in markers.items():
        found = offsets.last_markers.get(task, 0)
        if has_transactions(number) and found < number:
            raise ConnectError(
                "OFFSETS_BEHIND",
                f"the newest offset of task {task} is of transaction {found}, but its transaction {number} is in the "
                "log: the offsets topic is an older copy, or records were deleted from it. Restore it, or set the "
                "offsets of the connector yourself (PATCH /connectors/…/offsets)",
                connector=connector,
                task=task,
            )
