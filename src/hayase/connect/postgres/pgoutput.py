"""Decoder of `pgoutput`, the messages in which PostgreSQL sends committed transactions (protocol version 1).

Values stay the text that PostgreSQL writes: what they become is a matter of the column's type.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

import msgspec

from hayase.core.errors import SerializationError

Cell: TypeAlias = "str | Unchanged | None"
"""A value of a row: text, null, or unchanged."""
CellWriter: TypeAlias = "tuple[Callable[[bytes], bytes] | None, bytes | None]"
"""What writes the text of a column, `None`: the column is left out; and what stands for null, `None`: nothing does."""


class Unchanged:
    """Type of `UNCHANGED`."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "UNCHANGED"


UNCHANGED: Final = Unchanged()
"""A large value, stored out of line, that an update left as it was: the log does not have it."""

_BEGIN = struct.Struct("!qqI").unpack_from
_COMMIT = struct.Struct("!Bqqq").unpack_from
_I16 = struct.Struct("!h").unpack_from
_U32 = struct.Struct("!I").unpack_from
_I64 = struct.Struct("!q").unpack_from
_TYPE = struct.Struct("!Ii").unpack_from
_NULL, _UNCHANGED, _TEXT = b"nut"
_OLD_KEY, _OLD_ROW, _NEW_ROW = b"KON"
_INSERT_UPDATE = b"IU"
_ROW_AT = 6
"""Where the row of an insert begins, and that of an update of which no old row was sent."""


class Begin(msgspec.Struct, frozen=True, gc=False):
    """A transaction begins: everything up to `Commit` belongs to it.

    Attributes:
        final_lsn: where its commit record begins.
        commit_us: when it committed, microseconds since 2000.
        xid: its id, 32 bits.
    """

    final_lsn: int
    commit_us: int
    xid: int


class Commit(msgspec.Struct, frozen=True, gc=False):
    """A transaction ends.

    Attributes:
        lsn: where its commit record begins.
        end_lsn: where its commit record ends: what a stored position compares with.
        commit_us: when it committed, microseconds since 2000.
    """

    lsn: int
    end_lsn: int
    commit_us: int


class Column(msgspec.Struct, frozen=True, gc=False):
    """A column of a relation.

    Attributes:
        name: its name.
        type_oid: its type.
        modifier: length, precision or scale of the type; -1: none.
        identity: whether it belongs to the replica identity.
    """

    name: str
    type_oid: int
    modifier: int
    identity: bool


class Relation(msgspec.Struct, frozen=True, gc=False):
    """A table as it is from here on in the stream.

    Attributes:
        oid: what changes name it by.
        namespace: its schema.
        name: its name.
        identity: replica identity: `d`efault, `n`othing, `f`ull, `i`ndex.
        columns: in the order of the values.
    """

    oid: int
    namespace: str
    name: str
    identity: str
    columns: tuple[Column, ...]


class Insert(msgspec.Struct, frozen=True, gc=False):
    """A new row."""

    relation: int
    new: list[Cell]


class Update(msgspec.Struct, frozen=True, gc=False):
    """A changed row.

    Attributes:
        relation: the table.
        old: the row before: all of it, or with nulls but in the columns of the replica identity, or None.
        whole: whether `old` is all of it (replica identity full).
        new: the row after.
    """

    relation: int
    old: list[Cell] | None
    whole: bool
    new: list[Cell]

    def completed(self) -> Update:
        """The same, with large values that the update left as they were taken from the old row, where that has them.

        The old row has those of the replica identity always: a key that is stored out of line is sent there only.
        """
        old = self.old
        if old is None or UNCHANGED not in self.new:
            return self
        new = [
            before if after is UNCHANGED and before is not None else after
            for before, after in zip(old, self.new, strict=True)
        ]
        return msgspec.structs.replace(self, new=new)


class Delete(msgspec.Struct, frozen=True, gc=False):
    """A removed row; `old` and `whole` as in `Update`."""

    relation: int
    old: list[Cell]
    whole: bool


class Truncate(msgspec.Struct, frozen=True, gc=False):
    """Tables were emptied."""

    relations: tuple[int, ...]
    cascade: bool
    restart_identity: bool


class LogicalMessage(msgspec.Struct, frozen=True, gc=False):
    """What `pg_logical_emit_message` wrote.

    Attributes:
        transactional: whether it belongs to the transaction around it; else it stands alone.
        lsn: its position.
        prefix: whom it is for.
        content: what it says.
    """

    transactional: bool
    lsn: int
    prefix: str
    content: bytes


class Origin(msgspec.Struct, frozen=True, gc=False):
    """The transaction came from another server by replication."""

    lsn: int
    name: str


class TypeName(msgspec.Struct, frozen=True, gc=False):
    """The name of a type that is not built in."""

    oid: int
    namespace: str
    name: str


Message = Begin | Commit | Relation | Insert | Update | Delete | Truncate | LogicalMessage | Origin | TypeName


def decode(data: bytes) -> Message:
    """The message that the payload of one `XLogData` holds.

    Raises:
        SerializationError: `INVALID_REPLICATION_MESSAGE`: it is cut off or of an unknown kind.
    """
    try:
        decoder = _DECODERS.get(data[0])
        if decoder is None:
            raise ValueError(f"kind {data[:1]!r}")
        return decoder(data)
    except (struct.error, IndexError, ValueError) as error:  # UnicodeDecodeError is a ValueError
        message = f"PostgreSQL sent a message of {len(data)} bytes that pgoutput does not have: {error}"
        raise SerializationError("INVALID_REPLICATION_MESSAGE", message) from error


def only_row(data: bytes) -> tuple[int, int] | None:
    """Of an insert, or an update of which no old row was sent: its table, and where its row begins; else `None`."""
    if len(data) > _ROW_AT and data[0] in _INSERT_UPDATE and data[_ROW_AT - 1] == _NEW_ROW:
        return _U32(data, 1)[0], _ROW_AT
    return None


def write_row(data: bytes, at: int, writers: Sequence[CellWriter]) -> list[bytes] | None:
    """What writers make of the values of a row that is all that follows in a message.

    Args:
        data: the message.
        at: where the row begins.
        writers: of each column.

    Returns:
        `None`: the row is not as simple as that; decode it.
    """
    size = len(data)
    if size < at + 2 or _I16(data, at)[0] != len(writers):
        return None
    at += 2
    parts: list[bytes] = []
    for write, null in writers:
        if at >= size:
            return None
        kind = data[at]
        if kind == _TEXT and at + 5 <= size:
            begin = at + 5
            at = begin + _U32(data, at + 1)[0]
            if write is not None:
                parts.append(write(data[begin:at]))
        elif kind == _NULL and null is not None:
            at += 1
            if write is not None:
                parts.append(null)
        else:
            return None
    return parts if at == size else None


def _row(data: bytes, at: int) -> tuple[list[Cell], int]:
    """A row that begins at a position, and the position behind it."""
    (count,) = _I16(data, at)
    at += 2
    cells: list[Cell] = []
    append = cells.append
    for _ in range(count):
        kind = data[at]
        if kind == _TEXT:
            begin = at = at + 5
            # A size below zero is one beyond the end, as an unsigned number.
            at += _U32(data, at - 4)[0]
            append(data[begin:at].decode())
        elif kind == _NULL:
            append(None)
            at += 1
        elif kind == _UNCHANGED:
            append(UNCHANGED)
            at += 1
        else:
            raise ValueError(f"a value of kind {kind} at byte {at}")
    if at > len(data):
        raise ValueError(f"a value that ends at byte {at}")
    return cells, at


def _text(data: bytes, at: int) -> tuple[str, int]:
    end = data.index(b"\0", at)
    return data[at:end].decode(), end + 1


def _begin(data: bytes) -> Begin:
    return Begin(*_BEGIN(data, 1))


def _commit(data: bytes) -> Commit:
    _, lsn, end_lsn, commit_us = _COMMIT(data, 1)
    return Commit(lsn, end_lsn, commit_us)


def _relation(data: bytes) -> Relation:
    (oid,) = _U32(data, 1)
    namespace, at = _text(data, 5)
    name, at = _text(data, at)
    identity = chr(data[at])
    (count,) = _I16(data, at + 1)
    at += 3
    columns = []
    for _ in range(count):
        flags = data[at]
        column, at = _text(data, at + 1)
        type_oid, modifier = _TYPE(data, at)
        at += 8
        columns.append(Column(column, type_oid, modifier, bool(flags & 1)))
    # The empty name stands for pg_catalog.
    return Relation(oid, namespace or "pg_catalog", name, identity, tuple(columns))


def _insert(data: bytes) -> Insert:
    (relation,) = _U32(data, 1)
    _expect(data[5], _NEW_ROW)
    return Insert(relation, _row(data, 6)[0])


def _update(data: bytes) -> Update:
    (relation,) = _U32(data, 1)
    old, whole, at = None, False, 5
    if data[at] != _NEW_ROW:
        _expect(data[at], _OLD_KEY, _OLD_ROW)
        whole = data[at] == _OLD_ROW
        old, at = _row(data, at + 1)
        _expect(data[at], _NEW_ROW)
    return Update(relation, old, whole, _row(data, at + 1)[0])


def _delete(data: bytes) -> Delete:
    (relation,) = _U32(data, 1)
    _expect(data[5], _OLD_KEY, _OLD_ROW)
    return Delete(relation, _row(data, 6)[0], data[5] == _OLD_ROW)


def _truncate(data: bytes) -> Truncate:
    (count,) = _U32(data, 1)
    options = data[5]
    return Truncate(struct.unpack_from(f"!{count}I", data, 6), bool(options & 1), bool(options & 2))


def _message(data: bytes) -> LogicalMessage:
    (lsn,) = _I64(data, 2)
    prefix, at = _text(data, 10)
    (size,) = _U32(data, at)
    content = data[at + 4 : at + 4 + size]
    if len(content) != size:
        raise ValueError(f"a content of {size} bytes")
    return LogicalMessage(bool(data[1] & 1), lsn, prefix, content)


def _origin(data: bytes) -> Origin:
    (lsn,) = _I64(data, 1)
    return Origin(lsn, _text(data, 9)[0])


def _type(data: bytes) -> TypeName:
    (oid,) = _U32(data, 1)
    namespace, at = _text(data, 5)
    return TypeName(oid, namespace or "pg_catalog", _text(data, at)[0])


def _expect(kind: int, *allowed: int) -> None:
    if kind not in allowed:
        raise ValueError(f"a row of kind {kind}")


_DECODERS: Mapping[int, Callable[[bytes], Message]] = {
    ord("B"): _begin,
    ord("C"): _commit,
    ord("R"): _relation,
    ord("I"): _insert,
    ord("U"): _update,
    ord("D"): _delete,
    ord("T"): _truncate,
    ord("M"): _message,
    ord("O"): _origin,
    ord("Y"): _type,
}
