"""What nodes see of the clocks of their task."""

from __future__ import annotations

from typing import Protocol


class Clocks(Protocol):
    """Stream-time clocks of one task. They are state: what an epoch set, the next one finds."""

    def get(self, name: str) -> int:
        """The clock's time in milliseconds, -1 before the first record."""
        ...

    def set(self, name: str, time_ms: int) -> None:
        """Move the clock; the caller takes care that it never goes back."""
        ...
