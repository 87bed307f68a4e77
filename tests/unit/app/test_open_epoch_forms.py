"""An epoch left open is finished by a program whose tasks have another form, or is refused: nothing is misread."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import polars as pl
import pytest
from tests.unit.query.local_app import LocalApp, rows_of

from hayase import Consumed, Grouped, JsonSerde, Materialized, Serdes, StreamsBuilder, Topology, count, sum_
from hayase.core.errors import CheckpointError
from hayase.state.delta.journal import EdgeRow
from hayase.task.epoch_record import Epochs


class Order(msgspec.Struct):
    """A value."""

    item: str
    amount: int


class Counts(msgspec.Struct):
    """A row."""

    n: int
    total: int


ORDER, COUNTS = JsonSerde(Order), JsonSerde(Counts)


def by_item(key: Any) -> Topology:
    builder = StreamsBuilder()
    orders = builder.stream("orders", Consumed.with_(Serdes.string(), ORDER))
    items = orders.group_by(key, Grouped.with_(Serdes.string(), ORDER)) if callable(key) else orders.group_by(key)
    items.agg(n=count(), total=sum_("amount"), materialized=Materialized.as_("items"))
    return builder.build()


def per_total(adder: Callable[..., Any] | None) -> Topology:
    """Sends rows from a task with a store, so they are in its delta."""
    builder = StreamsBuilder()
    orders = builder.stream("orders", Consumed.with_(Serdes.string(), ORDER))
    users = orders.group_by_key().agg(n=count(), total=sum_("amount"))
    grouped = users.group_by(pl.col("n"), Grouped.with_(Serdes.long(), COUNTS))
    if adder is None:
        grouped.agg(users=count(), materialized=Materialized.as_("totals"))
    else:
        grouped.aggregate(
            lambda: 0,
            adder,
            lambda _, value, so_far: so_far - 1,
            Materialized.as_("totals").with_value_serde(Serdes.long()),
        )
    return builder.build()


def left_open(folder: Path, topology: Topology) -> None:
    """An epoch that the first sub-topology has completed."""
    with closing(LocalApp(folder, topology)) as app:
        app.put(rows_of(0))
        record = app.plan_epoch()
        for bundle in app.plan.bundles:
            if bundle.level == 0:
                app.run_bundle(bundle.id, record, [])


def finished(folder: Path, topology: Topology, store: str) -> dict[Any, Any]:
    with closing(LocalApp(folder, topology)) as app:
        record = Epochs(app.blobs).record(0)
        assert record is not None
        rows: list[EdgeRow] = []
        for bundle in sorted(app.plan.bundles, key=lambda each: each.level):
            rows += app.run_bundle(bundle.id, record, rows)
        app.mark_done(record)
        return {row.key: row.value for row in app.app.store(store).all()}


@pytest.mark.long
def test_what_a_function_sent_is_read_by_a_program_with_an_expression_in_its_place(tmp_path: Path) -> None:
    left_open(tmp_path, by_item(lambda _, order: order.item))
    found = finished(tmp_path, by_item(pl.col("item")), "items")
    assert found == {"i0": {"n": 2, "total": 3}, "i1": {"n": 2, "total": 5}, "i2": {"n": 1, "total": 2}}


@pytest.mark.long
def test_what_was_sent_in_columns_is_not_read_by_a_program_that_runs_in_rows(tmp_path: Path) -> None:
    left_open(tmp_path, per_total(None))
    with pytest.raises(CheckpointError, match="Start the earlier program once more") as raised:
        finished(tmp_path, per_total(lambda _, value, so_far: so_far + 1), "totals")
    assert raised.value.condition == "OPEN_EPOCH_OF_ANOTHER_PROGRAM"
