"""CREATE FUNCTION … LANGUAGE PYTHON: functions that stand in a script, where scripts are trusted."""

from __future__ import annotations

import pickle
from decimal import Decimal

import pytest

from hayase.sql.ast.statement_text import statement_text
from hayase.sql.engine import SqlEngine
from hayase.sql.errors import FunctionError, StatementError
from hayase.sql.functions.python_source import PythonFunction
from hayase.sql.grammar.parser import parse_statement
from hayase.sql.types.sql_types import INTEGER, DecimalType
from hayase.testing.sql.script import SqlScript

TRUSTED = {"ksql.udfs.python.enabled": "true"}
DOUBLED = "CREATE FUNCTION doubled (number INT) RETURNS INT LANGUAGE PYTHON AS '2 * number';"
SOURCE = "CREATE STREAM s (k INT KEY, v INT, t STRING) WITH (kafka_topic='s', value_format='JSON');"


def error_of(engine: SqlEngine, statement: str) -> str:
    with pytest.raises(StatementError) as caught:
        engine.script(statement)
    return caught.value.message


def test_a_function_is_an_expression_or_statements_and_null_stays_null() -> None:
    with SqlScript(TRUSTED) as script:
        script.run(
            DOUBLED
            + SOURCE
            + """
            CREATE FUNCTION initials (name STRING, least INT) RETURNS ARRAY<STRING> LANGUAGE PYTHON AS '
                words = name.split()
                if len(words) < least:
                    return []
                return [word[0].upper() for word in words]
            ';
            CREATE STREAM a AS SELECT k, doubled(v) AS d, initials(t, 2) AS i FROM s;
            INSERT INTO s VALUES (1, 21, 'ada b lovelace');
            ASSERT VALUES a (k, d, i) VALUES (1, 42, ARRAY['A', 'B', 'L']);
            INSERT INTO s (k, t) VALUES (2, 'ada');
            ASSERT VALUES a (k, d) VALUES (2, NULL);
            """
        )


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ("y / 2", "uses y, which it does not define; its parameters are x, in lower case"),
        ("X / 2", "uses X"),
        ("[z for z in range(x) if w]", "uses w"),
        ("y = x / 2", "returns nothing"),
        ("if x: return", "returns nothing"),
        ("def g():\n    return x", "returns nothing"),
    ],
)
def test_python_that_can_never_have_a_result_is_refused(body: str, problem: str) -> None:
    engine = SqlEngine(TRUSTED)
    statement = f"CREATE FUNCTION f (X INT) RETURNS DOUBLE LANGUAGE PYTHON AS '{body}';"
    assert problem in error_of(engine, statement)


def test_python_may_import_call_itself_inside_and_yield_to_itself() -> None:
    engine = SqlEngine(TRUSTED)
    engine.script(
        """
        CREATE FUNCTION f (X INT) RETURNS DOUBLE LANGUAGE PYTHON AS '
            import math
            def half(n):
                return half(n - 1) if n > 3 else math.sqrt(n)
            return max(half(x), *(each for each in range(x)))
        ';
        CREATE FUNCTION g (X INT) RETURNS INT LANGUAGE PYTHON AS '
            global cache
            cache = {}
            class A:
                one = 1
                two = one + 1
            if x:
                return A.two + len(cache)
            return None
        ';
        """
    )


def test_a_decimal_that_python_returns_is_rounded_to_its_type_or_refused() -> None:
    function = PythonFunction("f", ("x",), DecimalType(30, 1), "x")
    assert [str(function(value)) for value in (Decimal("2.25"), Decimal("-0.01"), 10**28)] == [
        "2.3",
        "0.0",
        "10000000000000000000000000000.0",
    ]
    for value in (10**29, Decimal("NaN"), Decimal("Infinity")):
        with pytest.raises(FunctionError, match="WRONG_RESULT"):
            function(value)


def test_what_the_python_raises_or_returns_wrongly_is_null_and_in_the_processing_log() -> None:
    with SqlScript({**TRUSTED, "ksql.logging.processing.stream.auto.create": "true"}) as script:
        script.run(
            SOURCE
            + """
            CREATE FUNCTION odd (v INT) RETURNS INT LANGUAGE PYTHON AS 'str(v) if v else 1 // v';
            CREATE STREAM a AS SELECT k, odd(v) AS o FROM s;
            INSERT INTO s (k, v) VALUES (1, 0);
            INSERT INTO s (k, v) VALUES (2, 5);
            ASSERT VALUES a (k, o) VALUES (1, NULL);
            ASSERT VALUES a (k, o) VALUES (2, NULL);
            ASSERT VALUES ksql_processing_log (level) VALUES ('ERROR');
            ASSERT VALUES ksql_processing_log (level) VALUES ('ERROR');
            """
        )


def test_scripts_have_to_be_trusted_by_the_configuration_of_the_process() -> None:
    engine = SqlEngine()
    assert "ksql.udfs.python.enabled=true" in error_of(engine, DOUBLED)
    assert "Cannot override property" in error_of(engine, "SET 'ksql.udfs.python.enabled' = 'true';")
    with pytest.raises(StatementError, match=r"ksql\.udfs\.python\.enabled"):
        engine.execute(parse_statement(DOUBLED), TRUSTED)


def test_a_function_can_be_replaced_and_dropped_and_those_of_ksqldb_cannot() -> None:
    engine = SqlEngine(TRUSTED)
    (created,) = engine.script(DOUBLED)
    assert created.message == "Created function DOUBLED(INTEGER) -> INTEGER"
    assert "already exists" in error_of(engine, DOUBLED)
    engine.script(DOUBLED.replace("CREATE", "CREATE OR REPLACE").replace("2 *", "3 *"))
    assert engine.script(DOUBLED.replace("FUNCTION", "FUNCTION IF NOT EXISTS"))[0].message.endswith("already exists.")
    assert "a function of ksqlDB" in error_of(engine, DOUBLED.replace("doubled", "ucase"))
    engine.script("DROP FUNCTION doubled;")
    assert engine.script("DROP FUNCTION IF EXISTS doubled;")[0].message == "Function DOUBLED does not exist."
    assert "no function that CREATE FUNCTION has made" in error_of(engine, "DROP FUNCTION ucase;")


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        (DOUBLED.replace("2 * number", "2 *"), "cannot be compiled"),
        (DOUBLED.replace("2 * number", "x = 1\nreturn ) x"), "line 2 of the body"),
        (DOUBLED.replace("number INT", "class INT"), "is no name of Python"),
        (DOUBLED.replace("number INT", '"A" INT, a INT'), "the same name in Python"),
    ],
)
def test_python_that_is_none_is_refused(statement: str, message: str) -> None:
    assert message in error_of(SqlEngine(TRUSTED), statement)


def test_a_function_travels_as_its_text() -> None:
    function = pickle.loads(pickle.dumps(PythonFunction("F", ("x",), INTEGER, "x + 1")))
    assert function(1) == 2
    with pytest.raises(FunctionError, match="which is no INTEGER"):
        function(2**31)


@pytest.mark.parametrize(
    "statement", [DOUBLED, DOUBLED.replace("CREATE", "CREATE OR REPLACE"), "DROP FUNCTION IF EXISTS doubled;"]
)
def test_statements_of_functions_are_texts_that_read_back(statement: str) -> None:
    parsed = parse_statement(statement).statement
    assert parse_statement(statement_text(parsed)).statement == parsed


def test_the_new_keywords_are_names_elsewhere() -> None:
    engine = SqlEngine()
    engine.script(
        "CREATE STREAM python (language INT KEY, returns INT, function INT)"
        "  WITH (kafka_topic='p', value_format='JSON');"
        "CREATE STREAM a AS SELECT language, returns + function AS python FROM python;"
    )
    assert list(engine.catalog.sources["A"].columns) == ["LANGUAGE", "PYTHON"]
