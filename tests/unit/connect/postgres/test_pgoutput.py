"""The decoder of pgoutput, on bytes as PostgreSQL sends them."""

from __future__ import annotations

import struct

import pytest

from hayase.connect.postgres.pgoutput import (
    UNCHANGED,
    Begin,
    Column,
    Commit,
    Delete,
    Insert,
    LogicalMessage,
    Relation,
    Truncate,
    Update,
    decode,
)
from hayase.core.errors import SerializationError


def cells(*given: str | None) -> bytes:
    parts = [struct.pack("!h", len(given))]
    for cell in given:
        if cell is None:
            parts.append(b"n")
        elif cell == "<same>":
            parts.append(b"u")
        else:
            parts.append(b"t" + struct.pack("!i", len(cell.encode())) + cell.encode())
    return b"".join(parts)


RELATION = (
    b"R" + struct.pack("!I", 9) + b"public\0users\0d" + struct.pack("!h", 2) + b"\1id\0" + struct.pack("!Ii", 23, -1)
)
RELATION += b"\0name\0" + struct.pack("!Ii", 25, -1)


def test_transactions_have_both_ends_of_their_commit_record() -> None:
    assert decode(b"B" + struct.pack("!qqI", 100, 5, 7)) == Begin(100, 5, 7)
    assert decode(b"C" + struct.pack("!Bqqq", 0, 100, 148, 5)) == Commit(100, 148, 5)


def test_a_relation_has_its_columns() -> None:
    columns = (Column("id", 23, -1, True), Column("name", 25, -1, False))
    assert decode(RELATION) == Relation(9, "public", "users", "d", columns)


def test_changes_have_texts_nulls_and_what_was_not_sent() -> None:
    oid = struct.pack("!I", 9)
    assert decode(b"I" + oid + b"N" + cells("1", "é")) == Insert(9, ["1", "é"])
    assert decode(b"U" + oid + b"N" + cells("1", "<same>")) == Update(9, None, False, ["1", UNCHANGED])
    assert decode(b"U" + oid + b"K" + cells("1", None) + b"N" + cells("2", "x")) == Update(
        9, ["1", None], False, ["2", "x"]
    )
    assert decode(b"U" + oid + b"O" + cells("1", "w") + b"N" + cells("1", "x")) == Update(
        9, ["1", "w"], True, ["1", "x"]
    )
    assert decode(b"D" + oid + b"O" + cells("1", "w")) == Delete(9, ["1", "w"], True)
    assert decode(b"T" + struct.pack("!IB2I", 2, 3, 9, 10)) == Truncate((9, 10), True, True)


def test_a_logical_message_has_prefix_and_content() -> None:
    data = b"M\1" + struct.pack("!q", 77) + b"outbox\0" + struct.pack("!I", 3) + b"abc"
    assert decode(data) == LogicalMessage(True, 77, "outbox", b"abc")


@pytest.mark.parametrize("data", [b"", b"?", b"B\0", b"I\0\0\0\tX", RELATION[:-3], b"I\0\0\0\tN\0\1t\0\0\0\x09ab"])
def test_damaged_messages_are_refused(data: bytes) -> None:
    with pytest.raises(SerializationError, match="INVALID_REPLICATION_MESSAGE"):
        decode(data)


def test_every_cut_of_a_message_is_read_or_refused() -> None:
    whole = b"U\0\0\0\tO" + cells("1", None, "<same>") + b"N" + cells("1", "abc", None)
    for end in range(len(whole)):
        with pytest.raises(SerializationError):
            decode(whole[:end])
