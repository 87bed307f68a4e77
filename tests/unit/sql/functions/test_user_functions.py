"""Functions of users may raise and return anything: rows and columns give the same, and write what the types say."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from tests.ksqldb.epoch_driver import EpochDriver

from hayase.core.errors import HayaseError
from hayase.sql.engine import SqlEngine
from hayase.sql.functions.registry import default_registry, udaf, udf, udtf
from hayase.sql.types.sql_types import INTEGER
from hayase.testing.topics import RawRecord

SOURCE = "CREATE STREAM s (k STRING KEY, v INT) WITH (kafka_topic='s', value_format='JSON', partitions=1);"


def of_number(results: dict[int, Any]) -> Callable[[int], Any]:
    """A function that gives these results, and 1 for other numbers."""
    return lambda number: results.get(number, 1)


udf("TO_INT", "(INT) -> INT")(of_number({2: "text", 3: 2**40, 4: 1.5, 5: True}))
udf("TO_LIST", "(INT) -> ARRAY<INT>")(of_number({1: [1], 2: "abc", 3: [1, "x"], 4: {}, 5: [1, None]}))
udf("TO_STRUCT", "(INT) -> STRUCT<A INT, B STRING>")(
    of_number({1: {"A": 1, "B": "b"}, 2: {"A": 1}, 3: {"a": 1}, 4: {"A": 1, "C": 2}, 5: [1, "b"]})
)
udf("TO_MAP", "(INT) -> MAP<STRING, INT>")(of_number({1: {"a": 1}, 2: {1: 1}, 3: {"a": "b"}, 4: {None: 1}, 5: {}}))
udf("TO_DECIMAL", "(INT) -> DECIMAL(4, 2)")(
    of_number({2: Decimal("123.45"), 3: 1.5, 4: Decimal("NaN"), 5: Decimal("1.235")})
)
udf("TO_TEXT", "(INT) -> STRING")(of_number({1: "é", 2: "\ud800", 3: 5, 4: b"x", 5: ""}))
udf("TO_DOUBLE", "(INT) -> DOUBLE")(of_number({2: "1.5", 3: 10**400, 4: True, 5: 0.5}))


@udf("FAILS", "(INT) -> INT")
def fails(number: int) -> int:
    if number in (2, 3, 4):
        raise {2: ValueError("two"), 3: StopIteration(), 4: SystemExit(4)}[number]
    return number


@udtf("ITEMS", "(INT) -> INT")
def items(number: int) -> Any:
    return {1: [1, None], 2: "12", 3: 7, 4: [1, "x"], 5: iter((8, 9))}[number]


@udaf("TOTAL", "(INT) -> INT")
class Total:
    state_type = INTEGER

    def initial(self) -> int:
        return 0

    def add(self, state: int, number: int) -> Any:
        return "many" if number == 2 else state + number

    def result(self, state: int) -> Any:
        return "large" if state == 6 else state


def written(query: str, numbers: list[int], form: str) -> list[Any]:
    """The values that a query writes for these numbers: in rows an epoch each, else all in one."""
    functions = default_registry()
    functions.load_module(__name__)
    engine = SqlEngine(functions=functions)
    engine.script(SOURCE + query)
    (running,) = engine.queries.values()
    records = [RawRecord("s", b"k", b'{"V":%d}' % number, 0) for number in numbers]
    driver = EpochDriver(running.topology, {"processing.form": form, "statestore.cache.max.bytes": 0})
    with driver:
        for epoch in [[record] for record in records] if form == "rows" else [records]:
            driver.pipe_epoch(epoch)
        return [json.loads(record.value)["X"] for record in driver.output_queue("R") if record.value is not None]


@pytest.mark.parametrize("form", ["rows", "auto"])
@pytest.mark.parametrize(
    ("function", "expected"),
    [
        ("TO_INT", [1, None, None, None, None]),
        ("TO_LIST", [[1], None, None, None, [1, None]]),
        ("TO_STRUCT", [{"A": 1, "B": "b"}, {"A": 1, "B": None}, None, None, None]),
        ("TO_MAP", [{"a": 1}, None, None, None, {}]),
        ("TO_DECIMAL", [1.0, None, None, None, 1.24]),
        ("TO_TEXT", ["é", None, None, None, ""]),
        ("TO_DOUBLE", [1.0, None, None, None, 0.5]),
        ("FAILS", [1, None, None, None, 5]),
    ],
)
def test_a_result_that_is_none_of_the_declared_type_is_null(function: str, expected: list[Any], form: str) -> None:
    assert written(f"CREATE STREAM r AS SELECT k, {function}(v) AS x FROM s;", [1, 2, 3, 4, 5], form) == expected


@pytest.mark.parametrize("form", ["rows", "auto"])
def test_a_table_function_that_gives_no_list_of_the_declared_type_gives_no_rows(form: str) -> None:
    query = "CREATE STREAM r AS SELECT k, ITEMS(v) AS x FROM s;"
    assert written(query, [1, 2, 3, 4, 5], form) == [1, None, 8, 9]


@pytest.mark.parametrize("form", ["rows", "auto"])
@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        ([1, 2], r"TOTAL \(as its state\) returned 'many', which is no INTEGER"),
        ([1, 5], r"TOTAL returned 'large', which is no INTEGER"),
    ],
)
def test_an_aggregate_of_another_type_than_declared_stops_its_query(
    numbers: list[int], message: str, form: str
) -> None:
    query = "CREATE TABLE r AS SELECT k, TOTAL(v) AS x FROM s GROUP BY k;"
    assert written(query, [1, 3], form)[-1] == 4
    with pytest.raises(HayaseError, match=message):
        written(query, numbers, form)
