"""How many examples property tests try: all of them, or few in `make test-fast`."""

from __future__ import annotations

import os

LIMIT = "HAYASE_EXAMPLES_MAX"


def examples(wanted: int) -> int:
    """The number a test asks for, unless the environment sets a lower limit."""
    return min(wanted, int(os.environ.get(LIMIT, wanted)))
