"""A restart with other functions: what calls them does not go on by itself, everything else does."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any

import pytest
from tests.unit.server.command_servers import client_of, execute, ksql, refused, rows, server_in, wait_until

from hayase.cli.functions import registry_with
from hayase.core.time import SystemClock
from hayase.server.context import ServerContext
from hayase.server.hosts.protocol import QueryState
from hayase.server.hosts.spark import SparkHost
from hayase.sql.errors import StatementError
from hayase.sql.functions.registry import FunctionRegistry

_NUMBERS = count()
HEAD = "from hayase.sql.functions.registry import udaf, udf, udtf\nfrom hayase.sql.types.sql_types import *\n"
TAX = '@udf("TAX", "(INT) -> INT")\ndef tax(v):\n    return v * {rate}\n'
STREAM = "CREATE STREAM s (k STRING KEY, v INT) WITH (kafka_topic='s', value_format='JSON', partitions=1);"
QUERIES = (
    STREAM
    + """
CREATE TABLE taxed AS SELECT k, SUM(tax(v)) AS v FROM s GROUP BY k;
CREATE TABLE plain AS SELECT k, SUM(v) AS v FROM s GROUP BY k;
"""
)


def functions(folder: Path, python: str) -> FunctionRegistry:
    """The functions of a file, which has a name of its own as a module."""
    file = folder / f"changed_functions_{next(_NUMBERS)}.py"
    file.write_text(HEAD + python)
    return registry_with([str(file)])


def taxing(folder: Path, rate: int) -> FunctionRegistry:
    """TAX with a rate."""
    return functions(folder, TAX.format(rate=rate))


def described(context: ServerContext, query_id: str) -> dict[str, Any]:
    """A query as EXPLAIN shows it."""
    (entity,) = ksql(client_of(context), f"EXPLAIN {query_id};")
    found: dict[str, Any] = entity["queryDescription"]
    return found


def sums(context: ServerContext, table: str) -> list[list[Any]]:
    """The rows of a table."""
    return rows(client_of(context), f"SELECT k, v FROM {table};")


def test_a_query_whose_function_has_changed_is_in_error_until_resume_takes_the_new_one(tmp_path: Path) -> None:
    with server_in(tmp_path, functions=taxing(tmp_path, 2)) as context:
        execute(context, QUERIES)
        ksql(client_of(context), "INSERT INTO s VALUES ('a', 1);")
        wait_until(lambda: sums(context, "taxed") == [["a", 2]])
    for _ in range(2):  # a start does not accept it, however often there is one
        with server_in(tmp_path, functions=taxing(tmp_path, 10)) as context:
            assert context.status == "RUNNING"
            wait_until(lambda: sums(context, "plain") == [["a", 1]])
            found = described(context, "CTAS_TAXED_0")
            assert found["state"] == "ERROR"
            (error,) = found["queryErrors"]
            assert "the Python of TAX(INT) -> INT has changed" in error["errorMessage"]
            assert "RESUME CTAS_TAXED_0;" in error["errorMessage"]
            answer = refused(client_of(context), "SELECT k FROM taxed;")
            assert answer["error_code"]
    with server_in(tmp_path, functions=taxing(tmp_path, 10)) as context:
        ksql(client_of(context), "RESUME CTAS_TAXED_0;")
        assert described(context, "CTAS_TAXED_0")["state"] == "RUNNING"
        ksql(client_of(context), "INSERT INTO s VALUES ('b', 1);")
        wait_until(lambda: ["b", 10] in sums(context, "taxed"))
    with server_in(tmp_path, functions=taxing(tmp_path, 10)) as context:
        assert described(context, "CTAS_TAXED_0")["state"] == "RUNNING"
    with server_in(tmp_path, functions=taxing(tmp_path, 2)) as context:
        assert described(context, "CTAS_TAXED_0")["state"] == "ERROR"


def test_a_query_whose_function_is_missing_is_in_error_and_goes_on_once_it_is_back(tmp_path: Path) -> None:
    with server_in(tmp_path, functions=taxing(tmp_path, 2)) as context:
        execute(context, QUERIES)
        taxed = context.engine.catalog.find("TAXED")
    with server_in(tmp_path) as context:
        assert context.status == "RUNNING"
        assert context.engine.catalog.find("TAXED") == taxed
        found = described(context, "CTAS_TAXED_0")
        assert "TAX(INT) -> INT is not there any more" in found["queryErrors"][0]["errorMessage"]
        assert found["state"] == "ERROR"
        assert described(context, "CTAS_PLAIN_1")["state"] == "RUNNING"
        assert "--functions" in refused(client_of(context), "RESUME CTAS_TAXED_0;")["message"]
        ksql(client_of(context), "PAUSE ALL; RESUME ALL;")
        assert described(context, "CTAS_TAXED_0")["state"] == "ERROR"
    with server_in(tmp_path, functions=taxing(tmp_path, 2)) as context:
        assert described(context, "CTAS_TAXED_0")["state"] == "RUNNING"


def test_a_function_of_a_statement_that_is_not_trusted_any_more_holds_its_queries(tmp_path: Path) -> None:
    create = "CREATE FUNCTION tax(v INT) RETURNS INT LANGUAGE PYTHON AS 'v * 2';"
    trusts: dict[str, Any] = {"ksql_udfs_python_enabled": "true"}
    with server_in(tmp_path, **trusts) as context:
        execute(context, create + QUERIES + create.replace("CREATE", "CREATE OR REPLACE").replace("2", "3"))
    with server_in(tmp_path, **trusts) as context:
        assert described(context, "CTAS_TAXED_0")["state"] == "RUNNING"  # it keeps the function of its name
    with server_in(tmp_path) as context:
        assert context.status == "RUNNING"
        found = described(context, "CTAS_TAXED_0")
        assert found["state"] == "ERROR"
        assert "ksql.udfs.python.enabled=true" in found["queryErrors"][0]["errorMessage"]


SPREAD = """
@udaf("SPREAD", "({argument}) -> {result}")
class Spread:
    state_type = ArrayType(INTEGER)

    def initial(self):
        return []

    def add(self, state, number):
        return state + [number]

    def result(self, state):
        return 1
"""
KINDS = {
    "scalar": (
        '@udf("ANYTHING", "(T) -> ?", returns=lambda types: ArrayType(types[0]))\ndef anything(v):\n    return [v]\n',
        "CREATE STREAM c AS SELECT k, anything(v) AS a, anything(k) AS b FROM s;",
    ),
    "table": (
        '@udtf("TWICE", "(T) -> T")\ndef twice(v):\n    return [v, v]\n',
        "CREATE STREAM c AS SELECT k, twice(v) AS a FROM s;",
    ),
    "aggregate": (
        SPREAD.format(argument="INT", result="INT"),
        "CREATE TABLE c AS SELECT k, spread(v) AS a FROM s GROUP BY k;",
    ),
    "aggregate with an open result": (
        SPREAD.format(argument="T", result="?").replace(")\n", ", returns=lambda types: types[0])\n", 1),
        "CREATE TABLE c AS SELECT k, spread(v) AS a FROM s GROUP BY k;",
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_statements_behind_one_whose_function_is_missing_mean_what_they_did(tmp_path: Path, kind: str) -> None:
    python, statement = KINDS[kind]
    with server_in(tmp_path, functions=functions(tmp_path, python)) as context:
        execute(context, f"{STREAM}{statement}CREATE TYPE later AS INT;")
        before = context.engine.catalog.find("C")
    with server_in(tmp_path) as context:
        assert context.engine.catalog.find("C") == before
        assert list(context.engine.catalog.types) == ["LATER"]
        (query_id,) = context.engine.queries
        assert context.host.status(query_id).state is QueryState.ERROR


def test_a_function_with_another_signature_is_not_taken_by_resume_but_the_query_can_be_made_again(
    tmp_path: Path,
) -> None:
    with server_in(tmp_path, functions=taxing(tmp_path, 2)) as context:
        execute(context, STREAM + "CREATE STREAM taxed AS SELECT k, tax(v) AS v FROM s;")
    text = TAX.format(rate=2).replace("-> INT", "-> BIGINT")
    with server_in(tmp_path, functions=functions(tmp_path, text)) as context:
        message = refused(client_of(context), "RESUME CSAS_TAXED_0;")["message"]
        assert "another signature: (INT) -> BIGINT" in message
        assert "make it again" in message
        execute(context, "DROP STREAM taxed;")
        execute(context, "CREATE STREAM taxed AS SELECT k, tax(v) AS v FROM s;")
        assert described(context, "CSAS_TAXED_1")["state"] == "RUNNING"
    with server_in(tmp_path, functions=functions(tmp_path, text)) as context:
        assert described(context, "CSAS_TAXED_1")["state"] == "RUNNING"


def test_create_or_replace_takes_the_function_as_it_is_now(tmp_path: Path) -> None:
    statement = "CREATE STREAM taxed AS SELECT k, tax(v) AS v FROM s;"
    with server_in(tmp_path, functions=taxing(tmp_path, 2)) as context:
        execute(context, STREAM + statement)
    with server_in(tmp_path, functions=taxing(tmp_path, 3)) as context:
        execute(context, statement.replace("CREATE", "CREATE OR REPLACE"))
        assert described(context, "CSAS_TAXED_0")["state"] == "RUNNING"
    with server_in(tmp_path, functions=taxing(tmp_path, 3)) as context:
        assert described(context, "CSAS_TAXED_0")["state"] == "RUNNING"


def test_a_query_on_spark_that_is_held_is_not_given_to_the_runtime(tmp_path: Path) -> None:
    with server_in(tmp_path, functions=taxing(tmp_path, 2)) as context:
        execute(context, QUERIES)
        query = context.engine.query("CTAS_TAXED_0")
        now_ms = SystemClock().now_ms
        settings = {"application.id": "held"}
        host = SparkHost(settings, context.log, now_ms, retry_initial_ms=1, retry_max_ms=1, stop_timeout_s=1)
        host.run(query, {}, problem="it has changed")
        status = host.status(query.id)
        assert (status.state, [error.message for error in status.errors]) == (QueryState.ERROR, ["it has changed"])
        assert host._work.empty()
        with pytest.raises(StatementError, match="it has changed"):
            host.open_store(query.id, "any")
