"""What a task sends out during an epoch: records for topics, rows for tasks of higher levels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from hayase.core.records import Headers, headers_bytes
from hayase.log.protocol import Int32Array, OutgoingBatch, OutputBatch, StoredBatch
from hayase.serde.murmur2 import partitions_for_keys
from hayase.state.delta.delta import Piece, decode_piece, encode_piece
from hayase.state.delta.journal import EdgeRow, Journal
from hayase.state.environment.spill import EpochSpace

BY_KEY = -1
"""In place of a partition: the key decides. Less by n: the key without its last n bytes, which are its window."""
_RECORD_BYTES = 150
"""What a record costs beside the bytes of its key and value, and its headers."""
_PIECE_BYTES_MAX = 16 << 20


class TopicOutput:
    """Records for one topic in the order they were sent."""

    __slots__ = ("_count", "any_headers", "first", "headers", "keys", "partitions", "timestamps_ms", "topic", "values")

    def __init__(self, topic: str, first: int = 0) -> None:
        self.topic = topic
        self.first = first
        self.keys: list[bytes | None] = []
        self.values: list[bytes | None] = []
        self.timestamps_ms: list[int] = []
        self.headers: list[Headers] = []
        self.any_headers = False
        self.partitions: list[int] = []
        """Where not all of the key decides: of each record so far, see `choose`; may be shorter than the others."""
        self._count = 0

    def add(self, key: bytes | None, value: bytes | None, timestamp_ms: int, headers: Headers) -> None:
        """One record, to the partition of its key."""
        self.keys.append(key)
        self.values.append(value)
        self.timestamps_ms.append(timestamp_ms)
        self.headers.append(headers)
        if headers:
            self.any_headers = True

    def extend(
        self,
        keys: Sequence[bytes | None],
        values: Sequence[bytes | None],
        timestamps_ms: Sequence[int],
        headers: Sequence[Headers] | None,
    ) -> None:
        """Many records."""
        self.keys.extend(keys)
        self.values.extend(values)
        self.timestamps_ms.extend(timestamps_ms)
        if headers is None:
            self.headers.extend([()] * len(keys))
        else:
            self.headers.extend(headers)
            self.any_headers = True

    def choose(self, partitions: Sequence[int], count: int) -> None:
        """Say where the last records go.

        Args:
            partitions: of as many of the last records; `BY_KEY`, or less, where the key decides.
            count: how many partitions the topic has.
        """
        self._count = count
        self.partitions.extend([BY_KEY] * (len(self.keys) - len(partitions) - len(self.partitions)))
        self.partitions.extend(partitions)

    def batch(self) -> OutputBatch:
        """What the log writes."""
        headers = self.headers if self.any_headers else None
        partitions = self._chosen() if self.partitions else None
        return OutputBatch(self.topic, self.keys, self.values, self.timestamps_ms, partitions, headers, self.first)

    def size_bytes(self) -> int:
        """About how much memory it takes."""
        sizes = sum(map(len, filter(None, self.keys))) + sum(map(len, filter(None, self.values)))
        if self.any_headers:
            sizes += sum(map(headers_bytes, filter(None, self.headers)))
        return sizes + len(self.keys) * _RECORD_BYTES

    def batches(self, max_bytes: int) -> Iterator[OutputBatch]:
        """The records in batches of about so many bytes."""
        whole = self.batch()
        step = max(1, len(whole) * max_bytes // max(1, self.size_bytes()))
        for start in range(0, len(whole), step):
            part = slice(start, start + step)
            yield OutputBatch(
                self.topic,
                whole.keys[part],
                whole.values[part],
                whole.timestamps_ms[part],
                None if whole.partitions is None else whole.partitions[part],
                None if whole.headers is None else whole.headers[part],
                whole.first + start,
            )

    def _chosen(self) -> Int32Array:
        chosen = np.full(len(self.keys), BY_KEY, np.int32)
        chosen[: len(self.partitions)] = self.partitions
        by_key = partitions_for_keys(self._deciding(chosen), self._count)
        if self.first % self._count:
            without_key = np.array([row for row, key in enumerate(self.keys) if key is None], np.int64)
            by_key[without_key] = (without_key + self.first) % self._count
        return np.where(chosen < 0, by_key, chosen)

    def _deciding(self, chosen: Int32Array) -> list[bytes | None]:
        """Of each key what decides on the partition."""
        if not (chosen < BY_KEY).any():
            return self.keys
        lengths = np.maximum(BY_KEY - chosen, 0).tolist()
        return [key[: len(key) - cut] if key is not None else None for key, cut in zip(self.keys, lengths, strict=True)]


@dataclass(frozen=True, slots=True)
class _OnDisk:
    """A piece in the epoch's file; `piece` has everything but the data, which `read` gives."""

    piece: Piece
    read: Callable[[], bytes]

    def load(self) -> Journal:
        return decode_piece(self.read()).journal

    def load_batch(self) -> OutputBatch:
        return self.load().outputs[0]


class Outputs:
    """Everything that the tasks of one bundle send out in one epoch.

    Args:
        space: where what has become too much goes; without one it all stays in memory.

    Attributes:
        rows: for tasks of higher levels, those in memory.
        reached: topics and repartitions in the order in which they were first sent to.
    """

    def __init__(self, space: EpochSpace | None = None) -> None:
        self._topics: dict[str, TopicOutput] = {}
        self._space = space
        self._on_disk: list[_OnDisk] = []
        self._edges: Counter[tuple[str, ...]] = Counter()
        self.rows: list[EdgeRow] = []
        self.reached: dict[str, None] = {}

    def topic(self, name: str) -> TopicOutput:
        """The records of a topic; made when first used."""
        output = self._topics.get(name)
        if output is None:
            output = self._topics[name] = TopicOutput(name)
            self.reached.setdefault(name)
        return output

    def take_numbers(self, count: int, *edge: str) -> int:
        """The first of so many consecutive numbers, counted from 0 by edge (and whatever else is given) and epoch."""
        first = self._edges[edge]
        self._edges[edge] += count
        return first

    def batches(self) -> list[OutputBatch]:
        """The records in memory of all topics that got any, in the order of first use."""
        return [output.batch() for output in self._topics.values() if output.keys]

    def outgoing(self) -> list[OutgoingBatch]:
        """All records, of each topic in order; those on disk can be loaded as long as the space is open."""
        stored = [
            StoredBatch(each.piece.topic, each.piece.count, each.load_batch)
            for each in self._on_disk
            if each.piece.kind == "outputs"
        ]
        return [*stored, *self.batches()]

    def all_rows(self) -> Iterator[EdgeRow]:
        """All rows, in order."""
        for each in self._on_disk:
            if each.piece.kind == "rows":
                yield from each.load().rows
        yield from self.rows

    @property
    def spilled(self) -> bool:
        """Whether anything is on disk."""
        return bool(self._on_disk)

    def spill(self, above_bytes: int = 0) -> None:
        """Move everything to disk if it takes more than so many bytes of memory; raises StateError `DISK_FULL`."""
        space = self._space
        size = sum(each.size_bytes() for each in self._topics.values()) + sum(row.size_bytes for row in self.rows)
        if space is None or size <= above_bytes:
            return
        for piece in self._pieces_in_memory(min(space.share, _PIECE_BYTES_MAX)):
            self._on_disk.append(
                _OnDisk(replace(piece, data=b""), partial(space.file.read, space.file.append(piece.data)))
            )
        self._topics = {
            name: TopicOutput(name, output.first + len(output.keys)) for name, output in self._topics.items()
        }
        self.rows = []

    def pieces(self) -> Iterator[Piece]:
        """Everything, as parts of a delta, after a `spill`."""
        for each in self._on_disk:
            yield replace(each.piece, data=each.read())

    def _pieces_in_memory(self, max_bytes: int) -> Iterator[Piece]:
        for output in self._topics.values():
            for batch in output.batches(max_bytes):
                yield Piece("outputs", encode_piece(journal=Journal([batch])), batch.topic, len(batch))
        rows: list[EdgeRow] = []
        size = 0
        for row in self.rows:
            rows.append(row)
            size += row.size_bytes
            if size >= max_bytes:
                yield Piece("rows", encode_piece(journal=Journal(rows=rows)))
                rows, size = [], 0
        if rows:
            yield Piece("rows", encode_piece(journal=Journal(rows=rows)))


def stable_groups(targets: np.ndarray, count: int) -> list[np.ndarray]:
    """Row numbers per target 0 … count-1, each ascending."""
    order = np.argsort(targets, kind="stable")
    bounds = np.searchsorted(targets[order], np.arange(count + 1))
    return [order[bounds[i] : bounds[i + 1]] for i in range(count)]
