"""Tables and joins: columns mean what rows mean, with caches on and off, however the input is cut into epochs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.budget import examples
from tests.unit.kernel.harness import Case, Input, Source, assert_forms_agree, run_rows
from tests.unit.kernel.old_values import with_old_values

from hayase.core.records import Change
from hayase.serde import Serdes
from hayase.serde.protocol import BARE_FIELD, Schema
from hayase.state.stores.spec import StoreSpec
from hayase.topology import operators as op
from hayase.topology.nodes import ProcessorNode

STRINGS = Serdes.string()
ROWS = Serdes.json(schema={"n": pl.Int64, "s": pl.String})
SOURCES = {"s": Source(STRINGS, ROWS), "t": Source(STRINGS, ROWS)}
LEFT_N, RIGHT_N, RIGHT_S = pl.col("__left.n"), pl.col("__right.n"), pl.col("__right.s")
TEXT = Schema(((BARE_FIELD, pl.String()),), bare=True)

values = st.none() | st.fixed_dictionaries(
    {"n": st.none() | st.integers(0, 5), "s": st.none() | st.sampled_from(["a", "b", "3"])}
)
inputs = st.lists(
    st.builds(
        Input,
        st.sampled_from(["s", "t", "t"]),
        st.none() | st.sampled_from(["a", "b", "3"]),
        values,
        st.integers(0, 50),
        st.sampled_from([(), (), (("h", b"1"),)]),
    ),
    max_size=16,
)
cuts = st.lists(st.integers(0, 16), max_size=3)


def store(name: str, value: Any = ROWS, *, key: Any = STRINGS, caching: bool = True) -> StoreSpec:
    return StoreSpec(name, "timestamped_key_value", key, value, caching=caching)


def node(name: str, parent: str, operator: op.Operator) -> ProcessorNode:
    kept = getattr(operator, "store", None)
    return ProcessorNode(name, (parent,), operator, () if kept is None else (kept,))


def case(nodes: Sequence[ProcessorNode], stores: Sequence[StoreSpec], *, caching: bool, **more: Any) -> Case:
    return Case(with_old_values(nodes), SOURCES, {spec.name: spec for spec in stores}, caching, **more)  # type: ignore[arg-type]


def big(key: Any, value: Any) -> bool:
    if value["n"] is None:
        raise ValueError("no number")
    return bool(value["n"] > 2)


@pytest.mark.parametrize("calls", [True, False])
@given(st.tuples(st.booleans(), st.booleans(), st.booleans()), st.booleans(), inputs, cuts)
@settings(max_examples=examples(80), deadline=None)
def test_a_chain_of_tables_means_the_same_in_both_forms(
    calls: bool, stored: tuple[bool, bool, bool], caching: bool, records: list[Input], at: list[int]
) -> None:
    names = [name if there else None for name, there in zip(["one", "two", "three"], stored, strict=True)]
    text = Serdes.string() if calls else Serdes.json(schema={"m": pl.Int64, "k": pl.String})
    predicate: Any = big if calls else pl.col("n") > 2
    mapper: Any = (lambda key, value: value["s"]) if calls else (("m", pl.col("n") * 10), ("k", pl.col("__key")))
    last: Any = (lambda key, value: value != "a") if calls else pl.col("m").is_in([30, 50])
    nodes = [
        node("t1", "t", op.TableSource(names[0])),
        node("t2", "t1", op.TableFilter(predicate, negate=False, parent="t1", store=names[1])),
        node("t3", "t2", op.TableMapValues(mapper, "t2", names[2], TEXT if calls else None)),
        node("t4", "t3", op.TableFilter(last, negate=True, parent="t3", store=None)),
        node("out", "t4", op.TableToStream()),
    ]
    stores = [store("one"), store("two"), store("three", text)]
    assert_forms_agree(case(nodes, stores, caching=caching), records, at)


@pytest.mark.parametrize("caching", [True, False])
@pytest.mark.parametrize("left", [True, False])
@given(inputs, cuts)
@settings(max_examples=examples(30), deadline=None)
def test_a_stream_reads_a_table_as_it_is_when_its_record_is_processed(
    left: bool, caching: bool, records: list[Input], at: list[int]
) -> None:
    joiner = (("x", LEFT_N + RIGHT_N), ("s", RIGHT_S), ("k", pl.col("__key")), ("ts", pl.col("__ts")))
    nodes = [
        node("t1", "t", op.TableSource("one")),
        node("j", "s", op.StreamTableJoin("t1", left, joiner)),
    ]
    assert_forms_agree(case(nodes, [store("one")], caching=caching), records, at)


@pytest.mark.parametrize("caching", [True, False])
@pytest.mark.parametrize("calls", [True, False])
@given(inputs, cuts)
@settings(max_examples=examples(20), deadline=None)
def test_a_table_without_a_store_is_computed_from_its_parent_when_it_is_read(
    calls: bool, caching: bool, records: list[Input], at: list[int]
) -> None:
    mapper: Any = (lambda key, value: value["s"]) if calls else pl.col("s").cast(pl.Int64)
    joiner: Any = (lambda key, one, other: f"{key} {one} {other}") if calls else pl.col("__right.value")
    nodes = [
        node("t1", "t", op.TableSource("one")),
        node("t2", "t1", op.TableFilter(big if calls else pl.col("n") > 2, negate=False, parent="t1", store=None)),
        node("t3", "t2", op.TableMapValues(mapper, "t2", None, TEXT if calls else None)),
        node("j", "s", op.StreamTableJoin("t3", True, joiner, TEXT if calls else None)),
    ]
    assert_forms_agree(case(nodes, [store("one")], caching=caching), records, at)


@pytest.mark.parametrize("caching", [True, False])
@pytest.mark.parametrize("join_first", [True, False])
@pytest.mark.parametrize("flat", ["before", "beside", "no"])
@given(inputs, cuts)
@settings(max_examples=examples(12), deadline=None)
def test_a_stream_joined_with_a_table_of_itself_sees_what_came_first(
    flat: str, join_first: bool, caching: bool, records: list[Input], at: list[int]
) -> None:
    """The branch that was added first runs first."""
    twice = op.FlatMapValues(pl.concat_list(pl.struct("n", "s"), pl.struct(pl.col("n") + 1, "s")))
    begin = [node("in", "s", twice if flat == "before" else op.MapValues(pl.struct("n", "s")))]
    begin.append(node("a", "in", twice if flat == "beside" else op.Filter(pl.lit(value=True))))
    begin.append(node("b", "in", op.Filter(pl.lit(value=True))))
    stream, upserts = ("a", "b") if join_first else ("b", "a")
    nodes = [
        *begin,
        node("t1", upserts, op.TableSource("one")),
        node("j", stream, op.StreamTableJoin("t1", True, (("was", RIGHT_N), ("is", LEFT_N)))),
    ]
    assert_forms_agree(case(nodes, [store("one")], caching=caching), records, at)


@pytest.mark.parametrize("held", [("one", "two"), ("one",), ()])
@given(inputs, cuts)
@settings(max_examples=examples(30), deadline=None)
def test_what_caches_send_at_the_end_of_an_epoch_is_joined_and_merged_in_order(
    held: Sequence[str], records: list[Input], at: list[int]
) -> None:
    nodes = [
        node("t1", "t", op.TableSource("one")),
        node("t2", "s", op.TableSource("two")),
        node("c1", "t1", op.TableToStream()),
        node("c2", "t2", op.TableToStream()),
        node("j", "c1", op.StreamTableJoin("t2", True, (("x", LEFT_N), ("y", RIGHT_N)))),
        ProcessorNode("m", ("c2", "c1"), op.Merge()),
        node("j2", "m", op.StreamTableJoin("t1", True, (("x", LEFT_N), ("y", RIGHT_N)))),
    ]
    stores = [store(name, caching=name in held) for name in ("one", "two")]
    assert_forms_agree(case(nodes, stores, caching=True), records, at)


@pytest.mark.parametrize("calls", [True, False])
@pytest.mark.parametrize("left", [True, False])
@given(inputs, cuts)
@settings(max_examples=examples(20), deadline=None)
def test_a_global_table_is_read_under_a_mapped_key(
    left: bool, calls: bool, records: list[Input], at: list[int]
) -> None:
    mapper: Any = (lambda key, value: value["s"]) if calls else pl.col("s")
    joiner: Any = (lambda key, one, other: f"{key} {one} {other}") if calls else (("x", LEFT_N + RIGHT_N),)
    nodes = [node("j", "s", op.StreamGlobalTableJoin("g", left, mapper, joiner, TEXT if calls else None))]
    rows = {"g": {"a": ({"n": 1, "s": "x"}, 7), "b": ({"n": None, "s": None}, 9)}}
    assert_forms_agree(case(nodes, [store("g")], caching=True, global_rows=rows), records, at)


def test_a_null_key_is_dropped_by_a_table_and_counted() -> None:
    nodes = [node("t1", "t", op.TableSource("one"))]
    result = run_rows(case(nodes, [store("one")], caching=False), [[Input("t", None, {"n": 1, "s": "a"}, 1)]])
    assert result.sent["t1"] == []
    assert result.counters == [("dropped-records-total", "t1", 1)]


def test_an_older_update_overwrites_a_newer_row_and_a_repeated_one_is_sent_again() -> None:
    nodes = [node("t1", "t", op.TableSource("one"))]
    row = {"n": 1, "s": "a"}
    records = [Input("t", "a", row, 9), Input("t", "a", row, 4), Input("t", "b", None, 5)]
    result = assert_forms_agree(case(nodes, [store("one")], caching=False), records, [])
    assert [(each.value.new, each.timestamp_ms) for each in result.sent["t1"]] == [(row, 9), (row, 4), (None, 5)]
    assert result.stores["one"][b"a"][:8] == (4).to_bytes(8, "big")


def test_a_cache_sends_nothing_for_a_row_that_was_made_and_removed_in_one_epoch() -> None:
    nodes = [node("t1", "t", op.TableSource("one"))]
    made, removed = Input("t", "a", {"n": 1, "s": "a"}, 1), Input("t", "a", None, 2)
    together = assert_forms_agree(case(nodes, [store("one")], caching=True), [made, removed], [])
    apart = assert_forms_agree(case(nodes, [store("one")], caching=True), [made, removed], [1])
    assert together.sent["t1"] == []
    assert [each.value for each in apart.sent["t1"]] == [Change({"n": 1, "s": "a"}), Change(None, {"n": 1, "s": "a"})]


@pytest.mark.parametrize("materialised", [True, False])
def test_a_table_filter_leaves_out_needless_deletes_only_if_old_values_are_known(materialised: bool) -> None:
    nodes = [
        node("t1", "t", op.TableSource("one" if materialised else None)),
        node("f", "t1", op.TableFilter(pl.col("n") > 2, negate=False, parent="t1", store=None)),
    ]
    records = [Input("t", "a", n if n is None else {"n": n, "s": None}, at) for at, n in enumerate([1, 5, 1, 0, None])]
    result = assert_forms_agree(case(nodes, [store("one")], caching=False), records, [])
    sent = [each.value.new and each.value.new["n"] for each in result.sent["f"]]
    assert sent == ([5, None] if materialised else [None, 5, None, None, None])
