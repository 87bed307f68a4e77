"""Tables that are grouped, joined or suppressed: where the input is cut into epochs changes no result."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.budget import examples
from tests.unit.task.harness import Given, Result, merged, run, run_partitions

from hayase import (
    BufferConfig,
    Consumed,
    Grouped,
    Materialized,
    Produced,
    Serdes,
    StreamsBuilder,
    Suppressed,
    Topology,
    avg,
    count,
    sum_,
)
from hayase.kernel.aggregate.built_in_serde import AggregateSerde
from hayase.serde.murmur2 import partition_for_key
from hayase.topology.operators import FieldAggregate

pytestmark = pytest.mark.usefixtures("quiet")

GROUP = [
    FieldAggregate("n", "count"),
    FieldAggregate("total", "sum", pl.col("n")),
    FieldAggregate("mean", "avg", pl.col("n")),
]
TEXT, LONG, JSON = Serdes.string(), Serdes.long(), Serdes.json(sort_fields=True)
READ = Consumed.with_(TEXT, JSON)
WRITE = Produced.with_(TEXT, JSON)
KEPT, KEPT_LEFT = (Materialized.as_(name).with_value_serde(JSON) for name in ("kept", "t"))


def grouped() -> Topology:
    builder = StreamsBuilder()
    by_group = builder.table("a", READ).group_by("g", Grouped.with_(TEXT, JSON, name="by-group"))
    by_group.agg(Materialized.as_("t"), n=count(), total=sum_("n"), mean=avg("n")).to_stream().to("out", WRITE)
    return builder.build()


def grouped_twice() -> Topology:
    builder = StreamsBuilder()
    sums = builder.table("a", READ).group_by(lambda _, row: (row["g"], row["n"]), Grouped.with_(TEXT, LONG))
    table = sums.reduce(lambda total, n: total + n, lambda total, n: total - n, Materialized.as_("sums"))
    again = table.group_by(lambda group, total: (str(total % 3), group), Grouped.with_(TEXT, TEXT))
    again.count(Materialized.as_("t")).to_stream().to("out", Produced.with_(TEXT, LONG))
    return builder.build()


def joined() -> Topology:
    builder = StreamsBuilder()
    left, right = builder.table("a", READ), builder.table("b", READ).filter(lambda _, row: row["n"] > 0)
    left.outer_join(right, pair).to_stream().to("outer", WRITE)
    left.left_join(right, pair, KEPT).to_stream().to("left", WRITE)
    left.join(right, pair).to_stream().to("inner", WRITE)
    return builder.build()


def joined_and_grouped() -> Topology:
    builder = StreamsBuilder()
    both = builder.table("a", READ).outer_join(builder.table("b", READ), pair)
    group = Grouped.with_(TEXT, LONG)
    table = both.group_by(lambda _, row: (str(row["l"] and row["l"]["g"]), 1), group).count(Materialized.as_("t"))
    table.to_stream().to("out", Produced.with_(TEXT, LONG))
    return builder.build()


def joined_by_foreign_key() -> Topology:
    builder = StreamsBuilder()
    left, right = builder.table("a", READ), builder.table("b", READ)
    left.join(right, foreign_key, pair, None, KEPT).to_stream().to("inner", WRITE)
    left.left_join(right, foreign_key, pair, None, KEPT_LEFT).to_stream().to("left", WRITE)
    return builder.build()


def foreign_key(row: Any) -> str | None:
    return {"p": "k", "q": "l"}.get(row["g"])


def suppressed() -> Topology:
    builder = StreamsBuilder()
    table = builder.table("a", READ, Materialized.as_("rows"))
    limited = table.suppress(Suppressed.until_time_limit(timedelta(milliseconds=30), BufferConfig.max_records(2)))
    limited.to_stream().to("out", WRITE)
    limited.group_by("g", Grouped.with_(TEXT, JSON)).count(Materialized.as_("t"))
    return builder.build()


def pair(left: Any, right: Any) -> Any:
    return {"l": left, "r": right}


TOPOLOGIES: dict[str, Callable[[], Topology]] = {
    "grouped": grouped,
    "grouped twice": grouped_twice,
    "joined": joined,
    "joined and grouped": joined_and_grouped,
}
BY_FOREIGN_KEY = {"by foreign key": joined_by_foreign_key}
SENT_ALIKE = {**TOPOLOGIES, "suppressed": suppressed}
"""What they send with caches off does not depend on the cuts; answers of foreign keys come in another epoch."""
SETTLED_ALIKE = {**{name: TOPOLOGIES[name] for name in TOPOLOGIES if name != "grouped twice"}, **BY_FOREIGN_KEY}
"""What they hold in the end does not depend on the cuts, not even with caches.

These merge updates before `suppress`, and hide groups that come and go within an epoch, whose empty rows a second
grouping sees.
"""
EVERY = {**SENT_ALIKE, **SETTLED_ALIKE}

rows = st.fixed_dictionaries({"g": st.sampled_from("pqr"), "n": st.integers(-5, 9)})
values = st.none() | rows.map(lambda row: json.dumps(row).encode())
keys = st.sampled_from([b"k", b"l", b"m"])
records = st.lists(
    st.builds(Given, st.sampled_from("ab"), st.just(0), keys, values, st.integers(0, 120), st.just(())), max_size=30
).map(merged)
cuts = st.lists(st.integers(0, 30), max_size=5)

OFF: dict[str, Any] = {"statestore_cache_max_bytes": 0}


def of_users(result: Result) -> dict[tuple[str, str], dict[bytes, bytes]]:
    return {place: rows for place, rows in result.stores.items() if place[1] != "__clocks"}


@pytest.mark.parametrize("name", SENT_ALIKE)
@settings(max_examples=examples(40), deadline=None, print_blob=True)
@given(found=records, at=cuts)
def test_with_caches_off_the_same_is_sent_wherever_the_input_is_cut(
    name: str, found: list[Given], at: list[int]
) -> None:
    whole = run(EVERY[name](), found, **OFF)
    cut = run(EVERY[name](), found, at, **OFF)
    assert cut.sent == whole.sent
    assert cut.stores == whole.stores


@pytest.mark.parametrize("name", SETTLED_ALIKE)
@settings(max_examples=examples(40), deadline=None, print_blob=True)
@given(found=records, at=cuts)
@example(
    found=[
        Given("a", 0, b"k", b'{"g":"p","n":0}', 0, ()),
        Given("b", 0, b"k", b'{"g":"p","n":0}', 0, ()),
        Given("b", 0, b"k", None, 1, ()),
    ],
    at=[],
)
def test_with_caches_on_cuts_change_no_store_and_no_last_value(name: str, found: list[Given], at: list[int]) -> None:
    whole = run(EVERY[name](), found, **OFF)
    cut = run(EVERY[name](), found, at)
    assert values_of(cut) == values_of(whole)
    for topic in whole.sent:
        assert last_of(cut, topic) == last_of(whole, topic)


EMPTY = (None, LONG.to_bytes(0), AggregateSerde(GROUP).pack([0, 0, 0.0, 0]), b'{"mean":null,"n":0,"total":0}')
"""Rows of groups that are empty again: with a cache they may never have been seen."""


def values_of(result: Result) -> dict[tuple[str, str], dict[bytes, bytes]]:
    """Rows without timestamps."""
    return {
        place: {key: value[8:] for key, value in stored.items() if value[8:] not in EMPTY}
        for place, stored in of_users(result).items()
    }


def last_of(result: Result, topic: str) -> dict[bytes | None, bytes | None]:
    return {key: value for key, value in result.last(topic).items() if value not in EMPTY}


def spread(found: list[Given]) -> list[Given]:
    return merged([r._replace(partition=partition_for_key(r.key or b"", 3)) for r in found])


@pytest.mark.parametrize("name", ["joined", "grouped twice", "by foreign key"])
@settings(max_examples=examples(10), deadline=None, print_blob=True)
@given(found=records)
@example(found=[Given("a", 0, b"k", b'{"g":"q","n":0}', 0, ()), Given("a", 0, b"l", b'{"g":"q","n":1}', 1, ())])
def test_three_partitions_have_the_rows_of_one(name: str, found: list[Given]) -> None:
    one = run(EVERY[name](), found, **OFF)
    three = run_partitions(EVERY[name](), {"a": 3, "b": 3}, spread(found), threads=2, **OFF)
    for store in ("t", "kept"):
        mine, theirs = (
            {
                key: value[8:]
                for place, stored in of_users(r).items()
                if place[1] == store
                for key, value in stored.items()
                if value[8:] not in EMPTY  # which groups came and went depends on what arrived first
            }
            for r in (one, three)
        )
        assert mine == theirs
