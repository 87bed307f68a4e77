"""What aggregates do, in row form; the property tests carry it over to columns."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.budget import examples
from tests.unit.kernel.harness import Case, Input, Result, Source, assert_forms_agree, run_columns, run_rows

from hayase.core.errors import SerializationError, StateError, TopologyError
from hayase.core.metrics import DROPPED_RECORDS, LATE_RECORDS
from hayase.core.records import Change, Record, Window, Windowed
from hayase.core.windows import TimeWindows
from hayase.kernel.aggregate.built_in import built_ins, input_types, result_schema
from hayase.kernel.aggregate.built_in_serde import AggregateSerde, aggregate_serde
from hayase.kernel.aggregate.state_layout_columns import aggregate_layout
from hayase.serde import Serdes
from hayase.serde.protocol import Serde
from hayase.state.stores.spec import StoreSpec
from hayase.topology import operators as op
from hayase.topology.nodes import ProcessorNode

NUMBERS = Source(Serdes.string(), Serdes.json(schema={"n": pl.Int64, "x": pl.Float64, "s": pl.String}))
COUNT = op.BuiltInAggregate((op.FieldAggregate("value", "count"),), bare=True)
SUM_X = op.BuiltInAggregate((op.FieldAggregate("total", "sum", pl.col("x")),))
TEN = TimeWindows(10, 10, 5)


def aggregate(name: str, function: Any, field: str | None = None) -> op.BuiltInAggregate:
    return op.BuiltInAggregate((op.FieldAggregate(name, function, None if field is None else pl.col(field)),))


def case_of(
    aggregation: op.Aggregation,
    windows: TimeWindows | None = None,
    *,
    caching: bool = False,
    old_values: bool = False,
    serde: Serde[Any] | None = None,
) -> Case:
    operator: op.Operator = op.StreamAggregate(aggregation, "rows", old_values)
    if windows is not None:
        operator = op.StreamWindowedAggregate(aggregation, "rows", old_values, windows=windows)
    if serde is None:
        serde = aggregate_serde(aggregation) if isinstance(aggregation, op.BuiltInAggregate) else Serdes.json()
    kind: Any = "timestamped_key_value" if windows is None else "timestamped_window"
    spec = StoreSpec("rows", kind, Serdes.string(), serde, windows.retention_ms if windows else None)
    return Case((ProcessorNode("agg", ("s",), operator, ("rows",)),), {"s": NUMBERS}, {"rows": spec}, caching)


def put(key: str | None, value: Any, timestamp_ms: int = 0) -> Input:
    return Input("s", key, value, timestamp_ms)


def number(n: int | None = None, x: float | None = None, s: str | None = None) -> dict[str, Any]:
    return {"n": n, "x": x, "s": s}


def sent(result: Result) -> list[tuple[Any, Any, int]]:
    return [(record.key, record.value.new, record.timestamp_ms) for record in result.sent["agg"]]


def rows_of(case: Case, records: Sequence[Input]) -> Result:
    return run_rows(case, [records], typed=False)


def test_null_keys_and_null_values_are_dropped_and_counted() -> None:
    result = run_rows(case_of(COUNT), [[put("a", number()), put(None, number()), put("a", None), put("a", number())]])
    assert sent(result) == [("a", 1, 0), ("a", 2, 0)]
    assert result.counters == [(DROPPED_RECORDS, "agg", 2)]


def test_a_row_has_the_largest_timestamp_that_went_into_it() -> None:
    result = run_rows(case_of(COUNT), [[put("a", number(), 5), put("a", number(), 3)], [put("a", number(), 9)]])
    assert sent(result) == [("a", 1, 5), ("a", 2, 5), ("a", 3, 9)]


def test_updates_carry_the_headers_of_their_record() -> None:
    record = Input("s", "a", number(), 0, (("h", b"1"),))
    assert run_rows(case_of(COUNT), [[record]]).sent["agg"][0].headers == (("h", b"1"),)


def test_a_null_aggregate_removes_the_row_and_its_timestamp() -> None:
    reducing = op.CallableReduce(lambda aggregate, value: None if value["n"] < 0 else value)
    result = rows_of(case_of(reducing), [put("a", number(1), 10), put("a", number(-1), 5), put("a", number(3), 7)])
    assert sent(result) == [("a", number(1), 10), ("a", None, 10), ("a", number(3), 7)]


def test_before_its_first_update_a_row_has_no_old_value() -> None:
    result = run_rows(case_of(COUNT, old_values=True), [[put("a", number()), put("a", number())]])
    assert [record.value for record in result.sent["agg"]] == [Change(1, None), Change(2, 1)]


def test_with_the_cache_the_last_value_is_sent_with_the_old_one_of_the_epochs_start() -> None:
    epochs = [[put("a", number()), put("b", number()), put("a", number())], [put("a", number())]]
    result = run_rows(case_of(COUNT, caching=True, old_values=True), epochs)
    assert [(record.key, record.value) for record in result.sent["agg"]] == [
        ("b", Change(1, None)),
        ("a", Change(2, None)),
        ("a", Change(3, 2)),
    ]


def test_an_aggregator_may_change_the_aggregate_it_is_given() -> None:
    def append(key: Any, value: Any, items: list[Any]) -> list[Any]:
        items.append(value["n"])
        return items

    case = case_of(op.CallableAggregate(list, append), old_values=True)
    result = rows_of(case, [put("a", number(1)), put("a", number(2))])
    assert [record.value for record in result.sent["agg"]] == [Change([1], None), Change([1, 2], [1])]


def test_a_failing_aggregator_leaves_the_row_as_it_was() -> None:
    adding = op.CallableAggregate(lambda: 0, lambda key, value, total: total + value["n"])
    result = rows_of(case_of(adding), [put("a", number(1)), put("a", number(None)), put("a", number(2))])
    assert sent(result) == [("a", 1, 0), ("a", 3, 0)]
    assert result.failures == [("agg", 1)]


def test_nulls_are_passed_over_and_nothing_has_no_mean() -> None:
    functions: list[Any] = ["count", "sum", "min", "max", "avg"]
    fields = tuple(op.FieldAggregate(function, function, pl.col("n")) for function in functions)
    result = run_rows(
        case_of(op.BuiltInAggregate(fields)), [[put("a", number()), put("a", number(4)), put("a", number(1))]]
    )
    assert [value for _, value, _ in sent(result)] == [
        {"count": 0, "sum": 0, "min": None, "max": None, "avg": None},
        {"count": 1, "sum": 4, "min": 4, "max": 4, "avg": 4.0},
        {"count": 2, "sum": 5, "min": 1, "max": 4, "avg": 2.5},
    ]


def test_a_sum_that_leaves_64_bits_fails_and_is_not_counted() -> None:
    big = 2**63 - 1
    result = run_rows(
        case_of(aggregate("total", "sum", "n")), [[put("a", number(big)), put("a", number(1)), put("a", number(-1))]]
    )
    assert sent(result) == [("a", {"total": big}, 0), ("a", {"total": big - 1}, 0)]
    assert result.failures == [("agg", 1)]


def test_texts_are_compared_by_code_points() -> None:
    records = [put("a", number(s=text)) for text in ("\ue000", "\U0001f600", "z")]
    assert sent(run_rows(case_of(aggregate("last", "max", "s")), [records]))[-1] == ("a", {"last": "\U0001f600"}, 0)


def test_windowed_aggregates_count_null_values() -> None:
    result = run_rows(case_of(COUNT, TEN), [[put("a", None, 1), put(None, number(), 500), put("a", number(), 5)]])
    window = Windowed("a", Window(0, 10))
    assert sent(result) == [(window, 1, 1), (window, 2, 5)]
    assert result.counters == [(DROPPED_RECORDS, "agg", 1)]


def test_a_window_closes_when_stream_time_reaches_end_and_grace() -> None:
    records = [put("a", number(), 14), put("a", number(), 9), put("b", number(), 15), put("a", number(), 9)]
    result = run_rows(case_of(COUNT, TEN), [records])
    assert [key.window.start_ms for key, _, _ in sent(result)] == [10, 0, 10]
    assert result.counters == [(DROPPED_RECORDS, "agg", 1), (LATE_RECORDS, "agg", 1)]


def test_a_late_record_counts_once_per_window() -> None:
    hopping = TimeWindows(30, 10, 0)
    records = [put("a", number(), 60), put("a", number(), 35)]
    assert run_rows(case_of(COUNT, hopping), [records]).counters == [
        (DROPPED_RECORDS, "agg", 3),
        (LATE_RECORDS, "agg", 3),
    ]


def test_hopping_windows_are_updated_by_start() -> None:
    result = run_rows(case_of(COUNT, TimeWindows(30, 10, 0)), [[put("a", number(), 25)]])
    assert [key.window for key, _, _ in sent(result)] == [Window(0, 30), Window(10, 40), Window(20, 50)]


def test_stream_time_outlives_the_epoch() -> None:
    case = case_of(COUNT, TEN)
    result = run_rows(case, [[put("a", number(), 100)], [put("a", number(), 50)]])
    assert [key.window.start_ms for key, _, _ in sent(result)] == [100]


def test_the_first_value_of_a_window_may_be_null_for_a_reducer() -> None:
    keep = op.CallableReduce(lambda aggregate, value: aggregate if value is None else value)
    result = rows_of(case_of(keep, TEN), [put("a", None, 1), put("a", number(1), 2), put("a", None, 3)])
    assert [value for _, value, _ in sent(result)] == [None, number(1), number(1)]


def test_values_without_schema_are_aggregated_by_their_own_types() -> None:
    fields = (op.FieldAggregate("total", "sum", pl.col("x")), op.FieldAggregate("best", "max", pl.col("s")))
    case = replace(case_of(op.BuiltInAggregate(fields)), sources={"s": Source(Serdes.string(), Serdes.json())})
    result = rows_of(case, [put("a", {"x": 1}), put("a", {"x": 0.5, "s": "b"}), put("a", {"s": 5})])
    assert [value for _, value, _ in sent(result)] == [{"total": 1, "best": None}, {"total": 1.5, "best": "b"}]
    assert result.failures == [("agg", 2)]


def test_callables_have_no_column_form() -> None:
    case = case_of(op.CallableReduce(lambda aggregate, value: value))
    with pytest.raises(AssertionError, match="no column form"):
        run_columns(case, [])


@pytest.mark.parametrize(("function", "field"), [("sum", "s"), ("avg", "s")])
def test_sums_of_text_are_refused(function: str, field: str) -> None:
    aggregation = aggregate("f", function, field)
    with pytest.raises(TopologyError) as caught:
        result_schema(aggregation, input_types("agg", aggregation, NUMBERS.edge))
    assert caught.value.condition == "INVALID_AGGREGATE"


def test_an_average_in_a_store_of_another_serde_is_refused() -> None:
    case = case_of(aggregate("mean", "avg", "x"), serde=Serdes.json())
    with pytest.raises(TopologyError) as caught:
        run_rows(case, [[]], typed=False)
    assert caught.value.condition == "INVALID_AGGREGATE"


stored_values = (
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | st.text() | st.binary()
)


@given(st.lists(stored_values, min_size=2, max_size=2))
def test_stored_aggregates_are_read_as_they_were_written(values: list[Any]) -> None:
    serde = pickle.loads(pickle.dumps(AggregateSerde([op.FieldAggregate("a", "min"), op.FieldAggregate("b", "max")])))
    read = serde.from_bytes(serde.to_bytes({"a": values[0], "b": values[1]}))
    assert repr(read) == repr({"a": values[0], "b": values[1]})


def test_a_stored_average_is_read_as_the_mean() -> None:
    serde = AggregateSerde([op.FieldAggregate("n", "count"), op.FieldAggregate("mean", "avg")])
    assert serde.from_bytes(serde.pack([2, 3.0, 2])) == {"n": 2, "mean": 1.5}
    with pytest.raises(SerializationError):
        serde.to_bytes({"n": 2, "mean": 1.5})


@pytest.mark.parametrize("data", [b"", b"\x01", b"\x09" + bytes(8), b"\x04\x00\x00\x00\x05ab", bytes(18)])
def test_damaged_aggregates_are_refused(data: bytes) -> None:
    with pytest.raises(SerializationError):
        AggregateSerde([op.FieldAggregate("n", "count")]).from_bytes(data)


def test_the_store_of_other_fields_is_refused_in_columns() -> None:
    layout = aggregate_layout(aggregate_serde(SUM_X), built_ins(SUM_X, [pl.Float64()]))
    assert layout is not None
    other = AggregateSerde([op.FieldAggregate("a", "count"), op.FieldAggregate("b", "count")])
    with pytest.raises(StateError):
        layout.read([bytes(8) + other.pack([1, 2])])


JOINER = (("n", pl.col("__left.n")), ("seen", pl.col("__right.value")))
read_inputs = st.lists(
    st.builds(
        Input,
        st.sampled_from(["s", "t"]),
        st.none() | st.sampled_from(["a", "b"]),
        st.none() | st.builds(number, st.integers(0, 9)),
        st.integers(0, 50),
    ),
    max_size=20,
)


@pytest.mark.parametrize("caching", [True, False])
@given(records=read_inputs, cuts=st.lists(st.integers(0, 20), max_size=3), left=st.booleans())
@settings(max_examples=examples(40), deadline=None)
def test_a_join_sees_the_aggregate_as_it_is_when_the_record_comes(
    caching: bool, records: list[Input], cuts: list[int], left: bool
) -> None:
    single = case_of(COUNT)
    join = ProcessorNode("join", ("t",), op.StreamTableJoin("agg", left, JOINER))
    case = Case((*single.nodes, join), {"s": NUMBERS, "t": NUMBERS}, single.stores, caching)
    assert_forms_agree(case, records, cuts)


def test_a_join_reads_rows_that_this_epoch_did_not_touch() -> None:
    single = case_of(aggregate("mean", "avg", "n"))
    join = ProcessorNode("join", ("t",), op.StreamTableJoin("agg", False, pl.col("__right.mean")))
    case = Case((*single.nodes, join), {"s": NUMBERS, "t": NUMBERS}, single.stores, True)
    records = [put("a", number(1)), put("a", number(2)), Input("t", "a", number(), 9)]
    result = assert_forms_agree(case, records, [2])
    assert result.sent["join"] == [Record("a", 1.5, 9)]


@pytest.mark.parametrize("caching", [True, False])
def test_a_join_does_not_see_what_comes_after_it(caching: bool) -> None:
    join = ProcessorNode("join", ("t",), op.StreamTableJoin("agg", True, JOINER))
    single = case_of(COUNT)
    case = Case((*single.nodes, join), {"s": NUMBERS, "t": NUMBERS}, single.stores, caching)
    seen = Input("t", "a", number(), 9)
    result = assert_forms_agree(case, [seen, put("a", number()), seen, put("a", number()), seen], [3])
    assert [record.value["seen"] for record in result.sent["join"]] == [None, 1, 2]
    result = assert_forms_agree(case, [put("a", number()), seen, put("a", number()), seen], [1])
    assert [record.value["seen"] for record in result.sent["join"]] == [1, 2]
