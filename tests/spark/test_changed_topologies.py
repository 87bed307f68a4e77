"""A topology that changes in place on Spark: at a start, after a kill, and in a shared runtime while others run."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from tests.spark.place import Place, until
from tests.spark.test_shared_runtime import OF_TOPOLOGIES, rests, running, runtime_of, topics, wait
from tests.spark.topologies import JSON, TEXT, WRITTEN, amounts, expected, totals

from hayase import (
    Consumed,
    Grouped,
    Materialized,
    Repartitioned,
    Serdes,
    State,
    StreamsBuilder,
    TimeWindows,
    Topology,
    count,
    sum_,
)
from hayase.app.membership import Membership
from hayase.app.runtime_requests import RuntimeRequest, running_runtime
from hayase.core.errors import CheckpointError, ProcessingError
from hayase.storage.open import open_blobs
from hayase.task.epoch_record import Epochs

AMOUNTS = Serdes.json(schema={"amount": pl.Int64})


def changed(source: str = "in", sink: str = "out", others: str = "rests") -> Topology:
    """`totals` behind a filter, and counts by the rest of the amount before it: all is numbered otherwise."""
    builder = StreamsBuilder()
    orders = builder.stream(source, Consumed.with_(TEXT, AMOUNTS)).filter(pl.col("amount") >= 0)
    by_rest = orders.group_by(pl.format("r{}", pl.col("amount") % 3))
    by_rest.agg(Materialized.as_("rests"), n=count()).to_stream().to(others, WRITTEN)
    table = orders.group_by_key().agg(Materialized.as_("totals"), n=count(), total=sum_("amount"))
    table.to_stream().to(sink, WRITTEN)
    return builder.build()


def test_a_changed_topology_goes_on_with_its_stores_at_the_next_start(place: Place) -> None:
    topics(place, "in", "out", "rests")
    place.put("in", amounts(0, 30))
    place.run(totals())
    place.put("in", amounts(30, 60))
    app = place.run(changed())
    assert place.last("out") == expected(60)
    assert {row["n"] for row in place.last("rests").values()} == {10}, "a new store begins empty"
    assert app.store("totals").get("k0").value == expected(60)["k0"]
    assert app.store("rests").get("r1").value == {"n": 10}
    place.put("in", amounts(60, 90))
    app = place.run(totals())
    assert place.last("out") == expected(90)
    assert app.store("totals").get("k3").value == expected(90)["k3"]


def guarded(flag: Path, *, filtered: bool) -> Topology:
    """Counts per key; fails at the amount 40 as long as there is a file."""

    def check(order: dict[str, int]) -> dict[str, int]:
        if order["amount"] == 40 and flag.exists():
            raise ValueError("the file is there")
        return order

    builder = StreamsBuilder()
    orders = builder.stream("in", Consumed.with_(TEXT, AMOUNTS))
    kept = orders.filter(pl.col("amount") < 60) if filtered else orders
    table = kept.map_values(check).group_by_key(Grouped.with_(TEXT, JSON)).agg(Materialized.as_("counts"), n=count())
    table.to_stream().to("out", WRITTEN)
    return builder.build()


def test_an_epoch_of_which_a_bundle_has_its_part_is_finished_by_the_old_topology_before_the_changed_one_goes_on(
    place: Place,
) -> None:
    flag = place.folder / "flag"
    flag.touch()
    topics(place, "in", "out")
    place.put("in", amounts(0, 70))
    with pytest.raises(ProcessingError, match="the file is there"):
        place.run(guarded(flag, filtered=False))
    with pytest.raises(
        CheckpointError, match=r"bundle 0-\d has published .*failed with: .*the file is there"
    ) as refused:
        place.run(guarded(flag, filtered=True))
    assert refused.value.condition == "OPEN_EPOCH_OF_ANOTHER_PLAN"
    flag.unlink()
    place.put("in", amounts(70, 90))
    place.run(guarded(flag, filtered=True))
    assert sum(row["n"] for row in place.last("out").values()) == 70, "of the open epoch all, of the next one none"


def priced(*, corrected: bool) -> Topology:
    """Counts and adds up per key; the corrected one has one more node, and another function for amounts of 40."""

    def price(order: dict[str, int]) -> dict[str, int]:
        return {"amount": 1000 // (order["amount"] - 40)}

    def corrected_price(order: dict[str, int]) -> dict[str, int]:
        return {"amount": 0} if order["amount"] == 40 else price(order)

    builder = StreamsBuilder()
    orders = builder.stream("in", Consumed.with_(TEXT, AMOUNTS))
    if corrected:
        orders = orders.filter(pl.col("amount") < 1_000)
    prices = orders.map_values(corrected_price if corrected else price).group_by_key(Grouped.with_(TEXT, JSON))
    prices.agg(Materialized.as_("prices"), n=count()).to_stream().to("out", WRITTEN)
    return builder.build()


def counted(last: int) -> dict[str, dict[str, int]]:
    """What `priced` counts of `amounts(0, last)`."""
    return {key: {"n": row["n"]} for key, row in expected(last).items()}


def redone_epochs(checkpoint: str) -> list[int]:
    """The epochs that were done again."""
    epochs = Epochs(open_blobs(checkpoint, fsync=False))
    return [epoch for epoch in epochs.recorded() if epochs.is_redone(epoch)]


def test_a_poison_record_stops_a_topology_and_a_changed_one_with_the_function_corrected_goes_on(place: Place) -> None:
    place.topic("in", 1)
    place.topic("out")
    place.put("in", amounts(0, 30))
    place.run(priced(corrected=False))
    place.put("in", amounts(30, 60))
    with pytest.raises(ProcessingError, match="ZeroDivisionError"):
        place.run(priced(corrected=False))
    app = place.run(priced(corrected=True))
    assert place.last("out") == counted(60), "no record was skipped, and none counted twice"
    assert len(redone_epochs(app.config.checkpoint_dir)) == 1
    place.put("in", amounts(60, 80))
    app = place.run(priced(corrected=True))
    assert place.last("out") == counted(80)
    assert app.store("prices").get("k0").value == counted(80)["k0"]
    last = app.history("prices").newest_epoch
    assert app.store("prices", as_of_epoch=last).get("k0").value == counted(80)["k0"]


def test_in_a_running_runtime_a_changed_topology_does_the_epoch_again_that_has_failed(place: Place) -> None:
    place.topic("in", 1)
    topics(place, "out", "copies")
    place.put("in", amounts(0, 30))
    with running(place, prices=priced(corrected=False), other=rests("in", "copies")) as runtime:
        wait(lambda: place.last("out") == counted(30), runtime)
        other = runtime.topology("other")
        place.put("in", amounts(30, 60))
        until(lambda: runtime.topology("prices").state is State.ERROR)
        app = runtime.replace_topology("prices", priced(corrected=True))
        until(lambda: place.last("out") == counted(60), app)
        assert len(redone_epochs(app.config.checkpoint_dir)) == 1
        wait(lambda: sum(row["n"] for row in place.last("copies").values()) == 60, runtime)
        assert runtime.topology("other") is other and other.state is State.RUNNING


def test_a_topology_is_replaced_in_a_running_runtime_while_the_others_go_on(place: Place) -> None:
    topics(place, "in", "out", "rests", "copies", "more")
    place.put("in", amounts(0, 30))
    with running(place, totals=totals(), other=rests("in", "copies")) as runtime:
        wait(lambda: place.last("out") == expected(30), runtime)
        other = runtime.topology("other")
        app = runtime.replace_topology("totals", changed())
        place.put("in", amounts(30, 60))
        wait(lambda: place.last("out") == expected(60), runtime)
        wait(lambda: sum(row["n"] for row in place.last("rests").values()) == 30, runtime)
        assert runtime.topology("totals") is app and app.config.commit_interval_ms == 0
        assert runtime.topology("other") is other and other.state is State.RUNNING
        assert app.store("totals").get("k0").value == expected(60)["k0"]
        with pytest.raises(CheckpointError) as refused:
            runtime.replace_topology("totals", unnamed())
        assert refused.value.condition == "PLAN_CHANGED"
        assert runtime.topology("totals") is app, "a change that is refused stops nothing"
        place.put("in", amounts(60, 90))
        wait(lambda: place.last("out") == expected(90), runtime)
    with running(place) as runtime:
        place.put("in", amounts(90, 99))
        wait(lambda: place.last("out") == expected(99), runtime)
        wait(lambda: place.last("rests")["r0"] == {"n": 23}, runtime)
        until(lambda: runtime.topology("totals").store("rests").get("r0").value == {"n": 23})


def unnamed() -> Topology:
    """`totals` with windows in the place of its store."""
    builder = StreamsBuilder()
    windows = TimeWindows.of_size_with_no_grace(timedelta(seconds=1))
    grouped = builder.stream("in", Consumed.with_(TEXT, AMOUNTS)).group_by_key().windowed_by(windows)
    grouped.agg(Materialized.as_("totals"), n=count())
    return builder.build()


def test_a_topology_that_failed_is_replaced(place: Place) -> None:
    """The corrected function has the nodes of the one that fails, so it goes on with the open epoch itself."""
    topics(place, "in", "out")

    def copying(check: Any) -> Topology:
        builder = StreamsBuilder()
        builder.stream("in", Consumed.with_(TEXT, AMOUNTS)).map_values(check).to("out", WRITTEN)
        return builder.build()

    def fail(value: Any) -> Any:
        raise ValueError("not today")

    with running(place, copies=copying(fail)) as runtime:
        place.put("in", amounts(0, 5))
        until(lambda: runtime.topology("copies").state is State.ERROR)
        runtime.replace_topology("copies", copying(lambda value: value), OF_TOPOLOGIES)
        wait(lambda: len(place.rows("out")) == 5, runtime)


def through_a_topic(source: str, sink: str) -> Topology:
    """Counts per key behind a topic of the application's own."""
    builder = StreamsBuilder()
    again = Repartitioned.as_("again").with_key_serde(TEXT).with_value_serde(JSON)
    stream = builder.stream(source, Consumed.with_(TEXT, AMOUNTS)).repartition(again)
    table = stream.group_by_key(Grouped.with_(TEXT, JSON)).agg(Materialized.as_("counts"), n=count())
    table.to_stream().to(sink, WRITTEN)
    return builder.build()


def without_a_topic(source: str, sink: str) -> Topology:
    """The same, at once."""
    builder = StreamsBuilder()
    stream = builder.stream(source, Consumed.with_(TEXT, AMOUNTS))
    stream.group_by_key().agg(Materialized.as_("counts"), n=count()).to_stream().to(sink, WRITTEN)
    return builder.build()


def test_a_topology_empties_a_topic_of_its_own_before_one_that_does_not_read_it_takes_its_place(place: Place) -> None:
    topics(place, "in", "out")
    runtime = runtime_of(place)
    runtime.add_topology("counts", through_a_topic("in", "out"), {**OF_TOPOLOGIES, "max.records.per.epoch": 100})
    with runtime:
        runtime.start()
        place.put("in", amounts(0, 3_000))
        wait(lambda: bool(place.last("out")), runtime)
        membership = Membership(open_blobs(runtime.config.checkpoint_dir, fsync=False))
        program = membership.keep_program(without_a_topic("in", "out"), {})
        requests, alive = running_runtime(runtime.config)
        requests.ask(RuntimeRequest("replace", "counts", program), 120, alive)
        place.put("in", amounts(3_000, 3_500))
        wait(lambda: sum(row["n"] for row in place.last("out").values()) == 3_500, runtime)
        assert runtime.topology("counts").config.max_records_per_epoch == 100


def test_at_a_start_the_program_before_reads_what_it_has_sent_to_a_topic_that_is_gone(place: Place) -> None:
    topics(place, "in", "out")
    place.put("in", amounts(0, 30))
    place.run(through_a_topic("in", "out"))
    place.put(f"{place.application_id}-again-repartition", amounts(30, 50))
    place.put("in", amounts(50, 60))
    app = place.run(without_a_topic("in", "out"))
    assert sum(row["n"] for row in place.last("out").values()) == 60
    assert app.store("counts").get("k0").value == {"n": len(range(0, 60, 7))}


def with_stores(*names: str, unlogged: str = "") -> Topology:
    """Counts per key, in a store of each name; each is written to the topic of that name."""
    builder = StreamsBuilder()
    grouped = builder.stream("in", Consumed.with_(TEXT, AMOUNTS)).group_by_key()
    for name in names:
        stored = Materialized.as_(name)
        stored = stored.with_logging_disabled() if name == unlogged else stored
        grouped.agg(stored, n=count(), name=name).to_stream().to(name, WRITTEN)
    return builder.build()


@pytest.mark.slow
def test_rows_of_removed_stores_are_deleted_if_that_is_asked_for_those_without_changelog_too(place: Place) -> None:
    topics(place, "in", "kept", "more", "scratch")
    place.put("in", amounts(0, 30))
    everything = with_stores("kept", "more", "scratch", unlogged="scratch")
    place.run(everything)
    unlogged = [path for path in (place.folder / "state").rglob("unlogged/0-*") if path.is_dir()]
    assert unlogged, "the store without changelog is in folders of its own"
    app = place.app(with_stores("kept"))
    app.delete_removed_stores()
    place.put("in", amounts(30, 40))
    app.run_to_end()
    gone = {line for line in app.topology_changes if "is gone" in line}
    assert gone == {"store more is gone: its rows are deleted", "store scratch is gone: its rows are deleted"}
    assert not [path for path in unlogged if path.exists()]
    place.put("in", amounts(42, 49))
    place.run(everything)
    assert sum(row["n"] for row in place.last("kept").values()) == 47
    for name in ("more", "scratch"):
        assert {row["n"] for row in place.last(name).values()} == {1}, "they came back and began empty"
