"""What a program makes of what another one has left, or records at once."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.patterns.local_orders import LocalOrders
from tests.unit.patterns.shop import Expired, Order, Place, order_aggregate, shop, topology_of, with_deadline

from hayase import Serdes
from hayase.core.errors import HayaseError
from hayase.patterns import PatternsApp
from hayase.storage.lmdb_env import close_environment

pytestmark = pytest.mark.long


def test_deadlines_are_sent_by_a_program_that_has_no_reactions_any_more(tmp_path: Path) -> None:
    before, after = with_deadline(order_aggregate()), order_aggregate()
    local = LocalOrders(tmp_path, topology=topology_of(before))
    with PatternsApp(local.app.topology, local.settings).commands(before) as commands:
        commands.send_nowait("17", Place("book"))
    local.epoch()
    local.app.close()
    for data in tmp_path.rglob("data.mdb"):
        close_environment(data.parent)
    local = LocalOrders(tmp_path, topology=topology_of(after))
    local.epoch()
    for _ in range(4):
        local.epoch(after_ms=61_000)
    events = PatternsApp(local.app.topology, local.settings).events(after)
    assert events.state("17").state == Order("book", expired=True)
    assert [each.event for each in events.history("17")][1:] == [Expired()]
    local.app.close()


def test_two_applications_that_decide_at_once_are_stopped() -> None:
    with shop() as driven:
        driven.send("17", Place("book"), "a")
        (recorded,) = driven.events.read_records_to_list()
        headers = {**dict(recorded.headers), "ce_application": b"another", "ce_aggregateversion": b"2"}
        events = driven.driver.create_input_topic("order-events", Serdes.bytes(), Serdes.bytes())
        with pytest.raises(HayaseError, match="application 'another' has recorded an event of order '17' beside"):
            events.pipe_input(b"17", recorded.value, 0, tuple(headers.items()))
