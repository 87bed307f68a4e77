"""The limit of how many rows a pull query answers."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import replace

from hayase.server.rows import RowBatch
from hayase.sql.errors import StatementError

PULL_MAX_ROWS = "hayase.server.pull.max.rows"


def rows_limited(batches: Generator[RowBatch, None, None], max_rows: int | None) -> Generator[RowBatch, None, None]:
    """Batches as they are, until there are more rows than allowed: these rows are given, then the error is raised.

    Args:
        batches: of an answer.
        max_rows: allowed; `None`: any number.

    Raises:
        StatementError: `TOO_MANY_ROWS`.
    """
    left = max_rows
    with closing(batches):
        for batch in batches:
            if left is not None:
                if len(batch.rows) > left:
                    yield replace(batch, rows=batch.rows[:left], final_message=None)
                    raise _too_many(max_rows)
                left -= len(batch.rows)
            yield batch


def check_rows(batches: Sequence[RowBatch], max_rows: int | None) -> None:
    """Refuse an answer that is all there and has more rows than allowed; raises StatementError `TOO_MANY_ROWS`."""
    if max_rows is not None and sum(len(batch.rows) for batch in batches) > max_rows:
        raise _too_many(max_rows)


def _too_many(max_rows: int | None) -> StatementError:
    return StatementError(
        "TOO_MANY_ROWS",
        f"The answer has more than {max_rows} rows, which is the most that this server gives ({PULL_MAX_ROWS}): ask "
        "for fewer by WHERE or LIMIT, or make a table of what you need with CREATE TABLE … AS SELECT",
    )
