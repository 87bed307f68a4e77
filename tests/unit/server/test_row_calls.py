"""Expressions in child processes: what takes long or too much memory is ended, and the server goes on."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from starlette.testclient import TestClient
from tests.unit.server.command_servers import client_of, ksql, rows, server_in, wait_until

from hayase.server.children.row_calls import PROGRAMS_KEPT, RowCalls
from hayase.sql.errors import FunctionError
from hayase.sql.expressions.rows import RowExpression, compile_row
from hayase.sql.functions.registry import default_registry
from hayase.sql.grammar.parser import parse_expression
from hayase.sql.types.sql_types import STRING, DecimalType, SqlType

COLUMNS: dict[str, SqlType] = {"T": STRING, "D": DecimalType(9, 2)}
SERIES = "GENERATE_SERIES(1, 1000000)"
FOR_EVER = f"REDUCE({SERIES}, 0, (s, x) => REDUCE({SERIES}, s, (t, y) => t + y))"
TOO_LARGE = "REDUCE(GENERATE_SERIES(1, 60), 'aaaa', (s, x) => s + s)"


@pytest.fixture(scope="module")
def calls() -> Iterator[RowCalls]:
    made = RowCalls(1.5)
    yield made
    made.close()


def expression(text: str, calls: RowCalls) -> RowExpression:
    functions = default_registry().calling_by(lambda function, values: None, calls)
    return compile_row(parse_expression(text), COLUMNS, functions)


def test_values_are_those_that_are_computed_here(calls: RowCalls) -> None:
    text = "STRUCT(a := RPAD(T, 3000, 'x'), b := MAP(T := D), c := ARRAY[D, NULL])"
    row = {"T": "é", "D": None}
    assert expression(text, calls)(row) == compile_row(parse_expression(text), COLUMNS, default_registry())(row)


def test_an_error_is_that_of_the_function(calls: RowCalls) -> None:
    with pytest.raises(FunctionError, match="at most") as caught:
        expression("RPAD(T, 2000000000, 'x')", calls)({"T": "a"})
    assert caught.value.condition == "TOO_LONG"


def test_a_child_forgets_expressions_that_it_cannot_keep(calls: RowCalls) -> None:
    made = [expression(f"RPAD(T, {1000 + number}, 'x')", calls) for number in range(PROGRAMS_KEPT + 2)]
    for _ in range(2):
        assert [len(each({"T": "a"})) for each in made] == [1000 + number for number in range(PROGRAMS_KEPT + 2)]


def test_rows_that_cannot_be_sent_use_up_no_process() -> None:
    made = RowCalls(1.0, at_most=1)
    try:
        for _ in range(2):
            with pytest.raises(TypeError):
                made(b"", {"T": object()})
    finally:
        made.close()


@pytest.mark.long
def test_an_expression_that_takes_too_long_is_ended_and_not_computed_again_for_a_while(calls: RowCalls) -> None:
    ended = calls.ended
    with pytest.raises(FunctionError, match=r"took longer than 1\.5 s for one row and was ended"):
        expression(FOR_EVER, calls)({})
    begin_s = time.monotonic()
    with pytest.raises(FunctionError, match="is not computed again"):
        expression(FOR_EVER, calls)({})
    assert time.monotonic() - begin_s < 0.5
    assert calls.ended == ended + 1
    assert expression("RPAD(T, 300, 'x')", calls)({"T": "a"}) is not None


@pytest.mark.parametrize(
    "text",
    [
        TOO_LARGE,
        "REPLACE(RPAD('a', 100000, 'a'), 'a', RPAD('b', 1000000, 'b'))",
        "TRANSFORM(GENERATE_SERIES(1, 100000), x => RPAD('a', 1000000, 'a'))",
        "RPAD('a', 10000000, 'a')",
        f"{SERIES}",
    ],
)
def test_an_expression_that_makes_too_much_is_an_error(calls: RowCalls, text: str) -> None:
    with pytest.raises(FunctionError, match=r"MemoryError|result is too large|took longer"):
        expression(text, calls)({})


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    with server_in(tmp_path_factory.mktemp("calls"), hayase_server_function_timeout_ms=1000) as context:
        client = client_of(context)
        statements = """
            CREATE STREAM s (k STRING KEY, v INT) WITH (kafka_topic='s', value_format='JSON', partitions=1);
            CREATE TABLE t AS SELECT k, COUNT(*) AS n FROM s GROUP BY k;
        """
        ksql(client, statements + "".join(f"INSERT INTO s VALUES ('k{number}', 1);" for number in range(5)))
        wait_until(lambda: len(rows(client, "SELECT k FROM t;")) == 5)
        yield client


@pytest.mark.long
@pytest.mark.parametrize("from_", ["t", "t WHERE k = 'k1'", "t WHERE k IN ('k1', 'k2')", "s"])
def test_a_pull_query_whose_rows_take_for_ever_ends_with_nulls(client: TestClient, from_: str) -> None:
    begin_s = time.monotonic()
    found = rows(client, f"SELECT k, {FOR_EVER} AS x FROM {from_};")
    assert found and all(key is not None and value is None for key, value in found)
    assert time.monotonic() - begin_s < 20.0


@pytest.mark.long
@pytest.mark.parametrize("item", [FOR_EVER, TOO_LARGE])
def test_a_push_query_whose_rows_take_too_much_goes_on_with_nulls(client: TestClient, item: str) -> None:
    select = f"SELECT k, {item} AS x FROM s EMIT CHANGES LIMIT 5;"
    response = client.post("/query", json={"ksql": select, "streamsProperties": {"auto.offset.reset": "earliest"}})
    found = [each["row"]["columns"] for each in response.json() if "row" in each]
    assert [value for _, value in found] == [None] * 5


@pytest.mark.long
def test_a_statement_that_takes_for_ever_is_refused(client: TestClient) -> None:
    answers: list[Any] = [
        client.post("/ksql", json={"ksql": f"INSERT INTO s VALUES ('a', {FOR_EVER});"}),
        client.post("/query", json={"ksql": f"SELECT k FROM t WHERE k = CAST({FOR_EVER} AS STRING);"}),
    ]
    for answer in answers:
        assert answer.status_code == 400
        assert "took longer than 1 s" in answer.json()["message"]


def test_a_record_that_becomes_many_rows_is_shown_in_parts(client: TestClient) -> None:
    select = "SELECT EXPLODE(GENERATE_SERIES(1, 3000)) AS n FROM s EMIT CHANGES LIMIT 5000;"
    response = client.post("/query-stream", json={"sql": select, "properties": {"auto.offset.reset": "earliest"}})
    assert response.text.count("\n") == 5_001
