"""The demo between a database and files: its input, and the plug-ins and configurations of its folder."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hayase.cli.connect import read_connector
from hayase.cli.demo.cdc_input import STEP_MS, ShopDays
from hayase.cli.demo.cdc_run import CONNECTORS, _drain_sinks
from hayase.connect.config.references import ReferencePolicy
from hayase.connect.connector_validation import ConnectorValidator
from hayase.connect.contracts import Transformation
from hayase.connect.exceptions import ConnectError
from hayase.connect.herder.connector_runner import Failure
from hayase.connect.model import ConnectRecord, SinkRecord
from hayase.connect.plugins import Plugins, PluginType

EXAMPLE = Path(__file__).parents[3] / "examples" / "cdc"


def test_an_order_has_the_price_of_the_last_change_before_it() -> None:
    days = ShopDays(500)
    prices = {product.id: (product.changed_at, product.price) for product in days.products}
    orders = 0
    for step in days.steps():
        prices |= {product.id: (product.changed_at, product.price) for product in step.products}
        for order in step.orders:
            changed_at, price = prices[order.product]
            assert order.at > changed_at
            assert order.amount == order.quantity * price
        orders += len(step.orders)
    assert orders == 500


def test_changes_of_a_step_come_before_its_orders_and_behind_those_of_the_step_before() -> None:
    last = datetime.fromtimestamp(0, UTC)
    for step in ShopDays(500).steps():
        changes = [each.changed_at for each in (*step.users, *step.products)]
        orders = [order.at for order in step.orders]
        assert last < min([*changes, *orders])
        assert max(changes, default=step.at) < min(orders)
        assert max(orders) < step.at + timedelta(milliseconds=STEP_MS)
        last = max(orders)


def test_the_same_days_are_made_each_time() -> None:
    assert list(ShopDays(100).steps()) == list(ShopDays(100).steps())


@pytest.fixture(scope="module")
def plugins() -> Plugins:
    return Plugins([EXAMPLE], entry_points=False)


def _applied(plugins: Plugins, name: str, record: SinkRecord, **props: object) -> ConnectRecord | None:
    transform = plugins.load(name, Transformation, PluginType.TRANSFORMATION)()  # type: ignore[type-abstract] # a base
    transform.configure(props)
    return transform.apply(record)


def test_a_record_takes_its_time_from_a_field_and_a_tombstone_keeps_its_own(plugins: Plugins) -> None:
    record = SinkRecord(topic="users", kafka_partition=0, kafka_offset=0, timestamp_ms=1)
    row = record.new_record(value={"changed_at": "2026-01-05T00:00:00.250000Z"})
    moved = _applied(plugins, "EventTime", row, field="changed_at")
    assert moved is not None and moved.timestamp_ms == 1_767_571_200_250
    assert _applied(plugins, "EventTime", record, field="changed_at") == record


def test_the_key_of_a_window_becomes_columns(plugins: Plugins) -> None:
    key = b'{"product":"Lamp","region":"Asia"}' + (1_767_571_200_000).to_bytes(8, "big")
    record = SinkRecord(topic="sales", kafka_partition=0, kafka_offset=0, key=key)
    changed = _applied(plugins, "WindowedKey", record)
    assert changed is not None
    assert changed.key == {"product": "Lamp", "region": "Asia", "window_start": datetime(2026, 1, 5, tzinfo=UTC)}


@pytest.mark.parametrize("name", ["orders", "enriched"])
def test_the_configurations_are_accepted(
    name: str, plugins: Plugins, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert name in CONNECTORS
    monkeypatch.setenv("SHOP_ENRICHED", str(tmp_path))
    policy = ReferencePolicy.from_worker({"config.providers.env.param.allowlist.pattern": "SHOP_.*"})
    infos = ConnectorValidator(plugins, policy).validate(read_connector(EXAMPLE / "connectors" / f"{name}.json"))
    assert infos.errors() == []


def test_a_sink_whose_task_failed_long_ago_is_named_with_the_last_line_of_its_trace() -> None:
    failure = Failure(0, "Traceback\n  File …\nValueError: no such table\n", None)
    runner = SimpleNamespace(hurry=lambda: None, positions=dict, failure=lambda: failure)
    worker: Any = SimpleNamespace(herder=SimpleNamespace(runner=lambda _: runner))
    log: Any = SimpleNamespace(
        describe=lambda names: {name: SimpleNamespace(partitions=1) for name in names},
        end_offsets=lambda partitions: dict.fromkeys(partitions, 1),
    )
    with pytest.raises(ConnectError, match="'shop-sales' failed: ValueError: no such table"):
        _drain_sinks(worker, log)
