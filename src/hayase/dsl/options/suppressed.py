"""`Suppressed`: when a table that holds updates back passes them on, and how much it may hold."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

from hayase.core.errors import TopologyError
from hayase.core.names import check_name
from hayase.core.windows import to_ms


@dataclass(frozen=True, slots=True)
class BufferConfig:
    """How much a suppressed table may hold back, in each of its tasks, and what happens when it is more.

    Made by `unbounded`, `max_records` or `max_bytes`. A bounded buffer emits early, or shuts down if set so.

    Attributes:
        records: so many rows at most; `None`: any number.
        size_bytes: so many bytes of keys and values, as they are stored, at most; `None`: any number.
        when_full: `emit` the oldest rows early, or `shutdown` the application.

    Example:
        >>> BufferConfig.max_records(1000).with_max_bytes(1_000_000).shut_down_when_full()
        BufferConfig(records=1000, size_bytes=1000000, when_full='shutdown')
    """

    records: int | None = None
    size_bytes: int | None = None
    when_full: Literal["emit", "shutdown"] = "shutdown"

    @classmethod
    def unbounded(cls) -> BufferConfig:
        """No limit but that of the disk."""
        return cls()

    @classmethod
    def max_records(cls, limit: int) -> BufferConfig:
        """At most so many rows; then the oldest is sent early."""
        return cls(records=_limit(limit), when_full="emit")

    @classmethod
    def max_bytes(cls, limit: int) -> BufferConfig:
        """At most so many bytes; then the oldest rows are sent early."""
        return cls(size_bytes=_limit(limit), when_full="emit")

    def with_max_records(self, limit: int) -> BufferConfig:
        """A copy with another limit of rows."""
        return dataclasses.replace(self, records=_limit(limit))

    def with_max_bytes(self, limit: int) -> BufferConfig:
        """A copy with another limit of bytes."""
        return dataclasses.replace(self, size_bytes=_limit(limit))

    def with_no_bound(self) -> BufferConfig:
        """A copy without limits."""
        return BufferConfig()

    def shut_down_when_full(self) -> BufferConfig:
        """A copy that fails with `SUPPRESSION_BUFFER_FULL` rather than sending a row early."""
        return dataclasses.replace(self, when_full="shutdown")

    def emit_early_when_full(self) -> BufferConfig:
        """A copy that sends the oldest rows early when it is full."""
        return dataclasses.replace(self, when_full="emit")


def _limit(given: int) -> int:
    if isinstance(given, bool) or not isinstance(given, int) or given < 0:
        raise TopologyError("INVALID_BUFFER", f"the limit of a buffer is a whole number from 0, not {given!r}")
    return given


@dataclass(frozen=True, slots=True)
class Suppressed:
    """When `KTable.suppress` sends updates: made by `until_window_closes` or `until_time_limit`.

    Attributes:
        buffer: how much may be held back.
        limit_ms: `None`: until the window closes.
        name: of the node; its store is `<name>-store`.

    Example:
        counts.suppress(Suppressed.until_window_closes(BufferConfig.unbounded()))
    """

    buffer: BufferConfig
    limit_ms: int | None = None
    name: str | None = None

    @classmethod
    def until_window_closes(cls, buffer: BufferConfig) -> Suppressed:
        """Only the last row of each window, when it cannot change any more: at its end plus grace in stream time.

        Of sessions: at their end plus gap plus grace. Sliding windows and sessions accept records up to that very
        millisecond; one that comes in it after the result makes another one, as in Kafka Streams.

        For windowed tables. `buffer` must be unbounded or shut down when it is full, as a row sent early would not be
        the last. A window whose last row is a delete is never sent. Nothing comes out as long as no record moves stream
        time.

        Raises:
            TopologyError: `INVALID_BUFFER`.
        """
        if not isinstance(buffer, BufferConfig) or buffer.when_full == "emit":
            raise TopologyError(
                "INVALID_BUFFER",
                f"until_window_closes got {buffer!r}; it takes BufferConfig.unbounded(), or a bounded one with "
                "shut_down_when_full(), as a row that is sent early would not be the last of its window",
            )
        return cls(buffer)

    @classmethod
    def until_time_limit(cls, time_to_wait: timedelta, buffer: BufferConfig) -> Suppressed:
        """At most one update of each key in such a span of stream time, counted from its first update held back.

        Sent is the last update, with its timestamp, when stream time reaches that of the first one plus the limit.
        Deletes are sent, too.
        """
        if not isinstance(buffer, BufferConfig):
            raise TopologyError(
                "INVALID_BUFFER",
                f"until_time_limit takes a BufferConfig, e.g. BufferConfig.unbounded(), not {buffer!r}",
            )
        return cls(buffer, to_ms("time_to_wait", time_to_wait))

    def with_name(self, name: str) -> Suppressed:
        """A copy with a name for the node."""
        return dataclasses.replace(self, name=check_name(name))
