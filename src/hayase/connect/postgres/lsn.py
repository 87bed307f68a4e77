"""Positions in PostgreSQL's write-ahead log (LSN) and its clock."""

from __future__ import annotations

POSTGRES_EPOCH_US = 946_684_800_000_000
"""2000-01-01 in microseconds since 1970: PostgreSQL's clock starts there."""


def parse_lsn(text: str) -> int:
    """The number of an LSN in PostgreSQL's notation.

    Example:
        >>> parse_lsn("16/B374D848")
        97500059720
    """
    high, _, low = text.partition("/")
    return (int(high, 16) << 32) | int(low, 16)


def format_lsn(lsn: int) -> str:
    """An LSN in PostgreSQL's notation.

    Example:
        >>> format_lsn(97500059720)
        '16/B374D848'
    """
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"


class Snapshot:
    """What `pg_current_snapshot()` says: which transactions a query sees.

    Args:
        text: `xmin:xmax:xip,xip,…` with transaction ids of 64 bits.

    Example:
        >>> Snapshot("10:20:10,14").sees(12), Snapshot("10:20:10,14").sees(14), Snapshot("10:20:10,14").sees(20)
        (True, False, False)
    """

    __slots__ = ("in_progress", "text", "xmax", "xmin")

    def __init__(self, text: str) -> None:
        xmin, xmax, in_progress = text.split(":")
        self.text = text
        self.xmin = int(xmin)
        self.xmax = int(xmax)
        self.in_progress = frozenset(int(xid) for xid in in_progress.split(",") if xid)

    def sees(self, xid: int) -> bool:
        """Whether it sees a committed transaction; `xid` has 64 bits, or the 32 bits that the stream carries."""
        xid = self.widen(xid)
        return xid < self.xmin or (xid < self.xmax and xid not in self.in_progress)

    def widen(self, xid: int) -> int:
        """The id of 64 bits of a transaction near this snapshot, of which the stream carries the lower 32 bits."""
        if xid >> 32:
            return xid
        base = self.xmax & ~0xFFFFFFFF
        wide = base | xid
        # Ids in use are less than 2**31 apart.
        if wide - self.xmax > 1 << 31:
            wide -= 1 << 32
        elif self.xmax - wide > 1 << 31:
            wide += 1 << 32
        return wide

    def covers(self, other: Snapshot) -> bool:
        """Whether this snapshot sees every transaction that the other one sees.

        Example:
            >>> Snapshot("10:20:15").covers(Snapshot("10:14:12")), Snapshot("10:20:13").covers(Snapshot("10:14:12"))
            (True, False)
        """
        unseen = (*self.in_progress, *range(self.xmax, other.xmax))
        return not any(other.sees(xid) for xid in unseen)

    def __repr__(self) -> str:
        return f"Snapshot({self.text!r})"
