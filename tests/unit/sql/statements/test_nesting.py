"""Expressions that nest as deeply as statements allow are analyzed and run."""

from __future__ import annotations

import pytest

from hayase.core.errors import HayaseError
from hayase.sql.engine import SqlEngine
from hayase.sql.errors import StatementError
from hayase.sql.grammar.limits import LEVELS_OF_A_CALL, MAX_NESTING
from hayase.testing import TopologyTestDriver

CALLS = MAX_NESTING // LEVELS_OF_A_CALL - 1
LEVELS = MAX_NESTING - 1
SOURCE = "CREATE STREAM s (k INT KEY, a INT, xs ARRAY<INT>) WITH (kafka_topic='s', format='JSON');"


def nested(before: str, inner: str, after: str, times: int) -> str:
    return before * times + inner + after * times


def value_of(expression: str) -> bytes | None:
    """The value that a record with `a` = 1 becomes."""
    engine = SqlEngine()
    (_, created) = engine.script(f"{SOURCE} CREATE STREAM o AS SELECT k, {expression} AS x FROM s;")
    with TopologyTestDriver(created.started[0].topology) as driver:
        driver.pipe("s", b"1", b'{"a": 1, "xs": [1]}', 0, ())
        (record,) = driver.output_queue("O")
    return record.value


def with_stack_of(frames: int, expression: str) -> None:
    """Plan a query of an expression below so many frames."""
    if frames:
        with_stack_of(frames - 1, expression)
    else:
        SqlEngine().script(f"{SOURCE} CREATE STREAM o AS SELECT k, {expression} AS x FROM s;")


@pytest.mark.parametrize(
    "expression",
    [
        nested("ABS(", "a", ")", CALLS),
        nested("COALESCE(", "a", ", 2)", CALLS),
        nested("CASE WHEN a = 1 THEN ", "a", " END", CALLS),
        nested("CASE a WHEN 1 THEN ", "a", " END", CALLS),
        nested("CAST(", "a", " AS INT)", LEVELS),
        nested("- (", "a", ")", LEVELS - 1),
        "a" + " * a" * LEVELS,
        nested("ARRAY[", "a", "]", CALLS // 2) + "[1]" * (CALLS // 2),
        nested("REDUCE(xs, 0, (s, x) => ", "a", ")", MAX_NESTING // (LEVELS_OF_A_CALL + 1) - 1),
    ],
)
def test_expressions_at_the_limit_have_results(expression: str) -> None:
    assert value_of(expression) == b'{"X":1}'


def test_a_caller_with_a_deep_stack_gets_an_error_of_the_statement() -> None:
    with pytest.raises(StatementError, match=f"not more than {MAX_NESTING} levels"):
        with_stack_of(500, nested("ABS(", "a", ")", CALLS))


def test_an_expression_beyond_the_limit_says_what_counts() -> None:
    with pytest.raises(HayaseError, match=f"functions, constructors and CASE count as {LEVELS_OF_A_CALL}"):
        value_of(nested("ABS(", "a", ")", CALLS + 1))
