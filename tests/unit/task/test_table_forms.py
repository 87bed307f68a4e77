"""Tables that are grouped, joined and suppressed.

Columns send and keep what rows do, wherever the input is cut into epochs.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.budget import examples
from tests.unit.task.harness import Chunking, Given, Result, merged, run, run_partitions

from hayase import (
    BufferConfig,
    Consumed,
    Grouped,
    Materialized,
    Produced,
    Serdes,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    Topology,
    avg,
    count,
    left,
    right,
    sum_,
)
from hayase.serde import TimeWindowedSerde
from hayase.serde.murmur2 import partition_for_key

pytestmark = pytest.mark.usefixtures("quiet")

TEXT, LONG, JSON = Serdes.string(), Serdes.long(), Serdes.json()
FIELDS = {"g": pl.String, "n": pl.Int64, "x": pl.Float64}
TYPED = Serdes.json(schema=FIELDS)
READ = Consumed.with_(TEXT, TYPED)
WRITE = Produced.with_(TEXT, JSON)
EVERYTHING: dict[str, Any] = {
    "rows": count(),
    "counted": count("n"),
    "total": sum_("n"),
    "sum_x": sum_("x"),
    "mean_x": avg("x"),
    "mean": avg("n"),
}


def grouped() -> Topology:
    builder = StreamsBuilder()
    by_group = builder.table("a", READ).group_by("g", Grouped.with_(TEXT, TYPED, name="by-group"))
    by_group.agg(Materialized.as_("t"), **EVERYTHING).to_stream().to("out", WRITE)
    by_group.count(Materialized.as_("c")).to_stream().to("counts", Produced.with_(TEXT, LONG))
    return builder.build()


def grouped_by_several_fields() -> Topology:
    builder = StreamsBuilder()
    table = builder.table("a", READ, Materialized.as_("rows")).filter(pl.col("n") != 2)
    both = table.group_by(key={"g": pl.col("g"), "odd": pl.col("n") % 2}, value={"m": pl.col("n") * 2})
    sums = both.agg(Materialized.as_("t"), total=sum_("m"), mean=avg("m"))
    sums.to_stream().select_key(pl.col("__key").struct.field("g")).to("out", WRITE)
    return builder.build()


def grouped_twice() -> Topology:
    builder = StreamsBuilder()
    sums = builder.table("a", READ).group_by("g").agg(Materialized.as_("sums"), total=sum_("n"), people=count())
    again = sums.group_by(key=pl.col("total").cast(pl.String) + "!", value=pl.col("people"))
    again.agg(Materialized.as_("t"), people=sum_("value"), groups=count()).to_stream().to("out", WRITE)
    return builder.build()


def looked_up() -> Topology:
    """Streams that read a table of groups while it changes."""
    builder = StreamsBuilder()
    table = builder.table("a", READ).group_by("g", Grouped.with_(TEXT)).agg(Materialized.as_("t"), total=sum_("n"))
    stream = builder.stream("b", READ).select_key(pl.col("g").fill_null("p")).repartition()
    stream.left_join(table, {"n": left("n"), "total": right("total")}).to("out", WRITE)
    return builder.build()


def with_failing_expressions() -> Topology:
    """Text that is no number fails: as a group, as a value, as an input."""
    builder = StreamsBuilder()
    table = builder.table("a", READ)
    number = pl.col("g").cast(pl.Int64)
    by_number = table.group_by(key=number.cast(pl.String), value={"n": pl.col("n")})
    by_number.count(Materialized.as_("t")).to_stream().to("out", Produced.with_(TEXT, LONG))
    by_odd = table.group_by(key=(pl.col("n") % 2).cast(pl.String))
    by_odd.agg(Materialized.as_("sums"), total=sum_(number), n=sum_("n")).to_stream().to("sums", WRITE)
    return builder.build()


PAIR = {"n": left("n"), "g": right("g"), "sum": left("n") + right("n").fill_null(1), "at": pl.col("__ts")}
PAIRS = Serdes.json(schema={"n": pl.Int64, "g": pl.String, "sum": pl.Int64, "at": pl.Int64})
KEPT = Materialized.as_("kept").with_value_serde(PAIRS)


def joined() -> Topology:
    builder = StreamsBuilder()
    one, other = builder.table("a", READ), builder.table("b", READ).filter(pl.col("n") > 0)
    one.outer_join(other, PAIR).to_stream().to("outer", WRITE)
    one.left_join(other, PAIR, KEPT).to_stream().to("left", WRITE)
    one.join(other, PAIR).to_stream().to("inner", WRITE)
    return builder.build()


def joined_three_times() -> Topology:
    """Joins without stores are read by other joins; filters of them as well; old values go all the way."""
    builder = StreamsBuilder()
    one, other = builder.table("a", READ), builder.table("b", READ).map_values({"n": pl.col("n") - 1, "g": pl.col("g")})
    both = one.outer_join(other, {"n": left("n").fill_null(right("n")), "g": right("g")})
    again = both.filter(pl.col("n") != 3).left_join(one, {"n": left("n") + right("n"), "g": left("g")})
    again.join(other, {"n": left("n"), "g": right("g").cast(pl.Int64)}).to_stream().to("out", WRITE)
    again.group_by(key=pl.col("g").fill_null("?")).agg(Materialized.as_("t"), total=sum_("n")).to_stream().to(
        "t", WRITE
    )
    return builder.build()


def joined_with_itself() -> Topology:
    builder = StreamsBuilder()
    one = builder.table("a", READ)
    one.outer_join(one.filter(pl.col("n") > 1), PAIR).to_stream().to("out", WRITE)
    one.join(one, PAIR, KEPT).filter(pl.col("sum") > 2).to_stream().to("same", WRITE)
    return builder.build()


def joined_by_calls() -> Topology:
    def pair(one: dict[str, Any] | None, other: dict[str, Any] | None) -> str | None:
        if one is not None and one["n"] == 2:
            raise ValueError("two")
        return None if other is not None and other["n"] == 1 else f"{one} {other}"

    builder = StreamsBuilder()
    one, other = builder.table("a", READ), builder.table("b", READ)
    kept = Materialized.as_("kept").with_value_serde(TEXT)
    one.outer_join(other, pair, kept).filter(pl.col("value") != "").to_stream().to("out", Produced.with_(TEXT, TEXT))
    one.left_join(other, pair).to_stream().to("left", Produced.with_(TEXT, TEXT))
    return builder.build()


def joined_groups() -> Topology:
    builder = StreamsBuilder()
    group = Grouped.with_(TEXT, TYPED)
    one = builder.table("a", READ).group_by("g", group).agg(Materialized.as_("t"), n=sum_("n"))
    other = builder.table("b", READ).group_by("g", group).count(Materialized.as_("c"))
    one.outer_join(other, {"n": left("n"), "rows": right("value")}).to_stream().to("out", WRITE)
    return builder.build()


FOREIGN = pl.when(pl.col("g") == "p").then(pl.lit("k")).when(pl.col("g") == "q").then(pl.lit("l"))
FOREIGN_PAIR = {"n": left("n"), "g": right("g"), "m": right("n"), "k": pl.col("__key")}


def joined_by_foreign_key() -> Topology:
    builder = StreamsBuilder()
    one, other = builder.table("a", READ), builder.table("b", READ)
    one.join(other, FOREIGN, FOREIGN_PAIR).to_stream().to("inner", WRITE)
    one.left_join(other, FOREIGN, FOREIGN_PAIR, None, Materialized.as_("kept")).to_stream().to("left", WRITE)
    return builder.build()


def joined_by_foreign_key_of_views() -> Topology:
    """Tables without stores on both sides, functions, results that are grouped."""

    def foreign(row: dict[str, Any]) -> str | None:
        if row["n"] == 4:
            raise ValueError("four")
        return {"p": "k", "q": "l"}.get(row["g"])

    def both(one: dict[str, Any] | None, other: dict[str, Any] | None) -> str:
        if other is not None and other["n"] == 1:
            raise ValueError("one")
        return f"{one} {other and other['n']}"

    builder = StreamsBuilder()
    one = builder.table("a", READ).filter(pl.col("n") != 2)
    other = builder.table("b", READ, Materialized.as_("other")).map_values({"n": pl.col("n") - 1, "s": pl.col("g")})
    by_calls = one.left_join(other, foreign, both)
    by_calls.to_stream().to("out", Produced.with_(TEXT, TEXT))
    by_calls.group_by(key=pl.col("value").str.slice(0, 8)).count(Materialized.as_("t"))
    one.join(other, FOREIGN, right("s")).to_stream().to("bare", Produced.with_(TEXT, TEXT))
    return builder.build()


def joined_and_read_by_a_stream() -> Topology:
    builder = StreamsBuilder()
    one = builder.table("a", READ)
    both = one.left_join(one.filter(pl.col("n") > 1), PAIR).map_values({"n": pl.col("n"), "sum": pl.col("sum") * 2})
    stream = builder.stream("b", READ)
    stream.left_join(both, {"n": left("n"), "sum": right("sum")}).to("out", WRITE)
    return builder.build()


def suppressed() -> Topology:
    builder = StreamsBuilder()
    table = builder.table("a", READ, Materialized.as_("rows"))
    limited = table.suppress(Suppressed.until_time_limit(timedelta(milliseconds=30), BufferConfig.max_records(2)))
    limited.to_stream().to("out", WRITE)
    limited.group_by("g", Grouped.with_(TEXT, TYPED)).count(Materialized.as_("t"))
    by_bytes = BufferConfig.max_bytes(200).with_max_records(4)
    again = limited.filter(pl.col("n") != 1).suppress(Suppressed.until_time_limit(timedelta(milliseconds=9), by_bytes))
    again.to_stream().to("again", WRITE)
    return builder.build()


def suppressed_windows() -> Topology:
    builder = StreamsBuilder()
    windows = TimeWindows.of_size_and_grace(timedelta(milliseconds=20), timedelta(milliseconds=15))
    counts = builder.stream("a", READ).group_by_key().windowed_by(windows).agg(Materialized.as_("w"), **EVERYTHING)
    closed = counts.suppress(Suppressed.until_window_closes(BufferConfig.unbounded()))
    closed.to_stream().to("out", Produced.with_(TimeWindowedSerde(TEXT, 20), JSON))
    early = counts.suppress(Suppressed.until_time_limit(timedelta(milliseconds=5), BufferConfig.max_records(1)))
    early.to_stream().to("early", Produced.with_(TimeWindowedSerde(TEXT, 20), JSON))
    return builder.build()


TOPOLOGIES: dict[str, Callable[[], Topology]] = {
    "suppressed": suppressed,
    "suppressed windows": suppressed_windows,
    "joined by foreign key": joined_by_foreign_key,
    "joined by foreign key of views": joined_by_foreign_key_of_views,
    "joined": joined,
    "joined three times": joined_three_times,
    "joined with itself": joined_with_itself,
    "joined and read by a stream": joined_and_read_by_a_stream,
    "joined by calls": joined_by_calls,
    "joined groups": joined_groups,
    "grouped": grouped,
    "grouped by several fields": grouped_by_several_fields,
    "grouped twice": grouped_twice,
    "looked up": looked_up,
    "with failing expressions": with_failing_expressions,
}


def grouped_between_forms() -> Topology:
    """Rows send to columns, and columns to rows."""
    builder = StreamsBuilder()
    group = Grouped.with_(TEXT, TYPED)
    by_call = builder.table("a", READ).group_by(lambda _, row: (row["g"], row), group)
    by_call.agg(Materialized.as_("t"), **EVERYTHING).to_stream().to("out", WRITE)
    counts = Materialized.as_("c").with_value_serde(LONG)
    by_field = builder.table("b", READ).group_by("g", group)
    table = by_field.aggregate(lambda: 0, lambda _, row, n: n + 1, lambda _, row, n: n - 1, counts)
    table.to_stream().to("counts", Produced.with_(TEXT, LONG))
    return builder.build()


def joined_between_forms() -> Topology:
    """Foreign keys: a left side in rows asks a right side in columns, and the other way round."""
    builder = StreamsBuilder()
    group = Grouped.with_(TEXT, TYPED)
    one, other = builder.table("a", READ), builder.table("b", READ)
    in_rows = one.group_by(key=FOREIGN, grouped=group).reduce(lambda _, row: row, lambda kept, _: kept)
    in_rows.left_join(other, FOREIGN, FOREIGN_PAIR).to_stream().to("out", WRITE)
    other.left_join(in_rows, FOREIGN, FOREIGN_PAIR).to_stream().to("again", WRITE)
    return builder.build()


def suppressed_and_read_by_a_stream() -> Topology:
    """What was sent last, which only rows know, is read; that this runs in rows must be found out."""
    builder = StreamsBuilder()
    table = builder.table("a", READ, Materialized.as_("rows"))
    limited = table.suppress(Suppressed.until_time_limit(timedelta(milliseconds=30), BufferConfig.unbounded()))
    builder.stream("b", READ).left_join(limited, {"n": left("n"), "m": right("n")}).to("out", WRITE)
    return builder.build()


MIXED: dict[str, Callable[[], Topology]] = {
    "grouped between forms": grouped_between_forms,
    "joined between forms": joined_between_forms,
    "suppressed and read by a stream": suppressed_and_read_by_a_stream,
}
OFF: dict[str, Any] = {"statestore_cache_max_bytes": 0}
LENIENT = {"processing_exception_handler": "log_and_continue"}
CHUNKED = Chunking(records=2, max_bytes=300)

numbers = st.none() | st.integers(-5, 9) | st.sampled_from([2**62, -(2**62)])
fractions = st.none() | st.sampled_from([0.1, 0.2, -0.3, 1e16, 2.0, -0.0])
rows = st.fixed_dictionaries({"g": st.none() | st.sampled_from(["p", "q", "7"]), "n": numbers, "x": fractions})
values = st.none() | rows.map(lambda row: json.dumps(row).encode())
keys = st.sampled_from([b"k", b"l", b"m"])
headers = st.sampled_from([(), (), (("h", b"1"),)])
records = st.lists(
    st.builds(Given, st.sampled_from("ab"), st.just(0), keys, values, st.integers(0, 120), headers), max_size=30
).map(merged)
cuts = st.lists(st.integers(0, 30), max_size=5)


def assert_same(one: Result, other: Result) -> None:
    assert one.sent == other.sent
    assert one.stores == other.stores
    assert one.metrics.rows() == other.metrics.rows()


@pytest.mark.long
@pytest.mark.parametrize("name", TOPOLOGIES)
@settings(max_examples=examples(40), deadline=None, print_blob=True)
@given(found=records, at=cuts, cached=st.booleans())
def test_rows_and_columns_send_the_same_and_keep_the_same_stores(
    name: str, found: list[Given], at: list[int], cached: bool
) -> None:
    caching = LENIENT if cached else {**OFF, **LENIENT}
    in_rows = run(TOPOLOGIES[name](), found, at, processing_form="rows", **caching)
    in_columns = run(TOPOLOGIES[name](), found, at, processing_form="columns", **caching)
    assert_same(in_columns, in_rows)


@pytest.mark.long
@pytest.mark.parametrize("name", TOPOLOGIES)
@settings(max_examples=examples(20), deadline=None, print_blob=True)
@given(found=records, at=cuts, cached=st.booleans())
def test_epochs_in_rows_and_in_columns_by_turns_send_and_keep_the_same(
    name: str, found: list[Given], at: list[int], cached: bool
) -> None:
    caching = LENIENT if cached else {**OFF, **LENIENT}
    in_columns = run(TOPOLOGIES[name](), found, at, processing_form="columns", **caching)
    assert_same(run(TOPOLOGIES[name](), found, at, by_turns=True, **caching), in_columns)


@pytest.mark.parametrize("name", MIXED)
@settings(max_examples=examples(20), deadline=None, print_blob=True)
@given(found=records, at=cuts, cached=st.booleans())
def test_tasks_in_rows_and_tasks_in_columns_understand_each_other(
    name: str, found: list[Given], at: list[int], cached: bool
) -> None:
    caching = LENIENT if cached else {**OFF, **LENIENT}
    in_rows = run(MIXED[name](), found, at, processing_form="rows", **caching)
    in_both = run(MIXED[name](), found, at, processing_form="auto", **caching)
    assert_same(in_both, in_rows)


@pytest.mark.long
@pytest.mark.parametrize("name", TOPOLOGIES)
@settings(max_examples=examples(15), deadline=None, print_blob=True)
@given(found=records, at=cuts, cached=st.booleans())
def test_an_epoch_in_chunks_ends_as_one_that_fits_in_memory(
    name: str, found: list[Given], at: list[int], cached: bool
) -> None:
    caching = LENIENT if cached else {**OFF, **LENIENT}
    in_rows = run(TOPOLOGIES[name](), found, at, processing_form="rows", chunk=CHUNKED, **caching)
    in_columns = run(TOPOLOGIES[name](), found, at, processing_form="columns", chunk=CHUNKED, **caching)
    assert_same(in_columns, in_rows)


@pytest.mark.long
@pytest.mark.parametrize("name", TOPOLOGIES)
@settings(max_examples=examples(10), deadline=None, print_blob=True)
@given(found=records, at=cuts)
def test_several_partitions_send_the_same_in_both_forms(name: str, found: list[Given], at: list[int]) -> None:
    found = merged([record._replace(partition=partition_for_key(record.key or b"", 3)) for record in found])
    topics = {"a": 3, "b": 3}
    both = (
        run_partitions(TOPOLOGIES[name](), topics, found, at, threads=2, processing_form=form, **OFF, **LENIENT)
        for form in ("rows", "columns")
    )
    assert_same(*both)
