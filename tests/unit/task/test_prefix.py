"""Expressions that run in columns before a task in rows begins: only the time it takes shows it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.budget import examples
from tests.unit.task.harness import Given, LocalRun, Result, merged, run

from hayase import Branched, Consumed, Grouped, KStream, Materialized, Produced, Serdes, StreamsBuilder, Topology
from hayase.core.errors import ProcessingError
from hayase.processor.handlers import ErrorContext, HandlerAnswer
from hayase.processor.timestamps import callable_timestamp, field_timestamp

pytestmark = pytest.mark.usefixtures("quiet")

TEXT, JSON = Serdes.string(), Serdes.json()
FIELDS = {"n": pl.Int64, "s": pl.String, "at": pl.Int64, "tags": pl.List(pl.String)}
VALUE = Serdes.json(schema=FIELDS)
READ = Consumed.with_(TEXT, VALUE)
WRITE = Produced.with_(TEXT, JSON)
Seen = list[tuple[Any, ...]]
"""What user code was called with, in order."""


def observed(stream: KStream[Any, Any], seen: Seen, name: str) -> KStream[Any, Any]:
    return stream.peek(lambda key, value: seen.append((name, key, value)))


def chain(seen: Seen) -> Topology:
    builder = StreamsBuilder()
    stream = builder.stream("a", READ).filter(pl.col("n") > 0).map_values({"i": pl.col("s").cast(pl.Int64)})
    observed(stream.filter_not(pl.col("i") > 5).select_key(pl.col("i").cast(pl.String)), seen, "x").to("out", WRITE)
    return builder.build()


def aggregated(seen: Seen) -> Topology:
    def add(key: Any, value: Any, total: Any) -> Any:
        seen.append((key, value))
        return total + value["m"]

    builder = StreamsBuilder()
    stream = builder.stream("a", READ).filter(pl.col("n") > 0).map_values({"m": pl.col("n") * 2})
    table = stream.group_by(pl.lit("k"), Grouped.with_(TEXT)).aggregate(lambda: 0, add, Materialized.with_(TEXT, JSON))
    table.to_stream().to("out", WRITE)
    stream.group_by_key().aggregate(lambda: 0, add, Materialized.with_(TEXT, JSON)).to_stream().to("other", WRITE)
    return builder.build()


def forked(seen: Seen) -> Topology:
    """Nodes in rows before, between and behind those of the prefix."""
    builder = StreamsBuilder()
    stream = builder.stream("a", READ)
    observed(stream, seen, "first").to("out", WRITE)
    words = stream.flat_map_values(pl.col("tags"))
    observed(words, seen, "word")
    numbers = words.map_values({"i": pl.col("value").cast(pl.Int64)})
    observed(numbers.filter(pl.col("i") > 1), seen, "number").to("out", WRITE)
    observed(words.filter(pl.col("value") != "x"), seen, "no x")
    observed(stream, seen, "last")
    observed(stream.map_values(pl.col("s")), seen, "bare").to("bare", Produced.with_(TEXT, TEXT))
    observed(words.flat_map_values(pl.concat_list("value", "value")), seen, "twice")
    return builder.build()


def branched(seen: Seen) -> Topology:
    builder = StreamsBuilder()
    stream = builder.stream("a", READ).filter(pl.col("s").is_not_null())
    branches = (
        stream.split(name="b-")
        .branch(pl.col("n") > 5, Branched.as_("big"))
        .branch(pl.col("s").cast(pl.Int64) > 0, Branched.as_("number"))
        .default_branch(Branched.as_("rest"))
    )
    observed(branches["b-big"].map_values({"m": pl.col("n") + 1}), seen, "big").to("out", WRITE)
    observed(branches["b-number"], seen, "number").to("out", WRITE)
    branches["b-rest"].merge(branches["b-number"]).filter(pl.col("n") < 9).peek(lambda k, v: seen.append((k, v)))
    return builder.build()


def met_again(seen: Seen) -> Topology:
    builder = StreamsBuilder()
    a, b = builder.stream("a", READ), builder.stream("b", READ)
    small, large = a.filter(pl.col("n") < 3), a.filter(pl.col("n") > 1)
    called = a.filter(lambda key, value: key == "k")
    every = large.merge(small).merge(b).merge(called)
    observed(every.filter(pl.col("s") != "x").map(key=pl.col("s"), value={"n": pl.col("n")}), seen, "x").to("o", WRITE)
    return builder.build()


def one_source_in_rows(seen: Seen) -> Topology:
    """Two sources, of which one has a prefix and one has no schema."""
    builder = StreamsBuilder()
    a = builder.stream("a", READ).map_values({"n": pl.col("n"), "s": pl.col("s")}).filter(pl.col("n") > 0)
    b = builder.stream("b", Consumed.with_(TEXT, JSON)).filter(lambda key, value: value is not None)
    observed(a.merge(b), seen, "x").to("out", WRITE)
    return builder.build()


def timed(seen: Seen) -> Topology:
    builder = StreamsBuilder()
    read = Consumed.with_(TEXT, VALUE, field_timestamp("at", on_invalid="skip"))
    stream = builder.stream("a", read).map_values({"n": pl.col("n")})
    observed(stream, seen, "x").to("out", WRITE)
    return builder.build()


def met_too_often(seen: Seen) -> Topology:
    """Eight ways lead to eight filters, more than there are copies made."""
    builder = StreamsBuilder()
    stream = builder.stream("a", READ)
    met = stream.filter(pl.col("n") == 0)
    for n in range(1, 8):
        met = met.merge(stream.filter(pl.col("n") == n))
    for n in range(8):
        observed(met.filter(pl.col("n") != n), seen, str(n))
    return builder.build()


TOPOLOGIES: dict[str, Callable[[Seen], Topology]] = {
    made.__name__: made
    for made in (chain, aggregated, forked, branched, met_again, met_too_often, one_source_in_rows, timed)
}

keys = st.none() | st.sampled_from([b"k", b"l"])
rows = st.fixed_dictionaries(
    {
        "n": st.none() | st.integers(-2, 9),
        "s": st.none() | st.sampled_from(["7", "3", "x", "-1"]),
        "at": st.none() | st.integers(-1, 50),
        "tags": st.none() | st.lists(st.none() | st.sampled_from(["x", "2", "1"]), max_size=3),
    }
)
MALFORMED = b"nonsense"
values = st.none() | rows.map(lambda row: json.dumps(row).encode()) | st.just(MALFORMED)
headers = st.sampled_from([(), (), (("h", b"1"),)])
records = st.lists(
    st.builds(Given, st.sampled_from("ab"), st.just(0), keys, values, st.integers(0, 40), headers), max_size=20
).map(lambda found: merged([r._replace(timestamp_ms=0) if r.value == MALFORMED else r for r in found]))
cuts = st.lists(st.integers(0, 20), max_size=4)


def run_seen(name: str, found: list[Given], at: list[int], *, prefix: bool, form: str = "rows") -> tuple[Result, Seen]:
    seen: Seen = []

    def drop(context: ErrorContext, error: Exception) -> HandlerAnswer:
        seen.append((context.stage, context.node, context.topic, context.partition, context.offset, context.headers))
        return HandlerAnswer.CONTINUE

    handlers = {f"{stage}_exception_handler": drop for stage in ("deserialization", "processing", "production")}
    result = run(TOPOLOGIES[name](seen), found, at, processing_form=form, prefix=prefix, **handlers)
    return result, seen


@pytest.mark.parametrize("name", TOPOLOGIES)
@settings(max_examples=examples(20), deadline=None, print_blob=True)
@given(found=records, at=cuts)
def test_user_code_and_handlers_are_called_in_the_same_order_with_and_without_a_prefix(
    name: str, found: list[Given], at: list[int]
) -> None:
    (plain, calls), (prefixed, prefixed_calls) = (run_seen(name, found, at, prefix=prefix) for prefix in (False, True))
    assert prefixed_calls == calls
    assert prefixed.sent == plain.sent
    assert prefixed.stores == plain.stores
    assert prefixed.metrics.rows() == plain.metrics.rows()


@pytest.mark.parametrize("name", ["chain", "forked", "branched", "met_again", "timed"])
@settings(max_examples=examples(12), deadline=None, print_blob=True)
@given(found=records, at=cuts)
def test_rows_with_a_prefix_and_columns_send_the_same(name: str, found: list[Given], at: list[int]) -> None:
    prefixed, _ = run_seen(name, found, at, prefix=True)
    columns, _ = run_seen(name, found, at, prefix=False, form="columns")
    assert columns.sent == prefixed.sent
    assert columns.metrics.rows() == prefixed.metrics.rows()


def made(topology: Topology, *, topics: int = 1, **settings: Any) -> LocalRun:
    return LocalRun(topology, dict.fromkeys("ab", topics), prefix=True, processing_form="rows", **settings)


@pytest.mark.parametrize("name", TOPOLOGIES)
def test_every_one_of_these_topologies_has_a_prefix(name: str) -> None:
    programs = made(TOPOLOGIES[name]([])).programs
    assert any(source.prefix is not None for program in programs.values() for source in program.sources)


def test_no_node_is_copied_for_each_of_very_many_ways() -> None:
    (program,) = made(met_too_often([])).programs.values()
    (source,) = program.sources
    assert source.prefix is not None
    assert all(name.startswith("KSTREAM-MERGE-") for target in source.prefix.targets for name in target)


def source_fields(build: Callable[[KStream[Any, Any]], Any], read: Any = READ) -> frozenset[str] | str | None:
    builder = StreamsBuilder()
    build(builder.stream("a", read))
    (program,) = made(builder.build()).programs.values()
    (source,) = program.sources
    return "no prefix" if source.prefix is None else source.fields


def test_fields_that_only_the_prefix_would_drop_are_never_made() -> None:
    def shown(stream: KStream[Any, Any]) -> KStream[Any, Any]:
        return stream.peek(print)

    timed_read = Consumed.with_(TEXT, VALUE, field_timestamp("at"))
    assert source_fields(lambda s: shown(s.filter(pl.col("n") > 0).map_values({"m": pl.col("s")}))) == {"n", "s"}
    assert source_fields(lambda s: shown(s.map_values(pl.col("s"))), timed_read) == {"s", "at"}
    assert source_fields(lambda s: shown(s.flat_map_values(pl.col("tags")))) == {"tags"}
    assert source_fields(lambda s: shown(s.filter(pl.col("n") > 0))) is None
    assert source_fields(lambda s: (shown(s.map_values(pl.col("s"))), shown(s))) is None


@pytest.mark.filterwarnings("ignore::polars.exceptions.PolarsInefficientMapWarning")
def test_there_is_no_prefix_without_an_expression_right_below_the_source() -> None:
    udf = pl.col("n").map_elements(lambda n: n + 1, return_dtype=pl.Int64)
    late = Consumed.with_(TEXT, VALUE, callable_timestamp(lambda record, partition_time_ms: record.timestamp_ms))

    def doubled(value: Any) -> int:
        return int(value["n"])

    assert source_fields(lambda s: s.peek(print).filter(pl.col("n") > 0)) == "no prefix"
    assert source_fields(lambda s: s.map_values(doubled).filter(pl.col("value") > 0)) == "no prefix"
    assert source_fields(lambda s: s.filter(udf > 0).peek(print)) == "no prefix"
    assert source_fields(lambda s: s.filter(pl.col("n") > 0).peek(print), late) == "no prefix"


def test_an_error_of_the_prefix_names_node_and_record_and_comes_when_the_record_has_its_turn() -> None:
    seen: Seen = []
    local = made(chain(seen))
    values: list[Any] = [
        {"n": 1, "s": "3"},
        {"n": 0, "s": "x"},
        {"n": 1, "s": "4"},
        {"n": 1, "s": "x"},
        {"n": 1, "s": "5"},
    ]
    with pytest.raises(ProcessingError) as failed:
        local.run_epoch([Given("a", 0, b"k", json.dumps(value).encode(), 1) for value in values])
    assert failed.value.context["offset"] == 3
    assert "MAPVALUES" in str(failed.value.context["node"])
    assert seen == [("x", "3", {"i": 3}), ("x", "4", {"i": 4})]
