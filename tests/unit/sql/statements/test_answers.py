"""LIST, DESCRIBE, EXPLAIN and ASSERT, and statements that are refused."""

from __future__ import annotations

import pytest

from hayase.sql.engine import SqlEngine
from hayase.sql.errors import StatementError
from hayase.sql.statements.topics import MemoryTopics

SCRIPT = """
    CREATE STREAM s (k INT KEY, v INT, h BYTES HEADER('x')) WITH (kafka_topic='s', value_format='JSON');
    CREATE TABLE t AS SELECT v, COUNT(*) AS n FROM s WHERE v > 0 GROUP BY v;
    CREATE TYPE point AS STRUCT<x INT>;
"""


@pytest.fixture(scope="module")
def engine() -> SqlEngine:
    engine = SqlEngine(topics=MemoryTopics({"s": (2, 1)}))
    engine.script(SCRIPT)
    return engine


@pytest.mark.parametrize(
    ("what", "row"),
    [
        ("STREAMS", {"name": "S", "topic": "s", "keyFormat": "KAFKA", "valueFormat": "JSON", "isWindowed": False}),
        ("TABLES", {"name": "T", "topic": "T", "type": "TABLE"}),
        ("TOPICS", {"name": "s", "replicaInfo": [1, 1]}),
        ("QUERIES", {"id": "CTAS_T_0", "sinks": ["T"], "sinkKafkaTopics": ["T"]}),
        ("FUNCTIONS", {"name": "COUNT", "type": "AGGREGATE"}),
        ("PROPERTIES", {"name": "auto.offset.reset", "value": "latest", "use": "honoured"}),
        ("TYPES", {"name": "POINT", "schema": "STRUCT<`X` INTEGER>"}),
    ],
)
def test_list_has_a_row_for_each(engine: SqlEngine, what: str, row: dict[str, object]) -> None:
    (result,) = engine.script(f"LIST {what};")
    assert any(row.items() <= dict(each).items() for each in result.rows)


def test_variables_are_listed_where_they_are_defined_and_kept_for_later_scripts() -> None:
    engine = SqlEngine()
    results = engine.script("DEFINE a = 'x'; LIST VARIABLES; UNDEFINE a; LIST VARIABLES; DEFINE t = 's';")
    assert [result.rows for result in results if result.rows] == [({"name": "a", "value": "x"},)]
    engine.script("CREATE STREAM ${t} (k INT KEY, v INT) WITH (kafka_topic='${t}', value_format='JSON');")
    assert engine.catalog.find("S") is not None


def test_connectors_are_none(engine: SqlEngine) -> None:
    (result,) = engine.script("SHOW CONNECTORS;")
    assert result.rows == ()


def test_describe_has_columns_and_queries(engine: SqlEngine) -> None:
    (result,) = engine.script("DESCRIBE s;")
    (row,) = result.rows
    assert row["fields"] == [
        {"name": "K", "schema": "INTEGER", "type": "KEY"},
        {"name": "V", "schema": "INTEGER"},
        {"name": "H", "schema": "BYTES", "type": "HEADER"},
    ]
    assert (row["readQueries"], row["writeQueries"], row["sourceConstraints"]) == (["CTAS_T_0"], [], ["T"])


@pytest.mark.parametrize(
    "what", ["CTAS_T_0", "CREATE TABLE u AS SELECT v, COUNT(*) AS n FROM s WHERE v > 0 GROUP BY v"]
)
def test_explain_shows_the_steps_and_starts_nothing(engine: SqlEngine, what: str) -> None:
    (result,) = engine.script(f"EXPLAIN {what};")
    (row,) = result.rows
    assert str(row["executionPlan"]).splitlines() == [
        "SELECT V AS V KEY, KSQL_AGG_VARIABLE_0 AS N",
        "  GROUP BY V AS V: COUNT() AS KSQL_AGG_VARIABLE_0",
        "    WHERE (V > 0)",
        "      READ STREAM S FROM s",
    ]
    assert "Sub-topology" in str(row["topology"])
    assert list(engine.queries) == ["CTAS_T_0"]


def test_explain_shows_what_runs_in_columns_and_what_row_by_row(engine: SqlEngine) -> None:
    (result,) = engine.script("EXPLAIN CREATE STREAM u AS SELECT k, v / 2 AS h, MASK(CAST(v AS STRING)) AS m FROM s;")
    (row,) = result.rows
    (forms,) = row["forms"]
    assert forms["form"] == "columns"
    assert [text for step in forms["steps"] for text in step.get("expressions", ())] == [
        "(V / 2): columns, rows where these are not sure",
        "MASK(CAST(V AS STRING)): row by row over V",
    ]


def test_an_assertion_on_a_topic_waits_for_it(engine: SqlEngine) -> None:
    engine.script("ASSERT TOPIC s WITH (PARTITIONS=2);")
    engine.script("ASSERT NOT EXISTS TOPIC nope TIMEOUT 1 MILLISECONDS;")
    with pytest.raises(StatementError, match="partitions 2, expected 3"):
        engine.script("ASSERT TOPIC s WITH (PARTITIONS=3) TIMEOUT 1 MILLISECONDS;")


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("SELECT * FROM s EMIT CHANGES;", "needs a server"),
        ("TERMINATE ALL;", "needs a server"),
        ("PRINT s;", "needs a server"),
        ("ALTER SYSTEM 'auto.offset.reset' = 'earliest';", "ALTER SYSTEM is refused"),
        ("CREATE SOURCE CONNECTOR c WITH ('a' = 'b');", "statements about connectors need `hayase server`"),
        ("DESCRIBE nope;", "NOPE does not exist."),
        ("EXPLAIN nope;", "Query with id:NOPE does not exist"),
    ],
)
def test_statements_without_an_answer_say_why(engine: SqlEngine, statement: str, message: str) -> None:
    with pytest.raises(StatementError) as caught:
        engine.script(statement)
    assert message in caught.value.message
