"""How a saga gets its answers: for tests of both ways with one program."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from hayase.patterns.saga import saga as saga_module


@contextmanager
def answers_through_topics() -> Iterator[None]:
    """Have the sagas of topologies that are built meanwhile read the answers of all aggregates from their topics.

    As they read those of other applications.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(saga_module, "aggregate_suppliers", lambda topology: {})
        yield
