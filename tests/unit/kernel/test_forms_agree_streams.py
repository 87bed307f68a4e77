"""Stateless stream operators: columns mean what rows mean."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.budget import examples
from tests.unit.kernel.harness import Case, Input, Source, assert_forms_agree, run_rows

from hayase.serde import Serdes
from hayase.serde.protocol import BARE_FIELD, Schema
from hayase.topology import operators as op
from hayase.topology.nodes import ProcessorNode

STRINGS = Serdes.string()
VALUES = Serdes.json(schema={"n": pl.Int64, "s": pl.String, "tags": pl.List(pl.String)})
SOURCES = {"s": Source(STRINGS, VALUES), "t": Source(STRINGS, VALUES)}
TEXT = Schema(((BARE_FIELD, pl.String()),), bare=True)
NUMBER = Schema(((BARE_FIELD, pl.Int64()),), bare=True)


@dataclass
class Line:
    key: str | None
    n: int | None


LINE = Schema((("key", pl.String()), ("n", pl.Int64())), python_type=Line)

values = st.none() | st.fixed_dictionaries(
    {
        "n": st.none() | st.integers(-5, 9),
        "s": st.none() | st.sampled_from(["", "a", "bc", "7", "-1"]),
        "tags": st.none() | st.lists(st.sampled_from(["x", "y"]) | st.none(), max_size=3),
    }
)
inputs = st.lists(
    st.builds(
        Input,
        st.sampled_from(["s", "t"]),
        st.none() | st.sampled_from(["a", "b", "7"]),
        values,
        st.integers(0, 50),
        st.sampled_from([(), (), (("h", b"1"),)]),
    ),
    max_size=12,
)
cuts = st.lists(st.integers(0, 12), max_size=3)


def fails_on_seven(key: Any, value: Any) -> bool:
    if key == "7":
        raise ValueError("seven")
    return value is not None and (value["n"] or 0) > 1


def words(key: Any, value: Any) -> Any:
    for word in value["tags"]:
        if word is None:
            raise ValueError("no word")
        yield word


def pairs(key: Any, value: Any) -> Any:
    for n in range(value["n"]):
        if n == 7:
            raise ValueError("seven")
        yield n, Line(key, n)


STATELESS: dict[str, op.Operator] = {
    "filter": op.Filter(pl.col("n") > 2),
    "filter_not": op.Filter((pl.col("n") > 2) | (pl.col("__key") == "a"), negate=True),
    "filter_literal": op.Filter(pl.lit(value=True)),
    "filter_failing": op.Filter(pl.col("s").cast(pl.Int64) > 0),
    "filter_call": op.Filter(fails_on_seven),
    "filter_not_call": op.Filter(fails_on_seven, negate=True),
    "map_values": op.MapValues((("m", pl.col("n") * 2 + pl.col("__ts")), ("k", pl.col("__key")), ("one", pl.lit(1)))),
    "map_values_bare": op.MapValues(pl.col("s").str.len_chars()),
    "map_values_struct": op.MapValues(pl.when(pl.col("n") > 3).then(pl.struct("n", "tags"))),
    "map_values_failing": op.MapValues((("i", pl.col("s").cast(pl.Int64)),)),
    "map_values_call": op.MapValues(lambda k, v: Line(k, v["n"]), LINE),
    "map_values_call_null": op.MapValues(lambda k, v: v and v["s"], TEXT),
    "select_key": op.SelectKey(pl.col("s").str.to_uppercase()),
    "select_key_struct": op.SelectKey(pl.struct("n", k="__key")),
    "select_key_call": op.SelectKey(lambda k, v: v["n"], NUMBER),
    "map": op.Map(key=pl.col("n"), value=(("was", pl.col("__key")),)),
    "map_key": op.Map(key=pl.lit("one")),
    "map_call": op.Map(lambda k, v: (v["n"], Line(k, v["n"])), key_schema=NUMBER, value_schema=LINE),
    "flat_map_values": op.FlatMapValues(pl.col("tags")),
    "flat_map_values_struct": op.FlatMapValues(pl.col("tags").list.eval(pl.struct(tag=pl.element()))),
    "flat_map_values_call": op.FlatMapValues(words, TEXT),
    "flat_map": op.FlatMap(
        pl.col("tags").list.eval(
            pl.when(pl.element() == "x").then(pl.struct(key=pl.element(), value=pl.element().str.len_chars()))
        )
    ),
    "flat_map_struct": op.FlatMap(pl.concat_list(pl.struct(value=pl.struct("n", "s"), key=pl.col("__key")))),
    "flat_map_call": op.FlatMap(pairs, NUMBER, LINE),
    "foreach": op.Foreach(fails_on_seven),
    "peek": op.Peek(fails_on_seven),
    "repartition_filter": op.RepartitionFilter(),
}


@pytest.mark.long
@pytest.mark.parametrize("name", STATELESS)
@given(inputs, cuts)
@settings(max_examples=examples(25), deadline=None)
def test_a_stateless_operator_means_the_same_in_both_forms(name: str, records: list[Input], at: list[int]) -> None:
    case = Case((ProcessorNode("n", ("s",), STATELESS[name]),), SOURCES)
    assert_forms_agree(case, records, at)


def split(*predicates: Any, default: bool) -> tuple[ProcessorNode, ...]:
    count = len(predicates) + default
    branches = [ProcessorNode(f"b{i}", ("split",), op.Branch(i)) for i in range(count)]
    return (ProcessorNode("split", ("s",), op.Split(predicates, default)), *branches)


@pytest.mark.parametrize("default", [True, False])
@given(inputs, cuts)
@settings(max_examples=examples(25), deadline=None)
def test_a_split_sends_each_record_to_the_same_branch(default: bool, records: list[Input], at: list[int]) -> None:
    nodes = split(pl.col("n") > 5, pl.col("s").cast(pl.Int64) > 0, pl.col("n") > 2, default=default)
    merged = ProcessorNode("m", ("b2", "b0"), op.Merge())
    assert_forms_agree(Case((*nodes, merged), SOURCES), records, at)


@given(inputs, cuts)
@settings(max_examples=examples(25), deadline=None)
def test_a_split_by_callables_and_expressions_sends_each_record_to_the_same_branch(
    records: list[Input], at: list[int]
) -> None:
    assert_forms_agree(Case(split(fails_on_seven, pl.col("n") < 0, default=True), SOURCES), records, at)


@given(inputs, cuts)
@settings(max_examples=examples(60), deadline=None)
def test_streams_that_meet_again_are_merged_depth_first(records: list[Input], at: list[int]) -> None:
    nodes = (
        ProcessorNode("flat", ("s",), op.FlatMapValues(pl.concat_list(pl.col("s"), pl.col("s")))),
        ProcessorNode("other", ("s",), op.FlatMapValues(pl.concat_list(pl.col("s"), pl.col("__key")))),
        ProcessorNode("big", ("flat",), op.MapValues(pl.col("value").str.to_uppercase())),
        ProcessorNode("long", ("flat",), op.MapValues(pl.col("value") + "-")),
        ProcessorNode("m1", ("long", "big"), op.Merge()),
        ProcessorNode("m2", ("other", "m1"), op.Merge()),
        ProcessorNode("bare", ("t",), op.MapValues(pl.col("s"))),
        ProcessorNode("m3", ("m2", "bare"), op.Merge()),
    )
    assert_forms_agree(Case(nodes, SOURCES), records, at)


def test_without_a_schema_a_row_is_typed_by_its_value() -> None:
    nodes = (
        ProcessorNode("f", ("s",), op.Filter(pl.col("s").str.len_chars() > 1)),
        ProcessorNode("m", ("f",), op.MapValues((("x", pl.col("n") + 1), ("missing", pl.col("nowhere"))))),
    )
    records = [Input("s", "a", None, 1), Input("s", "a", {"s": "ab", "n": 1}, 2), Input("s", "a", {"n": 3}, 3)]
    result = run_rows(Case(nodes, SOURCES), [records], typed=False)
    assert [record.value for record in result.sent["m"]] == [{"x": 2, "missing": None}]
    assert result.failures == []
