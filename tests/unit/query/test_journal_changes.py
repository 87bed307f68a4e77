"""Programs that change between runs so that a sub-topology begins, or ceases, to be journalled."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from tests.unit.query.local_app import LocalApp, rows_of

from hayase import Consumed, Grouped, JsonSerde, Materialized, Serdes, StreamsBuilder, Topology, count, sum_
from hayase.core.errors import StateError
from hayase.state.changelog.changelog import Changelog
from hayase.task.epoch_record import record_name


def by_item(key: Any) -> Topology:
    builder = StreamsBuilder()
    schema = JsonSerde(schema={"item": pl.String, "amount": pl.Int64})
    given = builder.stream("orders", Consumed.with_(Serdes.string(), schema))
    given.select_key(key).group_by_key(Grouped.with_(Serdes.string())).agg(
        Materialized.as_("items"), n=count(), total=sum_("amount")
    )
    return builder.build()


def item_of(_: Any, value: Any) -> str:
    return str(value["item"])


def counted(folder: Path, topology: Topology) -> int:
    app = LocalApp(folder, topology)
    try:
        return sum(row[1]["n"] for row in app.app.store("items").all())
    finally:
        app.close()


PROGRAMS: dict[str, Callable[[], Topology]] = {
    "expression": lambda: by_item(pl.col("item")),
    "function": lambda: by_item(item_of),
}


@pytest.mark.long
@pytest.mark.parametrize(
    "order", [("expression", "function", "expression", "function"), ("function", "expression", "function")]
)
def test_an_expression_that_becomes_a_function_and_back_goes_on(tmp_path: Path, order: tuple[str, ...]) -> None:
    epoch = 0
    for name in order:
        app = LocalApp(tmp_path, PROGRAMS[name]())
        assert app.plan.subtopologies["0"].journalled == (name == "function")
        for _ in range(3):
            app.epoch(rows_of(epoch))
            epoch += 1
        app.close()
    assert counted(tmp_path, PROGRAMS[order[-1]]()) == 5 * epoch


@pytest.mark.long
def test_a_bundle_that_was_not_journalled_begins_where_the_records_say_without_local_state(tmp_path: Path) -> None:
    import shutil

    app = LocalApp(tmp_path, PROGRAMS["function"]())
    app.epoch(rows_of(0))
    app.close()
    app = LocalApp(tmp_path, PROGRAMS["expression"]())
    app.epoch(rows_of(1))
    app.close()
    shutil.rmtree(tmp_path / "state" / "app" / "state")
    app = LocalApp(tmp_path, PROGRAMS["function"]())
    app.epoch(rows_of(2))
    app.close()
    assert counted(tmp_path, PROGRAMS["function"]()) == 15


@pytest.mark.long
def test_the_last_delta_that_is_missing_is_a_gap_and_no_other_attempt(tmp_path: Path) -> None:
    app = LocalApp(tmp_path, PROGRAMS["function"]())
    app.epoch(rows_of(0))
    app.epoch(rows_of(1))
    app.close()
    app = LocalApp(tmp_path, PROGRAMS["function"]())
    bundle = app.plan.bundles[0].id
    Changelog(app.blobs, bundle).delete(1)
    with pytest.raises(StateError) as refused:
        app.epoch(rows_of(2))
    assert refused.value.condition == "CHANGELOG_GAP"
    assert f"changelog/{bundle}/{1:020d}" in refused.value.message
    app.close()


def test_an_epoch_that_was_begun_with_a_journal_is_finished_with_it(tmp_path: Path) -> None:
    app = LocalApp(tmp_path, PROGRAMS["function"]())
    app.put(rows_of(0))
    record = app.plan_epoch()
    rows = [row for bundle in app.plan.bundles if bundle.level == 0 for row in app.run_bundle(bundle.id, record, [])]
    app.close()
    app = LocalApp(tmp_path, by_item(pl.lit("another")))
    again = [row for bundle in app.plan.bundles if bundle.level == 0 for row in app.run_bundle(bundle.id, record, [])]
    assert again == rows
    assert app.blobs.exists(record_name(0))
    app.close()
