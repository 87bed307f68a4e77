"""An aggregate moves into the topology of its saga, while sagas are open."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.examples.ways_of_answers import answers_through_topics
from tests.unit.patterns import local_sagas
from tests.unit.patterns.local_orders import LocalOrders
from tests.unit.patterns.local_sagas import LocalSagas
from tests.unit.patterns.sagas import Checkout, Reserve

from hayase.core.errors import TopologyError
from hayase.patterns import PatternsApp
from hayase.patterns.saga.unread_answers import unread_answers


@pytest.fixture
def before(tmp_path: Path) -> Iterator[LocalOrders]:
    """The application as it was: the saga reads the answers of all aggregates from their topics."""
    with answers_through_topics():
        topology = local_sagas.topology_of_both()
    made = LocalSagas(tmp_path, topology)
    yield made
    made.app.close()


def start_a_saga(before: LocalOrders) -> None:
    with PatternsApp(local_sagas.topology, before.settings).commands("checkout") as commands:
        commands.send_nowait("17", Checkout("book"))
    before.epoch()  # it sends the first command


def test_a_program_that_would_not_read_answers_to_open_sagas_is_refused(before: LocalOrders) -> None:
    start_a_saga(before)
    before.epoch()  # the aggregate answers
    after = PatternsApp(local_sagas.topology, before.settings)
    with pytest.raises(TopologyError, match="of 'stock-events' are not read yet") as refused:
        after.create_topics()
    assert refused.value.condition == "ANSWERS_UNREAD"
    before.epoch()  # it reads them
    after.create_topics()


def test_where_nothing_is_unread_or_no_saga_is_open_the_program_may_change(before: LocalOrders) -> None:
    after = PatternsApp(local_sagas.topology, before.settings)
    after.create_topics()  # it never ran
    start_a_saga(before)
    after.create_topics()  # nothing has answered
    before.epoch()
    reads = {"payments-replies", "shipping-replies"}
    found = unread_answers(before.app.log, after.config, local_sagas.saga, reads)
    assert [*found] == ["stock-replies", "stock-events"]


def test_the_program_itself_goes_on_with_answers_that_it_has_not_read(before: LocalOrders) -> None:
    start_a_saga(before)
    before.epoch()
    PatternsApp(before.app.topology, before.settings).create_topics()


def test_an_aggregate_that_answers_nobody_stops_no_program(before: LocalOrders) -> None:
    with PatternsApp(local_sagas.topology, before.settings).commands("stock") as commands:
        commands.send_nowait("book", Reserve("17"))
    before.epoch()
    after = PatternsApp(local_sagas.topology, before.settings)
    assert unread_answers(before.app.log, after.config, local_sagas.saga, ())
    after.create_topics()
