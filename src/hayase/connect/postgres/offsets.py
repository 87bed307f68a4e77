"""Offsets of the PostgreSQL source: Debezium's fields, and what makes a position exact."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from hayase.connect.postgres.lsn import Snapshot, format_lsn
from hayase.connect.postgres.replication import SystemIdentity
from hayase.core.errors import ConfigError


def stream_partition(prefix: str) -> dict[str, object]:
    """The source partition of the stream of changes: Debezium's."""
    return {"server": prefix}


def chunk_partition(prefix: str, table: str, chunk: int) -> dict[str, object]:
    """The source partition of a chunk of a snapshot."""
    return {"server": prefix, "table": table, "chunk": chunk}


def incremental_partition(prefix: str) -> dict[str, object]:
    """The source partition of what is read again while changes go on."""
    return {"server": prefix, "incremental": True}


@dataclass(slots=True)
class StreamOffset:
    """Where the stream of changes goes on.

    Attributes:
        commit_lsn: transactions whose commit record begins before this position are done.
        lsn: of the last change.
        xid: of its transaction.
        commit_us: when that committed, microseconds since 1970.
        snapshot: whether the snapshot is not complete yet.
        transaction_lsn: where the commit record of a transaction that is published in part begins; 0: none is.
        ordinal: how many changes of that transaction are done, counted before any filter.
        message_lsn: logical messages outside of transactions are done up to this position.
        system_id: of the cluster; empty: not known, as in an offset of Debezium.
        timeline: of the cluster; 0: not known.
        slot_lsn: where the slot began; chunks of snapshots of other slots do not count.
        publication: number of the publication; 0: not known.
    """

    commit_lsn: int
    lsn: int = 0
    xid: int | None = None
    commit_us: int = 0
    snapshot: bool = False
    transaction_lsn: int = 0
    ordinal: int = 0
    message_lsn: int = 0
    system_id: str = ""
    timeline: int = 0
    slot_lsn: int = 0
    publication: int = 0

    def other_history(self, identity: SystemIdentity) -> str | None:
        """Why positions of this offset mean something else on a server; `None`: they mean the same, as far as is known.

        A server that was restored to an earlier point, or promoted, begins a new timeline: it may lack transactions
        that were captured, and use their positions for others.
        """
        if self.system_id and self.system_id != identity.system_id:
            return f"the server belongs to another cluster ({identity.system_id}, and not {self.system_id})"
        if self.timeline and self.timeline != identity.timeline:
            return (
                f"the server is on timeline {identity.timeline}, and not on {self.timeline}: it was restored or "
                "promoted, and may not have all that was captured"
            )
        if self.system_id and self.commit_lsn > identity.wal_lsn:
            return (
                f"the log of the server ends at {format_lsn(identity.wal_lsn)}, before the offset "
                f"{format_lsn(self.commit_lsn)}: it was restored from an older copy, and may not have all that was "
                "captured"
            )
        return None

    def to_offset(self) -> dict[str, object]:
        """The offset as it is stored."""
        offset: dict[str, object] = {
            "lsn": self.lsn or self.commit_lsn,
            "lsn_proc": self.commit_lsn,
            "lsn_commit": self.commit_lsn,
            "ts_usec": self.commit_us,
            "system_id": self.system_id,
            "timeline": self.timeline,
            "slot_lsn": self.slot_lsn,
        }
        if self.publication:
            offset["publication"] = self.publication
        if self.xid is not None:
            offset["txId"] = self.xid
        if self.snapshot:
            offset |= {"snapshot": True, "last_snapshot_record": False}
        if self.transaction_lsn:
            offset |= {"transaction_lsn": self.transaction_lsn, "ordinal": self.ordinal}
        if self.message_lsn:
            offset["message_lsn"] = self.message_lsn
        return offset

    @classmethod
    def from_offset(cls, offset: Mapping[str, object]) -> StreamOffset:
        """Read a stored offset, ours or Debezium's.

        Raises:
            ConfigError: `INVALID_OFFSET`: it has no position.
        """
        lsn = _number(offset, "lsn")
        commit_lsn = _number(offset, "lsn_commit") or _number(offset, "lsn_proc")
        if not lsn and not commit_lsn:
            raise ConfigError(
                "INVALID_OFFSET", f"the offset {dict(offset)!r:.300} has neither lsn nor lsn_commit; give one of them"
            )
        snapshot = (
            offset.get("snapshot") not in (None, False, "false") and offset.get("last_snapshot_record") is not True
        )
        return cls(
            commit_lsn=commit_lsn or lsn,
            lsn=lsn,
            xid=_number(offset, "txId") or None,
            commit_us=_number(offset, "ts_usec"),
            snapshot=snapshot,
            transaction_lsn=_number(offset, "transaction_lsn"),
            ordinal=_number(offset, "ordinal"),
            message_lsn=_number(offset, "message_lsn"),
            system_id=str(offset.get("system_id") or ""),
            timeline=_number(offset, "timeline"),
            slot_lsn=_number(offset, "slot_lsn"),
            publication=_number(offset, "publication"),
        )


def _number(offset: Mapping[str, object], name: str) -> int:
    value = offset.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


@dataclass(frozen=True, slots=True)
class Chunk:
    """Rows of a table that were read under one snapshot.

    Attributes:
        upper: the last key, as text; `None`: up to the end of the table.
        snapshot: what the rows were read under.
        lsn: where the log ended when they were read: what committed later is not in them.
        slot_lsn: of the slot that the snapshot belongs to.
    """

    upper: tuple[str, ...] | None
    snapshot: Snapshot
    lsn: int
    slot_lsn: int

    def to_offset(self) -> dict[str, object]:
        """The offset as it is stored."""
        return {
            "upper": None if self.upper is None else msgspec.json.encode(self.upper).decode(),
            "snapshot": self.snapshot.text,
            "lsn": self.lsn,
            "slot_lsn": self.slot_lsn,
        }

    @classmethod
    def from_offset(cls, offset: Mapping[str, object]) -> Chunk:
        """Read a stored offset."""
        upper = offset.get("upper")
        return cls(
            None if upper is None else tuple(msgspec.json.decode(str(upper))),
            Snapshot(str(offset["snapshot"])),
            _number(offset, "lsn"),
            _number(offset, "slot_lsn"),
        )


@dataclass(slots=True)
class SnapshotProgress:
    """Chunks of all tables, in the order of their keys."""

    chunks: dict[str, list[Chunk]] = field(default_factory=dict)

    @classmethod
    def load(
        cls, prefix: str, offsets: Mapping[tuple[tuple[str, object], ...], Mapping[str, object]]
    ) -> SnapshotProgress:
        """Read the chunks out of the offsets of a connector."""
        found: dict[str, dict[int, Chunk]] = {}
        for items, offset in offsets.items():
            partition = dict(items)
            if partition.get("server") == prefix and isinstance(partition.get("chunk"), int) and offset:
                number = partition["chunk"]
                assert isinstance(number, int)
                found.setdefault(str(partition["table"]), {})[number] = Chunk.from_offset(offset)
        return cls({table: [chunks[number] for number in sorted(chunks)] for table, chunks in found.items()})

    def of_slot(self, slot_lsn: int) -> SnapshotProgress:
        """Only the chunks that belong to a slot."""
        kept = {
            table: [chunk for chunk in chunks if chunk.slot_lsn == slot_lsn] for table, chunks in self.chunks.items()
        }
        return SnapshotProgress({table: chunks for table, chunks in kept.items() if chunks})

    def is_complete(self, table: str) -> bool:
        """Whether a table was read to its end."""
        chunks = self.chunks.get(table, [])
        return bool(chunks) and chunks[-1].upper is None

    def lsn(self) -> int:
        """Transactions that committed from here on are in no chunk."""
        return max((chunk.lsn for chunks in self.chunks.values() for chunk in chunks), default=0)
