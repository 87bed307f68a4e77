"""What expressions are refused, and what the refusal says."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from tests.unit.kernel.harness import Case, Input, Source, compile_case, run_rows

from hayase.core.errors import TopologyError
from hayase.kernel.frame.order import LookupOrder, RecordOrder
from hayase.kernel.registry import COLUMNS
from hayase.serde import Serdes
from hayase.topology import operators as op
from hayase.topology.nodes import ProcessorNode

SOURCES = {"s": Source(Serdes.string(), Serdes.json(schema={"n": pl.Int64, "s": pl.String}))}


def chain(*operators: op.Operator) -> Case:
    names = ["s", *(f"n{i}" for i in range(len(operators)))]
    return Case(
        tuple(
            ProcessorNode(name, (parent,), operator)
            for parent, name, operator in zip(names, names[1:], operators, strict=False)
        ),
        SOURCES,
    )


def test_an_unknown_field_is_refused_with_the_fields_that_are_there() -> None:
    with pytest.raises(TopologyError, match="wrong") as caught:
        compile_case(chain(op.Filter(pl.col("wrong") > 1)))
    assert caught.value.condition == "UNKNOWN_FIELD"
    assert "n (Int64), s (String)" in caught.value.message
    assert caught.value.context == {"node": "n0"}


def test_a_predicate_that_is_no_boolean_is_refused() -> None:
    with pytest.raises(TopologyError, match="gives Int64, a predicate must give a boolean"):
        compile_case(chain(op.Filter(pl.col("n") + 1)))


def test_an_expression_that_does_not_fit_the_types_is_refused() -> None:
    with pytest.raises(TopologyError, match="cannot work on") as caught:
        compile_case(chain(op.MapValues(pl.col("s") - pl.col("n"))))
    assert caught.value.condition == "INVALID_EXPRESSION"


@pytest.mark.parametrize(
    "expression",
    [
        pl.col("n").sum(),
        pl.col("n") / pl.col("n").max(),
        pl.col("n").shift(1),
        pl.col("n").cum_sum(),
        pl.len(),
        pl.col("n").sum().over("s"),
        pl.col("s").str.split(" ").explode(),
        pl.sum_horizontal(pl.all()),
        pl.col("n", "s"),
    ],
)
def test_an_expression_over_several_records_is_refused_in_both_forms(expression: pl.Expr) -> None:
    case = chain(op.MapValues(expression))
    with pytest.raises(TopologyError) as caught:
        compile_case(case)
    assert caught.value.condition == "INVALID_EXPRESSION"
    with pytest.raises(TopologyError):
        run_rows(case, [[Input("s", "a", {"n": 1, "s": "x"}, 1)]], typed=False)


@pytest.mark.parametrize(
    "expression",
    [
        pl.col("n").map_elements(lambda n: f"{n:03}", return_dtype=pl.String),
        pl.lit(3) + 1,
        pl.col("s").str.split(" ").list.eval(pl.element().str.len_chars()),
        pl.when(pl.col("n") > 3).then(pl.lit("big")).otherwise(pl.col("s")),
    ],
)
def test_an_expression_over_one_record_is_accepted(expression: pl.Expr) -> None:
    assert len(compile_case(chain(op.MapValues(expression)))) == 1


def test_a_callable_without_a_schema_has_no_column_form() -> None:
    node = ProcessorNode("n", ("s",), op.MapValues(lambda key, value: value))
    ctx: Any = None  # not looked at
    assert COLUMNS[op.MapValues](node, [SOURCES["s"].edge], ctx) is None


def nodes(*pairs: tuple[str, tuple[str, ...]]) -> RecordOrder:
    made = [
        ProcessorNode(name, parents, op.TableSource(None) if name == "t" else op.Merge()) for name, parents in pairs
    ]
    return RecordOrder(made, {}, caching=False)


def test_branches_of_one_stream_are_merged_in_the_order_they_were_added() -> None:
    order = nodes(("a", ("s",)), ("b", ("s",)), ("m", ("b", "a"))).merge([("b", "m"), ("a", "m")])
    assert order is not None
    assert order.ranks == (1, 0)


def test_a_merge_whose_parents_take_turns_within_one_record_has_no_order() -> None:
    order = nodes(("a", ("s",)), ("b", ("s",)), ("c", ("s",)), ("ac", ("a", "c")), ("m", ("ac", "b")))
    assert order.merge([("ac", "m"), ("b", "m")]) is None


def test_a_reader_added_after_the_table_sees_the_update_of_the_same_record() -> None:
    assert nodes(("t", ("s",)), ("j", ("s",))).lookup("j", "s", "t") == LookupOrder(1, table_first=True)
    assert nodes(("j", ("s",)), ("t", ("s",))).lookup("j", "s", "t") == LookupOrder(1, table_first=False)
