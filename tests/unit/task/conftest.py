"""What tests of tasks share."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="module")
def quiet() -> Iterator[None]:
    """No line per dropped record: hypothesis runs thousands."""
    logger = logging.getLogger("hayase.task")
    before = logger.level
    logger.setLevel(logging.ERROR)
    yield
    logger.setLevel(before)
