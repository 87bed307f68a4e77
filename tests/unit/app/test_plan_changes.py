"""What PLAN_CHANGED says of two programs."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import polars as pl

from hayase import Consumed, Serdes, StreamsBuilder, count
from hayase.app.plan_changes import differences, plan_changed
from hayase.compiler.build import make_plan, source_topics
from hayase.compiler.compile import compile_subtopologies
from hayase.compiler.options import compile_options, configured
from hayase.core.config import StreamsConfig

ORDERS = Consumed.with_(Serdes.string(), Serdes.json(schema={"city": pl.String, "cents": pl.Int64}))


def plan_of(build: Callable[[StreamsBuilder], None]) -> str:
    builder = StreamsBuilder()
    build(builder)
    config = StreamsConfig({"application.id": "shop"})
    topology = configured(builder.build(), config)
    compiled = compile_subtopologies(topology, compile_options(config))
    topics = dict.fromkeys(source_topics(topology), 2)
    return make_plan(topology, topics, compiled, threads=1, bundles_per_subtopology=None).to_json()


def shop(stream: Any) -> None:
    by_city = stream.map_values(pl.col("city")).group_by("value")
    by_city.agg(orders=count()).to_stream().to("per-city")


def plain(builder: StreamsBuilder) -> None:
    shop(builder.stream("orders", ORDERS))


def filtered(builder: StreamsBuilder) -> None:
    shop(builder.stream("orders", ORDERS).filter(pl.col("cents") > 0))


def behind_another(builder: StreamsBuilder) -> None:
    builder.stream("a", ORDERS).to("b")
    plain(builder)


def changes(old: Callable[[StreamsBuilder], None], new: Callable[[StreamsBuilder], None]) -> list[str]:
    return differences(json.loads(plan_of(old)), json.loads(plan_of(new)))


def test_an_inserted_operator_is_named_and_not_the_numbers_behind_it() -> None:
    first, last = changes(plain, filtered)
    assert first == "sub-topology 0 has a new KSTREAM-FILTER-0000000001"
    assert "generated names have another number, e.g. " in last


def filtered_twice(builder: StreamsBuilder) -> None:
    shop(builder.stream("orders", ORDERS).filter(pl.col("cents") > 0).filter(pl.col("cents") < 9))


def test_one_of_two_equal_operators_that_goes_is_named() -> None:
    assert "has no KSTREAM-FILTER-000000000" in changes(filtered_twice, filtered)[0]


def test_a_removed_operator_is_named_and_not_the_numbers_behind_it() -> None:
    first, _ = changes(filtered, plain)
    assert first == "sub-topology 0 has no KSTREAM-FILTER-0000000001 any more"


def test_a_sub_topology_in_front_gives_the_others_another_number_only() -> None:
    first, *others = changes(plain, behind_another)
    assert first == "sub-topology 0 (KSTREAM-SOURCE-0000000000, KSTREAM-SINK-0000000001) is new"
    assert others[0] == "source topic a is new" and len(others) == 2


def test_the_error_has_the_real_change_first_and_the_commands() -> None:
    said = plan_changed("shop", plan_of(plain), plan_of(filtered)).message
    assert "made with: sub-topology 0 has a new KSTREAM-FILTER-0000000001; " in said
    assert "`hayase app reset shop`" in said
