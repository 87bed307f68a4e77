"""States of an earlier `state_version`: refused, and rebuilt from the events as one epoch."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.patterns import local_orders
from tests.unit.patterns.local_orders import LocalOrders
from tests.unit.patterns.shop import Order, Pay, Place, order_aggregate, topology_of

from hayase.app.store_schemas import check_store_schemas
from hayase.compiler.options import configured
from hayase.core.errors import CheckpointError
from hayase.patterns import AggregateState, PatternsApp
from hayase.patterns.verification import rebuild

pytestmark = pytest.mark.long


def test_states_of_another_version_are_refused_until_they_are_rebuilt_from_the_events(tmp_path: Path) -> None:
    orders = LocalOrders(tmp_path)
    before = PatternsApp(local_orders.topology, orders.settings)
    check_store_schemas(orders.app.blobs, configured(before.topology, before.config))
    orders.start()
    with before.commands("order") as commands:
        commands.send_many([("17", Place("book")), ("17", Pay(5)), ("18", Place("pen"))])
    orders.stop()
    raised = order_aggregate(state_version=2)
    app = PatternsApp(topology_of(raised), orders.settings)
    with pytest.raises(CheckpointError) as refused:
        app.events(raised).state("17")
    assert refused.value.condition == "STORE_SCHEMA_CHANGED"
    orders.app.close()
    done = rebuild(raised, app.topology, app.config)
    assert done.failed == 0 and done.epoch is not None
    app = PatternsApp(topology_of(raised), orders.settings)
    assert app.events(raised).state("17") == AggregateState("17", 3, Order("book", 5))
    assert rebuild(raised, app.topology, app.config).stores == ()
