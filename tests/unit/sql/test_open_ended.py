"""Which expressions can take long, or much memory, for a small row; and that only these are computed elsewhere."""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from hayase.sql.errors import FunctionError
from hayase.sql.expressions.open_ended import is_open_ended, may_take_seconds
from hayase.sql.expressions.rows import RowExpression, RowProjection, compile_projection, compile_row
from hayase.sql.functions.registry import FunctionRegistry, default_registry
from hayase.sql.grammar.parser import parse_expression
from hayase.sql.types.sql_types import INTEGER, STRING, ArrayType, SqlType

COLUMNS: dict[str, SqlType] = {"T": STRING, "N": INTEGER, "L": ArrayType(INTEGER)}
ROW = {"T": "ab", "N": 3, "L": [1, 2]}


@pytest.mark.parametrize(
    "text",
    [
        "REDUCE(L, 0, (s, x) => s + x)",
        "N + ARRAY_LENGTH(TRANSFORM(L, x => x))",
        "GENERATE_SERIES(1, N)",
        "RPAD(T, N, 'x')",
        "LPAD(T, 100000, 'x')",
        "REPLACE(T, 'a', T)",
        "REGEXP_REPLACE(T, '', 'x')",
        " + ".join(["T"] * 101),
    ],
)
def test_what_can_grow_beyond_its_row_is_open_ended(text: str) -> None:
    assert is_open_ended(parse_expression(text))


@pytest.mark.parametrize(
    "text", ["T", "N * 2 + 1", "RPAD(T, 20, 'x')", "REPLACE(T, 'a', 'b')", "T LIKE '%a%'", "UCASE(T) || T", "L[1]"]
)
def test_all_else_is_not(text: str) -> None:
    assert not is_open_ended(parse_expression(text))


class Calls:
    """Computes here, and notes which rows were given."""

    def __init__(self, error: Exception | None = None) -> None:
        self.rows: list[Mapping[str, object]] = []
        self._error = error

    def __call__(self, program: bytes, row: Mapping[str, object]) -> tuple[Any, Sequence[Exception]]:
        self.rows.append(row)
        if self._error is not None:
            raise self._error
        failures: list[Exception] = []
        expression = pickle.loads(program)
        expression.report = failures.append
        return expression(row), failures


def functions(calls: Calls) -> FunctionRegistry:
    return default_registry().calling_by(lambda function, values: None, calls)


def expression(text: str, calls: Calls) -> RowExpression:
    return compile_row(parse_expression(text), COLUMNS, functions(calls))


def projection(calls: Calls, **items: str) -> RowProjection:
    parsed = [(name, parse_expression(text)) for name, text in items.items()]
    return compile_projection(parsed, COLUMNS, functions(calls))


def test_an_open_ended_expression_is_computed_elsewhere_with_the_columns_that_it_uses() -> None:
    calls = Calls()
    assert expression("N + 1", calls)(ROW) == 4
    assert calls.rows == []
    assert expression("REDUCE(L, 0, (s, x) => s + x)", calls)(ROW) == 3
    assert calls.rows == [{"L": [1, 2]}]


def test_where_it_is_pickled_to_it_is_computed_there() -> None:
    calls = Calls()
    travelled = pickle.loads(pickle.dumps(expression("RPAD(T, N, 'x')", calls)))
    assert travelled(ROW) == "abx"
    items = pickle.loads(pickle.dumps(projection(calls, A="RPAD(T, N, 'x')", B="N")))
    assert items(ROW) == {"A": "abx", "B": 3}
    assert calls.rows == []


def test_parts_that_fail_elsewhere_are_reported_here() -> None:
    reported: list[Exception] = []
    made = expression("IFNULL(RPAD(CAST(CAST('x' || T AS INT) AS STRING), N, 'y'), T)", Calls())
    made.report = reported.append
    assert made(ROW) == "ab"
    assert len(reported) == 1


def test_items_of_a_projection_fail_one_by_one_and_keep_their_order() -> None:
    reported: list[tuple[str, str]] = []
    made = projection(
        Calls(FunctionError("X", "too long")), A="N", B="RPAD(T, N, 'x')", C="CAST('x' || T AS INT)", D="T"
    )
    made.report = lambda name, error: reported.append((name, type(error).__name__))
    assert made(ROW) == {"A": 3, "B": None, "C": None, "D": "ab"}
    assert list(made(ROW)) == ["A", "B", "C", "D"]
    assert [name for name, _ in reported[:2]] == ["C", "B"]


def test_a_query_that_runs_elsewhere_is_compiled_without() -> None:
    calls = Calls()
    for_statement = functions(calls).of_statement(lambda declaration, bound: None)
    assert compile_row(parse_expression("RPAD(T, N, 'x')"), COLUMNS, for_statement).elsewhere is None
    assert for_statement.of_session.row_calls is calls
    assert for_statement.replaced("F").row_calls is calls


@pytest.mark.parametrize(
    ("text", "takes"),
    [("T LIKE '%a'", True), ("REGEXP_EXTRACT('a', T) = T", True), ("RPAD(T, N, 'x')", True), ("T", False)],
)
def test_patterns_and_open_ended_expressions_may_take_seconds(text: str, takes: bool) -> None:
    assert may_take_seconds(parse_expression(text)) is takes
