"""Child processes that answer requests: kept for the next one, ended when there is none."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.unit.server.command_servers import wait_until

from hayase.server.children.pool import ChildPool

LONG_S = 3600.0


@pytest.fixture
def pool(request: pytest.FixtureRequest) -> Iterator[ChildPool]:
    made = ChildPool("hayase.server.children.row_worker", 2, 1 << 20, idle_s=request.param)
    yield made
    made.close()


@pytest.mark.parametrize("pool", [LONG_S], indirect=True)
def test_a_process_is_kept_for_the_next_request(pool: ChildPool) -> None:
    first = pool.take(60)
    pool.give_back(first)
    assert pool.take(60) is first
    pool.give_back(first)
    assert first._process.poll() is None


@pytest.mark.parametrize("pool", [0.2], indirect=True)
def test_processes_that_have_nothing_to_do_are_ended_and_others_start_when_they_are_wanted(pool: ChildPool) -> None:
    first, second = pool.take(60), pool.take(60)
    for child in (first, second):
        pool.give_back(child)
    wait_until(lambda: first._process.poll() is not None and second._process.poll() is not None)
    third = pool.take(60)
    assert third not in (first, second)
    assert third._process.poll() is None
    pool.give_back(third)
