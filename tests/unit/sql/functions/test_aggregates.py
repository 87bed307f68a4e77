"""Aggregate functions: add, undo, merge."""

from __future__ import annotations

import math
from decimal import Decimal

import pytest
from tests.unit.sql.functions.evaluation import REGISTRY, Running

from hayase.sql.errors import FunctionError, StatementError
from hayase.sql.types.sql_types import (
    BIGINT,
    BOOLEAN,
    BYTES,
    DOUBLE,
    INTEGER,
    STRING,
    ArrayType,
    DecimalType,
    SqlType,
)


def test_count_counts_rows_or_values() -> None:
    rows = Running("COUNT", [])
    assert (rows.add((), ()), rows.undo(())) == (2, 1)
    values = Running("COUNT", [STRING])
    assert (values.add("a", None, "b"), values.undo(None, "a")) == (2, 1)


@pytest.mark.parametrize(
    ("type_", "values", "total"),
    [
        (INTEGER, (2, None, 3), 5),
        (INTEGER, (2**31 - 1, 1), -(2**31)),
        (BIGINT, (2**63 - 1, 2), -(2**63) + 1),
        (DOUBLE, (0.5, None, 1.0), 1.5),
        (DecimalType(4, 1), (Decimal("1.5"), Decimal("-0.2")), Decimal("1.3")),
        (INTEGER, (None,), 0),
    ],
)
def test_sums_leave_nulls_out_and_wrap_like_java(type_: SqlType, values: tuple[object, ...], total: object) -> None:
    running = Running("SUM", [type_])
    assert running.add(*values) == total
    assert running.merge(running) is not None
    assert running.undo(*values) == 0


def test_a_sum_of_decimals_has_their_type_and_an_overflow_is_an_error() -> None:
    running = Running("SUM", [DecimalType(4, 1)])
    assert str(running.bound.return_type) == "DECIMAL(4, 1)"
    running.add(Decimal("900.0"))
    with pytest.raises(FunctionError, match="Numeric field overflow"):
        running.add(Decimal("100.0"))
    wide = Running("SUM", [DecimalType(38, 2)])
    assert str(wide.add(Decimal("123456789012345678901234567890123456.78"), Decimal("0.01"))).endswith("456.79")


def test_averages() -> None:
    running = Running("AVG", [INTEGER])
    assert running.add(None) == 0.0
    assert (running.add(1, 2, None, 2), running.undo(2, None)) == (5 / 3, 1.5)
    other = Running("AVG", [INTEGER])
    other.add(6)
    assert running.merge(other) == 3.0


def test_sum_list_adds_all_elements() -> None:
    running = Running("SUM_LIST", [ArrayType(BIGINT)])
    assert (running.add([1, None, 2], None, [3]), running.undo([3])) == (6, 3)


def test_stddev_samp_is_the_variance_and_stddev_sample_its_root() -> None:
    values = [-1.8, 2.3, 100.2]
    variance, deviation = Running("STDDEV_SAMP", [DOUBLE]), Running("STDDEV_SAMPLE", [DOUBLE])
    assert (variance.add(values[0]), variance.add(values[1])) == (0.0, 8.405)
    assert variance.add(values[2]) == 3334.2033333333347
    assert deviation.add(*values, None) == math.sqrt(3334.2033333333347)
    assert deviation.undo(100.2) == pytest.approx(math.sqrt(8.405))
    left, right = Running("STDDEV_SAMP", [DOUBLE]), Running("STDDEV_SAMP", [DOUBLE])
    left.add(values[0])
    right.add(*values[1:])
    assert left.merge(right) == pytest.approx(3334.2033333333347)
    assert left.merge(Running("STDDEV_SAMP", [DOUBLE])) == 0.0


def test_correlation() -> None:
    running = Running("CORRELATION", [DOUBLE, DOUBLE])
    assert math.isnan(running.add((1.5, 8.0)))
    assert running.add((-1.0, -2.0), (None, 1.0)) == 1.0
    assert running.add((-4.5, -1.0)) == pytest.approx(0.7580764521133173)
    assert running.undo((-4.5, -1.0)) == pytest.approx(1.0)
    other = Running("CORRELATION", [DOUBLE, DOUBLE])
    other.add((-4.5, -1.0))
    assert running.merge(other) == pytest.approx(0.7580764521133173)


@pytest.mark.parametrize(
    ("type_", "values", "least", "greatest"),
    [
        (INTEGER, (3, None, -1), -1, 3),
        (STRING, ("b", "B", "a"), "B", "b"),
        (BYTES, (b"b", b"ab"), b"ab", b"b"),
        (DecimalType(3, 2), (Decimal("1.10"), Decimal("1.09")), Decimal("1.09"), Decimal("1.10")),
        (DOUBLE, (None,), None, None),
        (DOUBLE, (1.0, math.inf, -math.inf), -math.inf, math.inf),
    ],
)
def test_extremes(type_: SqlType, values: tuple[object, ...], least: object, greatest: object) -> None:
    low, high = Running("MIN", [type_]), Running("MAX", [type_])
    assert (low.add(*values), high.add(*values)) == (least, greatest)
    assert low.merge(Running("MIN", [type_])) == least
    assert not low.bound.can_undo


def test_histogram_counts_values_up_to_a_limit() -> None:
    running = Running("HISTOGRAM", [STRING], settings={"ksql.functions.histogram.limit": 2})
    assert running.add("a", "b", "a", None, "c") == {"a": 2, "b": 1}
    assert running.undo("b", "a", "z") == {"a": 1}
    other = Running("HISTOGRAM", [STRING])
    other.add("a", "x", "y")
    assert running.merge(other) == {"a": 2, "x": 1}
    many = Running("HISTOGRAM", [STRING])
    assert len(many.add(*map(str, range(1100)))) == 1000


def test_collect_list_keeps_order_and_nulls_and_can_undo() -> None:
    running = Running("COLLECT_LIST", [INTEGER])
    assert running.add(1, None, 2, 1) == [1, None, 2, 1]
    assert running.undo(1, 7) == [1, None, 2]
    assert running.merge(running) == [1, None, 2, 1, None, 2]


def test_collect_set_keeps_the_first_of_equal_values() -> None:
    running = Running("COLLECT_SET", [ArrayType(INTEGER)])
    assert running.add([1], None, [2], [1], None) == [[1], None, [2]]
    other = Running("COLLECT_SET", [ArrayType(INTEGER)])
    other.add([2], [3])
    assert running.merge(other) == [[1], None, [2], [3]]


@pytest.mark.parametrize("function", ["COLLECT_LIST", "COLLECT_SET"])
def test_collections_have_a_limit(function: str) -> None:
    settings = {f"ksql.functions.{function.lower()}.limit": "2"}
    running = Running(function, [INTEGER], settings=settings)
    assert running.add(1, 2, 3) == [1, 2]
    assert running.merge(running) == [1, 2] if function == "COLLECT_SET" else [1, 2]
    assert Running(function, [INTEGER], settings={f"ksql.functions.{function.lower()}.limit": -1}).add(1, 2, 3) == [
        1,
        2,
        3,
    ]


def test_a_limit_must_be_a_number() -> None:
    with pytest.raises(ValueError, match="whole number"):
        Running("COLLECT_LIST", [INTEGER], settings={"ksql.functions.collect_list.limit": "many"})


def test_count_distinct_is_exact_for_few_values_and_close_for_many() -> None:
    running = Running("COUNT_DISTINCT", [STRING])
    assert running.add(None) == 0
    assert running.add("a", "b", "a", None) == 2
    other = Running("COUNT_DISTINCT", [STRING])
    other.add("b", "c")
    assert running.merge(other) == 3
    many = Running("COUNT_DISTINCT", [INTEGER])
    assert many.add(*range(20_000)) == pytest.approx(20_000, rel=0.06)
    assert len(many.state["SKETCH"]) <= 16 * 1024


def test_attr_is_the_only_value() -> None:
    running = Running("ATTR", [STRING])
    assert running.add("a", "a") == "a"
    assert running.add(None) is None
    assert running.undo(None) == "a"
    other = Running("ATTR", [STRING])
    other.add("b")
    assert running.merge(other) is None
    assert running.merge(running) == "a"


def test_topk_keeps_the_greatest_values() -> None:
    running = Running("TOPK", [INTEGER, INTEGER], {1: 3})
    assert running.add(0, 100, None, 99, 7, 100) == [100, 100, 99]
    assert running.merge(running) == [100, 100, 100]
    assert str(running.bound.return_type) == "ARRAY<INTEGER>"


def test_topk_of_several_columns_keeps_rows() -> None:
    running = Running("TOPK", [INTEGER, STRING, DOUBLE, INTEGER], {3: 2})
    assert str(running.bound.return_type) == "ARRAY<STRUCT<`sort_col` INTEGER, `col0` STRING, `col1` DOUBLE>>"
    assert running.add((1, "a", 0.5), (3, "b", None), (None, "c", 1.0), (3, "d", 2.0)) == [
        {"sort_col": 3, "col0": "b", "col1": None},
        {"sort_col": 3, "col0": "d", "col1": 2.0},
    ]


def test_topkdistinct_keeps_the_greatest_different_values() -> None:
    running = Running("TOPKDISTINCT", [STRING, INTEGER], {1: 2})
    assert running.add("a", "b", "b", None, "c", "b") == ["c", "b"]
    assert (
        str(Running("TOPKDISTINCT", [DecimalType(3, 1), INTEGER], {1: 2}).bound.return_type) == "ARRAY<DECIMAL(3, 1)>"
    )


@pytest.mark.parametrize("function", ["TOPK", "TOPKDISTINCT", "EARLIEST_BY_OFFSET", "LATEST_BY_OFFSET"])
def test_a_number_of_values_must_be_positive(function: str) -> None:
    with pytest.raises(StatementError, match="from 1 on"):
        Running(function, [INTEGER, INTEGER], {1: 0})


def test_a_number_of_values_must_be_a_literal() -> None:
    with pytest.raises(StatementError, match="literal"):
        Running("TOPK", [INTEGER, INTEGER])


def test_earliest_and_latest_by_offset() -> None:
    assert Running("EARLIEST_BY_OFFSET", [INTEGER]).add(None, 1, 2) == 1
    assert Running("LATEST_BY_OFFSET", [INTEGER]).add(1, 2, None) == 2
    assert Running("EARLIEST_BY_OFFSET", [INTEGER, BOOLEAN], {1: False}).add(None, 1) is None
    assert Running("LATEST_BY_OFFSET", [INTEGER, BOOLEAN], {1: False}).add(1, None) is None
    assert Running("EARLIEST_BY_OFFSET", [INTEGER, INTEGER], {1: 2}).add(None, 1, 2, 3) == [1, 2]
    assert Running("LATEST_BY_OFFSET", [INTEGER, INTEGER, BOOLEAN], {1: 2, 2: False}).add(1, 2, None) == [2, None]


def test_sessions_are_merged_in_order_of_arrival() -> None:
    for function, values, one in (("EARLIEST_BY_OFFSET", [1, 2], 1), ("LATEST_BY_OFFSET", [2, 3], 3)):
        several, other = (Running(function, [INTEGER, INTEGER], {1: 2}) for _ in range(2))
        several.add(1)
        other.add(2)
        several.add(3)
        assert several.merge(other) == other.merge(several) == values
        single, later = (Running(function, [INTEGER]) for _ in range(2))
        single.add(1)
        later.add(3)
        assert later.merge(single) == one
        assert single.merge(Running(function, [INTEGER])) == 1


def test_which_aggregates_tables_can_have() -> None:
    undoing = {
        "COUNT",
        "SUM",
        "AVG",
        "SUM_LIST",
        "STDDEV_SAMPLE",
        "STDDEV_SAMP",
        "CORRELATION",
        "HISTOGRAM",
        "COLLECT_LIST",
        "ATTR",
    }
    found = {
        declaration.name
        for name in REGISTRY.names()
        for declaration in REGISTRY.overloads(name)
        if REGISTRY.is_aggregate(name) and hasattr(declaration.target, "undo")
    }
    assert found == undoing
