"""The time limit of pull queries."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import closing
from typing import TypeVar

from hayase.sql.errors import StatementError
from hayase.sql.functions.work_limit import work_limited

PULL_TIMEOUT = "hayase.server.pull.timeout.ms"
T = TypeVar("T")


def limited(batches: Generator[T, None, None], timeout_ms: int) -> Generator[T, None, None]:
    """Batches as they are, until computing them has taken too long; a client that takes them slowly does not count.

    Raises:
        StatementError: `PULL_TIMEOUT`.
    """
    left_s = timeout_ms / 1000
    with closing(batches):
        while True:
            begin_s = time.monotonic()
            with work_limited(left_s):
                batch = next(batches, None)
            left_s -= time.monotonic() - begin_s
            if left_s <= 0:
                raise _timed_out(timeout_ms)
            if batch is None:
                return
            yield batch


def _timed_out(timeout_ms: int) -> StatementError:
    return StatementError(
        "PULL_TIMEOUT",
        f"The query has computed for more than {timeout_ms / 1000:g} s ({PULL_TIMEOUT}) and was ended: read fewer rows "
        "by WHERE or LIMIT, or make a table of the result with CREATE TABLE … AS SELECT",
    )
