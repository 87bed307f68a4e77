"""What runs where: levels, partition counts, bundles, forms."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import polars as pl
import pytest

from hayase import (
    Consumed,
    Grouped,
    Materialized,
    Produced,
    Repartitioned,
    Serdes,
    StreamsBuilder,
    Topology,
    count,
    left,
    right,
    sum_,
)
from hayase.compiler.build import check_sinks, levels_of, make_plan, sink_topics, source_topics
from hayase.compiler.compile import compile_subtopologies
from hayase.compiler.options import compile_options, configured
from hayase.compiler.partitions import partition_counts
from hayase.core.config import StreamsConfig
from hayase.core.errors import TopologyError, UnknownTopicError
from hayase.processor.timestamps import callable_timestamp, record_timestamp
from hayase.task.compiled_subtopology import CompiledSubtopology
from hayase.task.plan import Plan
from hayase.topology.resolve import resolve_patterns, with_application_id

TEXT, JSON = Serdes.string(), Serdes.json()
ORDER = Consumed.with_(TEXT, Serdes.json(schema={"region": pl.String, "product": pl.String, "amount": pl.Int64}))


def compiled(topology: Topology, **settings: Any) -> dict[str, CompiledSubtopology]:
    config = StreamsConfig({"application.id": "a", **{key.replace("_", "."): v for key, v in settings.items()}})
    topology = configured(topology, config)
    return compile_subtopologies(topology, compile_options(config))


def plan(topology: Topology, topics: Mapping[str, int], threads: int = 2, bundles: int | None = None) -> Plan:
    return make_plan(topology, topics, compiled(topology), threads=threads, bundles_per_subtopology=bundles)


def three_levels() -> Topology:
    """A global table (level 0), its readers (1), a shuffle (2), another one (3)."""
    builder = StreamsBuilder()
    products = builder.global_table("products", Consumed.with_(TEXT, JSON), Materialized.as_("products"))
    orders = builder.stream("orders", ORDER).join(products, lambda _, order: order["product"], lambda order, _: order)
    by_region = orders.group_by(lambda _, order: order["region"], Grouped.with_(TEXT, JSON)).count()
    again = by_region.to_stream().group_by(lambda _, n: str(n), Grouped.with_(TEXT, Serdes.long()))
    again.count().to_stream().to("out", Produced.with_(TEXT, Serdes.long()))
    return builder.build()


def rekeyed() -> Topology:
    builder = StreamsBuilder()
    table = builder.stream("orders", ORDER).group_by(pl.col("region"), Grouped.with_(TEXT)).agg(n=count())
    table.to_stream().to("out", Produced.with_(TEXT, JSON))
    return builder.build()


def joined(left_topic: str = "orders", right_topic: str = "users", *, rekey: bool = False) -> Topology:
    builder = StreamsBuilder()
    orders = builder.stream(left_topic, ORDER)
    if rekey:
        orders = orders.select_key(pl.col("region"))
    users = builder.table(right_topic, Consumed.with_(TEXT, Serdes.json(schema={"name": pl.String})))
    orders.join(users, {"amount": left("amount"), "name": right("name")}).to("out", Produced.with_(TEXT, JSON))
    return builder.build()


def test_a_subtopology_is_one_level_above_everything_it_gets_rows_of_and_above_the_global_tables_it_reads() -> None:
    assert levels_of(three_levels()) == {"global0": 0, "1": 1, "2": 2, "3": 3}
    assert plan(three_levels(), {"orders": 2, "products": 3}).levels == 4


def test_a_global_table_is_one_task_that_reads_all_partitions() -> None:
    found = plan(three_levels(), {"orders": 2, "products": 3})
    (task,) = found.bundle_of("global0_0").tasks
    assert [(topic, partition) for _, topic, partition in task.topic_partitions] == [("products", p) for p in range(3)]
    assert compiled(three_levels())["1"].reads_global == ("products",)


def test_a_repartition_has_as_many_partitions_as_what_flows_into_it() -> None:
    assert set(plan(three_levels(), {"orders": 5, "products": 3}).repartitions.values()) == {5}


def test_a_repartition_that_is_joined_takes_the_count_of_its_partner() -> None:
    found = plan(joined(rekey=True), {"orders": 2, "users": 7})
    assert list(found.repartitions.values()) == [7]


def test_joined_topics_must_have_the_same_number_of_partitions() -> None:
    assert plan(joined(), {"orders": 3, "users": 3}).subtopologies["0"].partitions == 3
    with pytest.raises(TopologyError) as refused:
        plan(joined(), {"orders": 2, "users": 3})
    assert refused.value.condition == "PARTITIONS_DIFFER"
    assert "orders has 2, users has 3" in refused.value.message


def test_missing_source_topics_are_all_named() -> None:
    with pytest.raises(UnknownTopicError) as refused:
        plan(joined(), {})
    assert refused.value.condition == "UNKNOWN_TOPIC"
    assert "orders, users" in refused.value.message


def test_missing_sink_topics_are_named_and_repartitions_are_no_topics() -> None:
    assert sink_topics(rekeyed()) == ["out"]
    assert source_topics(rekeyed()) == ["orders"]
    check_sinks(rekeyed(), {"out": 1})
    with pytest.raises(UnknownTopicError) as refused:
        check_sinks(rekeyed(), {})
    assert "out" in refused.value.message


@pytest.mark.parametrize(("threads", "bundles"), [(1, 2), (2, 4), (3, 6), (50, 12)])
def test_there_are_two_bundles_per_thread_and_never_more_than_tasks(threads: int, bundles: int) -> None:
    found = plan(rekeyed(), {"orders": 12}, threads)
    for subtopology in ("0", "1"):
        members = [bundle for bundle in found.bundles if bundle.subtopology == subtopology]
        assert len(members) == bundles
        assert sorted(task.partition for bundle in members for task in bundle.tasks) == list(range(12))
        assert max(len(b.tasks) for b in members) - min(len(b.tasks) for b in members) <= 1


def test_with_the_bundles_of_the_first_start_other_thread_counts_give_the_same_plan() -> None:
    first = plan(three_levels(), {"orders": 8, "products": 1}, threads=2)
    for threads in (1, 3, 16):
        later = plan(three_levels(), {"orders": 8, "products": 1}, threads=threads, bundles=4)
        assert later.digest == first.digest
    assert plan(three_levels(), {"orders": 8, "products": 1}, threads=3).digest != first.digest


def test_the_form_is_no_part_of_the_plan() -> None:
    topology = rekeyed()
    forms = [compiled(topology, processing_form=form) for form in ("rows", "columns")]
    assert [subtopologies["0"].form for subtopologies in forms] == ["rows", "columns"]
    plans = [make_plan(topology, {"orders": 2}, subtopologies, threads=1) for subtopologies in forms]
    assert plans[0].digest == plans[1].digest


def test_expressions_and_built_in_aggregates_run_in_columns_and_are_pure_until_there_is_a_store() -> None:
    subtopologies = compiled(rekeyed())
    assert [(u.form, u.pure, u.stateful) for u in subtopologies.values()] == [
        ("columns", True, False),
        ("columns", False, True),
    ]
    assert subtopologies["0"].reason == "every node has a column form"


def stateless(step: Any, consumed: Consumed = ORDER) -> CompiledSubtopology:
    builder = StreamsBuilder()
    step(builder.stream("orders", consumed)).to("out", Produced.with_(TEXT, JSON))
    return compiled(builder.build())["0"]


def test_a_callable_makes_a_subtopology_impure_but_not_stateful() -> None:
    subtopology = stateless(lambda stream: stream.filter(lambda _, order: order["amount"] > 1))
    assert (subtopology.pure, subtopology.stateful) == (False, False)


def test_a_source_that_is_compacted_makes_a_subtopology_impure() -> None:
    builder = StreamsBuilder()
    builder.stream("orders", ORDER).filter(pl.col("amount") > 1).to("out", Produced.with_(TEXT, JSON))
    topology = builder.build()
    options = compile_options(StreamsConfig({"application.id": "a"}), frozenset({"orders"}))
    assert not compile_subtopologies(topology, options)["0"].pure


def test_partition_time_makes_a_subtopology_stateful() -> None:
    extractor = record_timestamp("partition_time")
    subtopology = stateless(lambda stream: stream, ORDER.with_timestamp_extractor(extractor))
    assert (subtopology.stateful, subtopology.pure) == (True, False)


@pytest.mark.parametrize(
    ("consumed", "reason"),
    [
        (Consumed.with_(TEXT, JSON), "has a serde without a schema"),
        (
            ORDER.with_timestamp_extractor(callable_timestamp(lambda r, _: r.timestamp_ms)),
            "callable timestamp extractor",
        ),
    ],
)
def test_what_has_no_column_form_runs_in_rows_and_says_why(consumed: Consumed, reason: str) -> None:
    subtopology = stateless(lambda stream: stream, consumed)
    assert subtopology.form == "rows"
    assert reason in subtopology.reason


def test_a_custom_aggregate_runs_in_rows_and_columns_cannot_be_forced_on_it() -> None:
    builder = StreamsBuilder()
    grouped = builder.stream("orders", ORDER).group_by_key()
    grouped.aggregate(dict, lambda _k, _v, total: total, Materialized.as_("t").with_value_serde(JSON))
    topology = builder.build()
    assert "as written, has no column form" in compiled(topology)["0"].reason
    with pytest.raises(TopologyError) as refused:
        compiled(topology, processing_form="columns")
    assert refused.value.condition == "NO_COLUMN_FORM"


def test_expressions_below_a_source_run_in_columns_although_the_rest_runs_in_rows_and_the_form_says_so() -> None:
    builder = StreamsBuilder()
    grouped = builder.stream("orders", ORDER).filter(pl.col("amount") > 0).group_by_key()
    grouped.aggregate(dict, lambda _k, _v, total: total, Materialized.as_("t").with_value_serde(JSON))
    subtopology = compiled(builder.build())["0"]
    assert subtopology.shown_form == f"rows, prefix in columns: KSTREAM-FILTER-0000000001 ({subtopology.reason})"
    assert compiled(builder.build(), processing_form="rows")["0"].shown_form == "rows (processing.form is 'rows')"


def test_rows_know_the_types_that_cross_a_shuffle() -> None:
    builder = StreamsBuilder()
    prices = builder.stream("in", Consumed.with_(TEXT, Serdes.json(schema={"s": pl.String, "x": pl.Float64})))
    prices.group_by(pl.col("s"), Grouped.with_(TEXT)).agg(total=sum_("x"))
    subtopologies = compiled(builder.build(), processing_form="rows")
    assert [subtopology.form for subtopology in subtopologies.values()] == ["rows", "rows"]
    (source,) = subtopologies["1"].sources
    value = subtopologies["1"].schemas[source.name].value
    assert value is not None
    assert dict(value.fields)["x"] == pl.Float64


def internal(partitions: int | None = None, *, join: bool = False) -> Topology:
    builder = StreamsBuilder()
    made = Repartitioned.with_(name="x", number_of_partitions=partitions)
    stream = builder.stream("orders", ORDER).repartition(made)
    if join:
        stream = stream.join(builder.table("users", ORDER), {"amount": left("amount")})
    stream.to("out", Produced.with_(TEXT, JSON))
    return with_application_id(builder.build(), "a")


@pytest.mark.parametrize(("given", "join", "wanted"), [(None, False, 4), (7, False, 7), (None, True, 5)])
def test_an_internal_topic_has_the_partitions_it_was_given_else_its_partners_else_those_upstream(
    given: int | None, join: bool, wanted: int
) -> None:
    topics = {"orders": 4} | ({"users": 5} if join else {})
    assert partition_counts(internal(given, join=join), topics) == {"a-x-repartition": wanted}


def test_an_internal_topic_is_read_like_a_topic_and_makes_no_level() -> None:
    topology = internal(3)
    assert source_topics(topology) == ["a-x-repartition", "orders"]
    found = make_plan(topology, {"orders": 2, "a-x-repartition": 3}, compiled(internal(3)), threads=1)
    assert found.levels == 1
    assert {subtopology.id: subtopology.partitions for subtopology in found.subtopologies.values()} == {"0": 2, "1": 3}
    assert found.repartitions == {}


def test_topics_that_a_pattern_matches_are_no_part_of_what_must_stay_the_same() -> None:
    builder = StreamsBuilder()
    builder.stream(re.compile("in-.*"), ORDER).to("out", Produced.with_(TEXT, JSON))
    one = resolve_patterns(builder.build(), ["in-a"])
    two = resolve_patterns(builder.build(), ["in-a", "in-b"])
    assert plan(one, {"in-a": 2}).digest == plan(two, {"in-a": 2, "in-b": 1}).digest
    assert plan(one, {"in-a": 2}).digest != plan(two, {"in-a": 2, "in-b": 3}).digest


def test_a_subtopology_whose_sink_calls_a_function_is_not_pure() -> None:
    builder = StreamsBuilder()
    builder.stream("orders", ORDER).to(pl.col("region"), Produced.with_(TEXT, JSON))
    assert compiled(builder.build())["0"].pure
    builder = StreamsBuilder()
    builder.stream("orders", ORDER).to(lambda key, value, context: "x", Produced.with_(TEXT, JSON))
    assert not compiled(builder.build())["0"].pure


def by_foreign_key(*, rekey: bool) -> Topology:
    builder = StreamsBuilder()
    orders = builder.stream("orders", ORDER)
    table = (orders.select_key(pl.col("product")) if rekey else orders).to_table(Materialized.as_("orders"))
    regions = builder.table("regions", Consumed.with_(TEXT, TEXT))
    table.join(regions, "region", lambda order, region: region).to_stream().to("out", Produced.with_(TEXT, TEXT))
    return builder.build()


@pytest.mark.parametrize("rekey", [False, True])
def test_questions_have_the_partitions_of_the_right_table_and_answers_those_of_the_left(rekey: bool) -> None:
    topology = configured(by_foreign_key(rekey=rekey), StreamsConfig({"application.id": "a"}))
    counts = partition_counts(topology, {"orders": 2, "regions": 5})
    assert {name.split("-")[-3]: count for name, count in counts.items() if "SUBSCRIPTION" in name} == {
        "REGISTRATION": 5,
        "RESPONSE": 2,
    }


def test_a_repartition_that_leads_back_to_its_own_tasks_is_an_internal_topic() -> None:
    builder = StreamsBuilder()
    users = builder.table("users", Consumed.with_(TEXT, TEXT))
    counts = users.group_by(lambda user, name: (name, user), Grouped.with_(TEXT, TEXT)).count(Materialized.as_("n"))
    users.join(counts, lambda name, n: f"{name}{n}").to_stream().to("out", Produced.with_(TEXT, TEXT))
    topology = configured(builder.build(), StreamsConfig({"application.id": "a"}))
    assert not topology.repartitions
    assert partition_counts(topology, {"users": 3}) == {"a-n-repartition": 3}
