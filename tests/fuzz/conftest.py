"""How many inputs the fuzz tests try; see `tests.fuzz.inputs`."""

from __future__ import annotations

import pytest
from tests.fuzz.inputs import total


@pytest.fixture
def inputs(request: pytest.FixtureRequest) -> int:
    """How many inputs the suite tries in all; each test takes its share."""
    return total(slow=bool(request.config.getoption("--slow")))
