"""Aggregates: columns mean what rows mean, to the last bit, wherever the input is cut into epochs."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.budget import examples
from tests.unit.kernel.harness import Case, Input, Result, Source, compile_case, cut, run_columns, run_rows

from hayase.core.records import Change
from hayase.core.windows import SessionWindows, SlidingWindows, TimeWindows
from hayase.kernel.aggregate.built_in_serde import aggregate_serde
from hayase.serde import Serdes
from hayase.state.stores.spec import StoreSpec
from hayase.topology import operators as op
from hayase.topology.nodes import ProcessorNode

FIELDS = {"n": pl.Int64, "small": pl.Int32, "x": pl.Float64, "s": pl.String, "b": pl.Boolean}
RECORDS = Source(Serdes.string(), Serdes.json(schema=FIELDS))
DOUBLES = Source(Serdes.long(), Serdes.double())

COUNT = op.BuiltInAggregate((op.FieldAggregate("value", "count"),), bare=True)
EVERYTHING = op.BuiltInAggregate(
    (
        op.FieldAggregate("n", "count"),
        op.FieldAggregate("strings", "count", pl.col("s")),
        op.FieldAggregate("total", "sum", pl.col("n")),
        op.FieldAggregate("small_total", "sum", pl.col("small")),
        op.FieldAggregate("sum_x", "sum", pl.col("x")),
        op.FieldAggregate("low", "min", pl.col("small")),
        op.FieldAggregate("high", "max", pl.col("x")),
        op.FieldAggregate("any", "max", pl.col("b")),
        op.FieldAggregate("mean", "avg", pl.col("n")),
        op.FieldAggregate("mean_x", "avg", pl.col("x") * 2),
        op.FieldAggregate("latest", "max", pl.col("__ts")),
    )
)
TEXTS = op.BuiltInAggregate(
    (op.FieldAggregate("first", "min", pl.col("s")), op.FieldAggregate("last", "max", pl.col("s")))
)
FAILING = op.BuiltInAggregate(
    (op.FieldAggregate("n", "count"), op.FieldAggregate("total", "sum", pl.col("s").cast(pl.Int64)))
)
HUGE = op.BuiltInAggregate(
    (
        op.FieldAggregate("n", "count"),
        op.FieldAggregate("total", "sum", pl.col("n")),
        op.FieldAggregate("double", "sum", pl.col("n") * 2),
    )
)
KEPT = op.BuiltInAggregate(
    (
        op.FieldAggregate("first", "earliest", pl.col("n")),
        op.FieldAggregate("first_or_null", "earliest", pl.col("x"), ignore_nulls=False),
        op.FieldAggregate("last", "latest", pl.col("small")),
        op.FieldAggregate("last_or_null", "latest", pl.col("b"), ignore_nulls=False),
        op.FieldAggregate("last_struct", "latest", pl.when(pl.col("n") > 3).then(pl.struct("n", "s"))),
    )
)
LISTS = op.BuiltInAggregate(
    (
        op.FieldAggregate("first_two", "earliest", pl.col("n"), size=2),
        op.FieldAggregate("last_two", "latest", pl.col("s"), ignore_nulls=False, size=2),
        op.FieldAggregate("all", "collect_list", pl.col("x"), ignore_nulls=False),
        op.FieldAggregate("some", "collect_list", pl.struct("n", "b"), size=3),
        op.FieldAggregate("different", "collect_set", pl.col("x")),
        op.FieldAggregate("texts", "collect_set", pl.col("s"), ignore_nulls=False, size=3),
        op.FieldAggregate("flags", "collect_set", pl.col("b")),
        op.FieldAggregate("lists", "collect_list", pl.concat_list("small", "small"), size=4),
    )
)
AGGREGATIONS = {
    "count": COUNT,
    "everything": EVERYTHING,
    "texts": TEXTS,
    "failing": FAILING,
    "kept": KEPT,
    "lists": LISTS,
}

WINDOWS = {
    "tumbling": TimeWindows(10, 10, 0),
    "tumbling_grace": TimeWindows(10, 10, 7),
    "hopping": TimeWindows(10, 5, 3),
    "hopping_uneven": TimeWindows(10, 4, 0),
}

fractions = st.sampled_from([0.1, 0.2, 0.3, -0.1, 1e16, -1e16, 1.0, 0.0, -0.0, 1e-7])
keys = st.none() | st.sampled_from(["a", "b", "c", "é"])
times = st.integers(0, 60)
headers = st.sampled_from([(), (), (("h", b"1"),), (("h", None),)])
values = st.none() | st.fixed_dictionaries(
    {
        "n": st.none() | st.integers(-9, 99),
        "small": st.none() | st.integers(-9, 9),
        "x": st.none() | fractions,
        "s": st.none() | st.sampled_from(["", "7", "-12", "a", "é", "\U0001f600", "\ue000"]),
        "b": st.none() | st.booleans(),
    }
)
inputs = st.lists(st.builds(Input, st.just("s"), keys, values, times, headers), max_size=25)
cuts = st.lists(st.integers(0, 25), max_size=4)
scales = st.sampled_from([1, 1, 7_000])
"""Times are so much longer: a segment of a store is a minute at least."""


def case_of(operator: Any, source: Source, *, caching: bool, value_serde: Any = None) -> Case:
    windows = getattr(operator, "windows", None)
    session = isinstance(windows, SessionWindows)
    spec = StoreSpec(
        "rows",
        "timestamped_key_value" if windows is None else "session" if session else "timestamped_window",
        source.key,
        aggregate_serde(operator.aggregation, value_serde),
        retention_ms=None if windows is None else windows.retention_ms,
    )
    return Case((ProcessorNode("agg", ("s",), operator, ("rows",)),), {"s": source}, {"rows": spec}, caching)


def assert_agree(case: Case, records: Sequence[Input], at: Sequence[int]) -> Result:
    """Compared as text, which tells zeros apart and takes NaN for equal."""
    epochs = cut(records, at)
    rows, columns = run_rows(case, epochs), run_columns(case, epochs)
    expected = rows.sent["agg"]
    (node,) = compile_case(case)
    if not node.output.old_values:
        expected = [each.with_value(Change(each.value.new)) for each in expected]
    assert repr(columns.sent["agg"]) == repr(expected)
    assert columns.stores == rows.stores
    assert columns.counters == rows.counters
    assert columns.failures == rows.failures
    return rows


@pytest.mark.long
@pytest.mark.parametrize("caching", [True, False])
@pytest.mark.parametrize("old_values", [True, False])
@pytest.mark.parametrize("name", AGGREGATIONS)
@given(records=inputs, at=cuts)
@settings(max_examples=examples(25), deadline=None)
def test_plain_aggregates_agree(
    name: str, old_values: bool, caching: bool, records: list[Input], at: list[int]
) -> None:
    operator = op.StreamAggregate(AGGREGATIONS[name], "rows", old_values)
    assert_agree(case_of(operator, RECORDS, caching=caching), records, at)


@pytest.mark.long
@pytest.mark.parametrize("caching", [True, False])
@pytest.mark.parametrize("windows", WINDOWS)
@pytest.mark.parametrize("name", AGGREGATIONS)
@given(records=inputs, at=cuts, old_values=st.booleans())
@settings(max_examples=examples(25), deadline=None)
def test_windowed_aggregates_agree(
    name: str, windows: str, caching: bool, old_values: bool, records: list[Input], at: list[int]
) -> None:
    operator = op.StreamWindowedAggregate(AGGREGATIONS[name], "rows", old_values, windows=WINDOWS[windows])
    assert_agree(case_of(operator, RECORDS, caching=caching), records, at)


SESSIONS = {
    "no_grace": SessionWindows(5, 0),
    "grace": SessionWindows(5, 12),
    "no_gap": SessionWindows(0, 7),
}


@pytest.mark.long
@pytest.mark.parametrize("caching", [True, False])
@pytest.mark.parametrize("on_close", [True, False])
@pytest.mark.parametrize("name", AGGREGATIONS)
@given(records=inputs, at=cuts, old_values=st.booleans(), windows=st.sampled_from(sorted(SESSIONS)), scale=scales)
@settings(max_examples=examples(12), deadline=None)
def test_session_aggregates_agree(
    name: str,
    on_close: bool,
    caching: bool,
    old_values: bool,
    windows: str,
    scale: int,
    records: list[Input],
    at: list[int],
) -> None:
    gap_ms, grace_ms = SESSIONS[windows].gap_ms, SESSIONS[windows].grace_ms
    scaled = SessionWindows(gap_ms * scale, grace_ms * scale)
    operator = op.StreamSessionAggregate(AGGREGATIONS[name], "rows", old_values, on_close=on_close, windows=scaled)
    records = [dataclasses.replace(each, timestamp_ms=each.timestamp_ms * scale) for each in records]
    assert_agree(case_of(operator, RECORDS, caching=caching), records, at)


SLIDING = {
    "no_grace": SlidingWindows(6, 0),
    "grace": SlidingWindows(5, 12),
    "one_instant": SlidingWindows(0, 4),
    "long": SlidingWindows(25, 3),
}


@pytest.mark.long
@pytest.mark.parametrize("caching", [True, False])
@pytest.mark.parametrize("on_close", [True, False])
@pytest.mark.parametrize("name", AGGREGATIONS)
@given(records=inputs, at=cuts, old_values=st.booleans(), windows=st.sampled_from(sorted(SLIDING)), scale=scales)
@settings(max_examples=examples(12), deadline=None)
def test_sliding_aggregates_agree(
    name: str,
    on_close: bool,
    caching: bool,
    old_values: bool,
    windows: str,
    scale: int,
    records: list[Input],
    at: list[int],
) -> None:
    difference_ms, grace_ms = SLIDING[windows].difference_ms, SLIDING[windows].grace_ms
    scaled = SlidingWindows(difference_ms * scale, grace_ms * scale)
    operator = op.StreamSlidingAggregate(AGGREGATIONS[name], "rows", old_values, on_close=on_close, windows=scaled)
    records = [dataclasses.replace(each, timestamp_ms=each.timestamp_ms * scale) for each in records]
    assert_agree(case_of(operator, RECORDS, caching=caching), records, at)


large = st.sampled_from([2**62, -(2**62), 2**63 - 1, -(2**63), 1, -1]) | st.none()
large_inputs = st.lists(
    st.builds(
        Input,
        st.just("s"),
        keys,
        st.fixed_dictionaries({"n": large, **dict.fromkeys(["small", "x", "s", "b"], st.none())}),
        st.integers(0, 20),
    ),
    max_size=20,
)


@pytest.mark.long
@pytest.mark.parametrize("caching", [True, False])
@pytest.mark.parametrize("windows", [None, "tumbling_grace", "hopping", "session", "sliding"])
@given(records=large_inputs, at=cuts)
@settings(max_examples=examples(40), deadline=None)
def test_sums_that_leave_64_bits_fail_on_the_same_records(
    windows: str | None, caching: bool, records: list[Input], at: list[int]
) -> None:
    aggregation = op.BuiltInAggregate(HUGE.fields[:2])
    operator: Any = op.StreamAggregate(aggregation, "rows")
    if windows == "session":
        operator = op.StreamSessionAggregate(aggregation, "rows", windows=SessionWindows(4, 9))
    elif windows == "sliding":
        operator = op.StreamSlidingAggregate(aggregation, "rows", windows=SlidingWindows(4, 9))
    elif windows is not None:
        operator = op.StreamWindowedAggregate(aggregation, "rows", windows=WINDOWS[windows])
    assert_agree(case_of(operator, RECORDS, caching=caching), records, at)


every_double = st.floats(allow_nan=True, allow_infinity=True, width=64)
double_inputs = st.lists(
    st.builds(Input, st.just("s"), st.integers(-1, 2), st.none() | every_double, st.integers(0, 60)), max_size=25
)


@pytest.mark.parametrize("caching", [True, False])
@given(records=double_inputs, at=cuts)
@settings(max_examples=examples(60), deadline=None)
def test_every_double_agrees(caching: bool, records: list[Input], at: list[int]) -> None:
    value = pl.col("value")
    functions: list[Any] = ["sum", "min", "max", "avg", "count", "earliest", "latest", "collect_list", "collect_set"]
    fields = tuple(op.FieldAggregate(function, function, value) for function in functions)
    operator = op.StreamAggregate(op.BuiltInAggregate(fields), "rows")
    assert_agree(case_of(operator, DOUBLES, caching=caching), records, at)


@pytest.mark.long
@pytest.mark.parametrize("caching", [True, False])
@given(seed=st.integers(0, 2**32), groups=st.sampled_from([1, 3, 200]))
@settings(max_examples=examples(6), deadline=None)
def test_many_rows_in_few_and_in_many_groups_agree(caching: bool, seed: int, groups: int) -> None:
    random = pl.Series([0.0] * 1000).rank("random", seed=seed).to_list()
    records = [
        Input(
            "s", str(int(each) % groups), {"n": int(each), "small": None, "x": each / 7, "s": str(each), "b": True}, row
        )
        for row, each in enumerate(random)
    ]
    operator = op.StreamAggregate(op.BuiltInAggregate(EVERYTHING.fields + TEXTS.fields), "rows", old_values=True)
    rows = assert_agree(case_of(operator, RECORDS, caching=caching), records, [100, 700])
    assert len(rows.stores["rows"]) == groups


@given(records=inputs, at=cuts)
@settings(max_examples=examples(25), deadline=None)
def test_a_given_value_serde_agrees(records: list[Input], at: list[int]) -> None:
    serde = Serdes.json(schema={"n": pl.Int64, "total": pl.Int64, "high": pl.Float64})
    fields = (EVERYTHING.fields[0], EVERYTHING.fields[2], EVERYTHING.fields[6])
    operator = op.StreamAggregate(op.BuiltInAggregate(fields), "rows", old_values=True)
    rows = assert_agree(case_of(operator, RECORDS, caching=True, value_serde=serde), records, at)
    assert all(serde.from_bytes(value[8:])["n"] > 0 for value in rows.stores["rows"].values())


def test_a_record_that_fails_in_one_window_is_left_out_of_the_later_ones() -> None:
    values = [(2**63 - 1, 1), (1, 6), (5, 7)]
    records = [Input("s", "a", {"n": n, "small": None, "x": None, "s": None, "b": None}, at) for n, at in values]
    operator = op.StreamWindowedAggregate(op.BuiltInAggregate(HUGE.fields[:2]), "rows", windows=WINDOWS["hopping"])
    rows = assert_agree(case_of(operator, RECORDS, caching=False), records, [])
    assert rows.failures == [("agg", 1), ("agg", 2)]
    assert len(rows.sent["agg"]) == 1


@pytest.mark.parametrize("caching", [True, False])
def test_every_nan_is_stored_alike(caching: bool) -> None:
    total = op.BuiltInAggregate((op.FieldAggregate("total", "sum", pl.col("value")),))
    records = [Input("s", 1, value, 0) for value in (math.inf, -math.inf)]
    rows = assert_agree(case_of(op.StreamAggregate(total, "rows"), DOUBLES, caching=caching), records, [])
    assert repr(rows.sent["agg"][-1].value.new) == "{'total': nan}"
