"""The delta of a bundle's epoch: what it changed and what it sends, in one blob that is published once."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import Any, Literal

import msgspec
import numpy as np
import pyarrow as pa

from hayase.core.errors import StateError
from hayase.core.records import Headers
from hayase.log.protocol import OutgoingBatch, OutputBatch, StoredBatch
from hayase.state.delta.changes import ByteRange, ColumnChanges, StateChanges, StoreChanges, StoreKey
from hayase.state.delta.journal import EdgeRow, Journal

_MAGIC = b"HAYASE-DELTA-1\n"
_LENGTH_BYTES = 4
DIGEST_BYTES = 16
"""Length of the checksum at the end of a delta."""
_IPC = pa.ipc.IpcWriteOptions(compression="lz4")
_IPC_OF_ONE_THREAD = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)  # type: ignore[call-arg] # stubs
_THREADS_FROM_BYTES = 1 << 20
"""Columns that are smaller are compressed sooner than threads are woken for them."""


class _Output(msgspec.Struct, array_like=True):
    """An output batch without its records."""

    topic: str
    length: int
    partitions: bytes | None
    headers: msgspec.Raw
    """Still encoded: a reader of the changes alone does not pay for the headers of all records."""
    first: int = 0


class Part(msgspec.Struct, frozen=True, array_like=True):
    """A piece of a large delta: a blob of its own, published before the delta, and itself written like a delta.

    Attributes:
        kind: `changes` of one store, `outputs` for one topic, or `rows`.
        name: of the blob.
        length: in bytes.
        digest: of its content.
        topic: of outputs.
        count: of records.
    """

    kind: Literal["changes", "outputs", "rows"]
    name: str
    length: int
    digest: str
    topic: str = ""
    count: int = 0


class _Store(msgspec.Struct, array_like=True):
    """A store's changes without its keys and values."""

    task: str
    name: str
    ranges: list[ByteRange]
    length: int


class _Header(msgspec.Struct, array_like=True):
    application_id: str
    checkpoint_id: str
    bundle: str
    epoch: int
    record_digest: str
    prev_epoch: int
    prev_digest: str
    stores: list[_Store]
    outputs: list[_Output]
    rows: list[tuple[str, str, str, int, int]]
    summary: bytes
    section_bytes: list[int]
    parts: list[Part] = []


_decode_header = msgspec.msgpack.Decoder(_Header).decode


_decode_headers = msgspec.msgpack.Decoder(list[Headers] | None).decode


def _encode_headers(headers: list[Headers] | None) -> msgspec.Raw:
    return msgspec.Raw(msgspec.msgpack.encode(headers))


def _unread(part: Part) -> Delta:
    raise ValueError(f"a part of {part.length} bytes can be read only of a delta that a changelog has read")


@dataclass(slots=True)
class Delta:
    """What one epoch did to a bundle. Not to be changed once `to_bytes` or `digest` was called.

    Attributes:
        application_id: whose.
        checkpoint_id: of which checkpoint.
        bundle: which bundle.
        epoch: which epoch.
        record_digest: the digest of the epoch's record: range, clock and plan it was made from.
        prev_epoch: the epoch of the bundle's delta before; -1 if there is none.
        prev_digest: the digest of that delta; empty if there is none.
        changes: to the stores.
        journal: what is sent.
        parts: of a delta too large for memory: what comes behind `changes` and `journal`, in order. `pieces`, `outputs`
            and `rows` give all of it.
        load: reads a part; the changelog sets it.
    """

    application_id: str
    checkpoint_id: str
    bundle: str
    epoch: int
    record_digest: str
    prev_epoch: int
    prev_digest: str
    changes: StateChanges = field(default_factory=StateChanges)
    journal: Journal = field(default_factory=Journal)
    parts: list[Part] = field(default_factory=list)
    load: Callable[[Part], Delta] = field(default=_unread, repr=False, compare=False)
    _bytes: bytes | None = field(default=None, repr=False, compare=False)
    _undecoded: tuple[list[_Store], memoryview] | None = field(default=None, repr=False, compare=False)
    _columns: dict[StoreKey, ColumnChanges] | None = field(default=None, repr=False, compare=False)

    @property
    def digest(self) -> str:
        """BLAKE2b of the content, in hexadecimal; what the next delta names as its `prev_digest`."""
        return self.to_bytes()[-DIGEST_BYTES:].hex()

    def to_bytes(self) -> bytes:
        """The blob; made once and kept."""
        if self._bytes is None:
            self._bytes = self._encode()
        return self._bytes

    @property
    def size_bytes(self) -> int:
        """Of the blob and all parts."""
        return len(self.to_bytes()) + sum(part.length for part in self.parts)

    def pieces(self) -> Iterator[StateChanges]:
        """All changes, to be applied one after the other.

        Raises:
            StateError: `DELTA_CORRUPT`.
        """
        yield self.changes
        for part in self.parts:
            if part.kind == "changes":
                yield self.load(part).changes

    def columns(self) -> dict[StoreKey, ColumnChanges]:
        """The changes in Arrow, without those of parts; made once and kept."""
        if self._columns is None:
            self._columns = (
                _column_changes(*self._undecoded)
                if self._undecoded is not None
                else {
                    key: ColumnChanges(changes.ranges, _binary([changes.keys]), _binary([changes.values]))
                    for key, changes in self.changes.stores.items()
                }
            )
        return self._columns

    def outputs(self) -> list[OutgoingBatch]:
        """All records for topics, in order; those of parts are read when they are needed."""
        stored = [
            StoredBatch(part.topic, part.count, partial(self._output, part))
            for part in self.parts
            if part.kind == "outputs"
        ]
        return [*self.journal.outputs, *stored]

    def rows(self) -> Iterator[EdgeRow]:
        """All rows for the next level, in order; raises StateError `DELTA_CORRUPT`."""
        yield from self.journal.rows
        for part in self.parts:
            if part.kind == "rows":
                yield from self.load(part).journal.rows

    def _output(self, part: Part) -> OutputBatch:
        return self.load(part).journal.outputs[0]

    @classmethod
    def from_bytes(
        cls,
        data: bytes,
        *,
        bundle: str | None = None,
        epoch: int | None = None,
        journal: bool = True,
        changes: bool = True,
    ) -> Delta:
        """The delta of a blob.

        Args:
            data: what `to_bytes` made.
            bundle: whose it should be, for the error.
            epoch: of which it should be, for the error.
            journal: whether its journal is wanted; without it what is sent is neither read nor decoded.
            changes: whether `changes` is wanted; without it, it is empty, and only `columns` has them.

        Raises:
            StateError: `DELTA_CORRUPT`: the checksum is wrong, or it cannot be read.
        """
        view = memoryview(data)
        content = view[:-DIGEST_BYTES]
        if bytes(view[: len(_MAGIC)]) != _MAGIC or _digest([content]) != view[-DIGEST_BYTES:]:
            raise delta_corrupt(bundle, epoch, f"{len(data)} bytes, wrong checksum")
        return _decode(cls, data, content, journal, changes)

    def _encode(self) -> bytes:
        stores = list(self.changes.stores.items())
        outputs = self.journal.outputs
        sections: list[bytes | memoryview] = [
            _ipc(
                key=_binary([changes.keys for _, changes in stores]),
                value=_binary([changes.values for _, changes in stores]),
            ),
            _ipc(
                key=_binary([batch.keys for batch in outputs]),
                value=_binary([batch.values for batch in outputs]),
                timestamp=pa.array(np.fromiter(chain.from_iterable(b.timestamps_ms for b in outputs), np.int64)),
            ),
            *(row.payload for row in self.journal.rows),
        ]
        header = _Header(
            self.application_id,
            self.checkpoint_id,
            self.bundle,
            self.epoch,
            self.record_digest,
            self.prev_epoch,
            self.prev_digest,
            [_Store(task, name, changes.ranges, len(changes.keys)) for (task, name), changes in stores],
            [
                _Output(b.topic, len(b), _int32_bytes(b.partitions), _encode_headers(b.headers), b.first)
                for b in outputs
            ],
            [(row.task, row.edge, row.origin, row.seq, len(row.payload)) for row in self.journal.rows],
            self.journal.summary,
            [len(section) for section in sections[:2]],
            self.parts,
        )
        head = msgspec.msgpack.encode(header)
        parts: list[bytes | memoryview] = [_MAGIC, len(head).to_bytes(_LENGTH_BYTES, "big"), head, *sections]
        return b"".join([*parts, _digest(parts)])


def delta_corrupt(bundle: str | None, epoch: int | None, why: str, blob: str | None = None) -> StateError:
    """`DELTA_CORRUPT`, saying what to do."""
    if blob is None and bundle is not None and epoch is not None:
        blob = f"changelog/{bundle}/{epoch:020d}"
    where = f", {blob}," if blob else ""
    return StateError(
        "DELTA_CORRUPT",
        f"The delta of epoch {epoch} of bundle {bundle}{where} is damaged ({why}). Restore that blob of the "
        "checkpoint from a copy; `hayase app reset` starts over without it.",
        bundle=bundle,
        epoch=epoch,
    )


@dataclass(frozen=True, slots=True)
class Piece:
    """A part that is not published yet; see Part.

    Attributes:
        data: the blob.
    """

    kind: Literal["changes", "outputs", "rows"]
    data: bytes
    topic: str = ""
    count: int = 0


def encode_piece(changes: StateChanges | None = None, journal: Journal | None = None) -> bytes:
    """The blob of a part."""
    return Delta("", "", "", 0, "", 0, "", changes or StateChanges(), journal or Journal()).to_bytes()


def decode_piece(data: bytes) -> Delta:
    """What `encode_piece` made; raises StateError `DELTA_CORRUPT`."""
    return Delta.from_bytes(data)


def _decode(cls: type[Delta], data: bytes, content: memoryview, journal: bool, changes: bool) -> Delta:
    start = len(_MAGIC) + _LENGTH_BYTES
    end = start + int.from_bytes(content[len(_MAGIC) : start], "big")
    header = _decode_header(content[start:end])
    changes_end = end + header.section_bytes[0]
    outputs_end = changes_end + header.section_bytes[1]
    return cls(
        header.application_id,
        header.checkpoint_id,
        header.bundle,
        header.epoch,
        header.record_digest,
        header.prev_epoch,
        header.prev_digest,
        _decode_changes(header.stores, content[end:changes_end]) if changes else StateChanges(),
        Journal(
            _decode_outputs(header.outputs, content[changes_end:outputs_end]),
            _decode_rows(header.rows, content[outputs_end:]),
            header.summary,
        )
        if journal
        else Journal(),
        header.parts,
        _bytes=data,
        _undecoded=None if changes else (header.stores, content[end:changes_end]),
    )


def _decode_changes(stores: list[_Store], section: memoryview) -> StateChanges:
    keys, values = _columns(section, ("key", "value"))
    changes = StateChanges()
    start = 0
    for store in stores:
        end = start + store.length
        changes.stores[store.task, store.name] = StoreChanges(store.ranges, keys[start:end], values[start:end])
        start = end
    return changes


def _column_changes(stores: list[_Store], section: memoryview) -> dict[StoreKey, ColumnChanges]:
    changes: dict[StoreKey, ColumnChanges] = {}
    keys, values = _arrays(section, ("key", "value")) if section else [pa.array([], pa.large_binary())] * 2
    start = 0
    for store in stores:
        columns = ColumnChanges(store.ranges, keys.slice(start, store.length), values.slice(start, store.length))
        changes[store.task, store.name] = columns
        start += store.length
    return changes


def _decode_outputs(outputs: list[_Output], section: memoryview) -> list[OutputBatch]:
    keys, values, timestamps_ms = _columns(section, ("key", "value", "timestamp"))
    batches: list[OutputBatch] = []
    start = 0
    for output in outputs:
        end = start + output.length
        partitions = None if output.partitions is None else np.frombuffer(output.partitions, "<i4").astype(np.int32)
        batches.append(
            OutputBatch(
                output.topic,
                keys[start:end],
                values[start:end],
                timestamps_ms[start:end],
                partitions,
                _decode_headers(output.headers),
                output.first,
            )
        )
        start = end
    return batches


def _decode_rows(rows: list[tuple[str, str, str, int, int]], section: memoryview) -> list[EdgeRow]:
    decoded: list[EdgeRow] = []
    start = 0
    for task, edge, origin, seq, length in rows:
        decoded.append(EdgeRow(task, edge, origin, seq, bytes(section[start : start + length])))
        start += length
    return decoded


def _digest(parts: Iterable[bytes | memoryview]) -> bytes:
    digest = hashlib.blake2b(digest_size=DIGEST_BYTES)
    for part in parts:
        digest.update(part)
    return digest.digest()


def _int32_bytes(
    values: np.ndarray[tuple[int], np.dtype[np.int32]] | None,
) -> bytes | None:
    return None if values is None else values.astype("<i4", copy=False).tobytes()


def _binary(pieces: Sequence[Sequence[bytes | None]]) -> pa.Array:
    """The pieces one behind the other. Large offsets: an epoch may well send more than 2 GB."""
    if len(pieces) == 1:
        return pa.array(pieces[0], pa.large_binary())
    return pa.array(list(chain.from_iterable(pieces)), pa.large_binary())


def _ipc(**columns: pa.Array) -> bytes | memoryview:
    batch = pa.record_batch(list(columns.values()), names=list(columns))
    if batch.num_rows == 0:
        return b""
    sink = pa.BufferOutputStream()
    options = _IPC if batch.nbytes >= _THREADS_FROM_BYTES else _IPC_OF_ONE_THREAD
    with pa.ipc.new_stream(sink, batch.schema, options=options) as writer:
        writer.write_batch(batch)
    return memoryview(sink.getvalue())


def _columns(section: memoryview, names: tuple[str, ...]) -> list[list[Any]]:
    if not section:
        return [[] for _ in names]
    return [column.to_pylist() for column in _arrays(section, names)]


def _arrays(section: memoryview, names: tuple[str, ...]) -> list[pa.Array]:
    with pa.ipc.open_stream(pa.py_buffer(section)) as reader:
        batch = reader.read_next_batch()
    return [batch.column(name) for name in names]
