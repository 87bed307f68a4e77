"""The lines of PRINT."""

from __future__ import annotations

from hayase.server.rows import RowBatch


class PrintedLines:
    """Rows of one text as lines (`RowEncoding`)."""

    def head(self) -> bytes:
        """See RowEncoding."""
        return b""

    def batch(self, batch: RowBatch) -> bytes:
        """See RowEncoding."""
        lines = [str(row[0]) for row in batch.rows]
        if batch.error is not None:
            lines.append(batch.error.message)
        return "".join(f"{line}\n" for line in lines).encode()

    def keep_alive(self) -> bytes:
        """See RowEncoding."""
        return b"\n"

    def tail(self) -> bytes:
        """See RowEncoding."""
        return b""
