"""Limits of statements; errors name them."""

from __future__ import annotations

MAX_STATEMENT_CHARACTERS = 1_000_000
MAX_TOKENS = 20_000
"""Words, numbers and signs of one statement: what is parsed in a second."""
MAX_NESTING = 150
"""Levels of an expression, type or join: `a + b + c` has three, since operators of one rank nest to the left."""
MAX_ITEMS = 2_000
"""Columns of a source, items of a projection, values of a list."""
