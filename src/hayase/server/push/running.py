"""The push queries that run now."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from hayase.sql.errors import StatementError

if TYPE_CHECKING:  # what processes records is slow to import
    from hayase.server.push.query import PushRows
    from hayase.server.push.shared_runs import SharedRuns

_ID_BITS = 63


class PushQueries:
    """Counts push queries, and finds them by their ids. Thread-safe.

    Args:
        at_most: so many may run at once.
        waited_s: gets how long rows waited for their connection.
    """

    def __init__(self, at_most: int, waited_s: Callable[[float], object] = lambda seconds: None) -> None:
        self._at_most = at_most
        self.waited_s = waited_s
        self._running: dict[str, PushRows | None] = {}
        self._runs: SharedRuns | None = None
        self._lock = threading.Lock()

    @property
    def runs(self) -> SharedRuns:
        """The runs that queries share."""
        from hayase.server.push.shared_runs import SharedRuns

        with self._lock:
            if self._runs is None:
                self._runs = SharedRuns()
            return self._runs

    def __len__(self) -> int:
        return len(self._running)

    def ids(self) -> list[str]:
        """Ids of those that run."""
        with self._lock:
            return list(self._running)

    def find(self, query_id: str | None) -> str | None:
        """The id of one that runs, as SQL names it: without quotes, all its letters have become capitals."""
        return next((each for each in self.ids() if query_id in (each, each.upper())), None)

    def start(self, prefix: str, make: Callable[[str, Callable[[], None]], PushRows]) -> PushRows:
        """Start a query under a new id.

        Args:
            prefix: what the id begins with.
            make: makes the query, of its id and of what it has to call when it has ended.

        Raises:
            StatementError: `TOO_MANY_PUSH_QUERIES`.
        """
        query_id = f"{prefix}_{secrets.randbits(_ID_BITS)}"
        with self._lock:
            if len(self._running) >= self._at_most:
                raise StatementError(
                    "TOO_MANY_PUSH_QUERIES",
                    "Maximum number of push queries exceeded. Not servicing this query. "
                    f"{self._at_most} run, which is what ksql.max.push.queries allows: end one of them",
                )
            self._running[query_id] = None
        try:
            rows = make(query_id, lambda: self._ended(query_id))
        except BaseException:
            self._ended(query_id)
            raise
        with self._lock:
            if query_id in self._running:
                self._running[query_id] = rows
        return rows

    def close(self, query_id: str) -> bool:
        """End a query in good order; whether there was one of that id."""
        with self._lock:
            rows = self._running.get(query_id)
        if rows is None:
            return False
        rows.finish()
        return True

    def close_all(self) -> None:
        """End all queries in good order, because the server stops."""
        for query_id in self.ids():
            self.close(query_id)

    def _ended(self, query_id: str) -> None:
        with self._lock:
            self._running.pop(query_id, None)
