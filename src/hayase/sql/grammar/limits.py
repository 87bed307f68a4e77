"""Limits of statements; errors name them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from hayase.sql.errors import StatementError

MAX_STATEMENT_CHARACTERS = 1_000_000
MAX_TOKENS = 20_000
"""Words, numbers and signs of one statement: what is parsed in a second."""
MAX_NESTING = 150
"""Levels of an expression, type or join: `a + b + c` has three, since operators of one rank nest to the left."""
LEVELS_OF_A_CALL = 2
"""What functions, constructors and CASE count, since analyzing them takes twice as much of Python's stack."""
MAX_ITEMS = 2_000
"""Columns of a source, items of a projection, values of a list."""


@contextmanager
def nesting_errors() -> Iterator[None]:
    """An expression within the limits that the stack of a caller leaves no room for is an error of the statement."""
    try:
        yield
    except RecursionError as error:
        raise StatementError(
            "NESTED_TOO_DEEPLY",
            f"the statement nests too deeply to be analyzed here, although it has not more than {MAX_NESTING} levels; "
            "give parts of it a statement of their own",
        ) from error
