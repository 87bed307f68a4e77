"""Statements as syntax trees."""

from __future__ import annotations

import pytest

from hayase.sql.ast.expressions import BooleanLiteral, ColumnRef, IntegerLiteral, StringLiteral
from hayase.sql.ast.statements import (
    AlterSource,
    AlterSystem,
    AssertNullValues,
    AssertSchema,
    AssertTopic,
    AssertValues,
    ColumnDefinition,
    ColumnKind,
    CreateAsSelect,
    CreateConnector,
    CreateSource,
    CreateType,
    DefineVariable,
    Describe,
    DescribeConnector,
    DescribeFunction,
    DropConnector,
    DropSource,
    DropType,
    Explain,
    InsertInto,
    InsertValues,
    ListStatement,
    PrintTopic,
    QueryAction,
    QueryControl,
    RunScript,
    SelectQuery,
    SetProperty,
    SourceKind,
    Statement,
    UndefineVariable,
    UnsetProperty,
)
from hayase.sql.errors import ParseFailedError
from hayase.sql.grammar.parser import parse_script, parse_statement
from hayase.sql.types.sql_types import (
    BIGINT,
    BYTES,
    INTEGER,
    STRING,
    ArrayType,
    DecimalType,
    MapType,
    NamedType,
    StructType,
)


def parsed(text: str) -> Statement:
    return parse_statement(text).statement


def test_a_stream_has_columns_with_kinds_and_properties() -> None:
    statement = parsed(
        "create stream parcels (id int key, size_cm double, tags array<struct<key string, value bytes>> headers, "
        "trace bytes header('trace-id')) with (kafka_topic='parcels', partitions=3, wrap_single_value=false)"
    )
    assert isinstance(statement, CreateSource) and statement.columns is not None
    assert (statement.kind, statement.name) == (SourceKind.STREAM, "PARCELS")
    assert [(column.name, column.kind, column.header_key) for column in statement.columns] == [
        ("ID", ColumnKind.KEY, None),
        ("SIZE_CM", ColumnKind.VALUE, None),
        ("TAGS", ColumnKind.HEADERS, None),
        ("TRACE", ColumnKind.HEADER, "trace-id"),
    ]
    assert statement.properties == (
        ("KAFKA_TOPIC", StringLiteral("parcels")),
        ("PARTITIONS", IntegerLiteral(3)),
        ("WRAP_SINGLE_VALUE", BooleanLiteral(False)),
    )


def test_a_source_may_have_no_columns() -> None:
    statement = parsed("CREATE OR REPLACE SOURCE TABLE IF NOT EXISTS t WITH (kafka_topic='t')")
    assert statement == CreateSource(
        SourceKind.TABLE, "T", None, (("KAFKA_TOPIC", StringLiteral("t")),), True, True, True
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("DECIMAL(9, 2)", DecimalType(9, 2)),
        ("varchar", STRING),
        ("VARCHAR(STRING)", STRING),
        ("INT(10)", INTEGER),
        ("MAP<STRING, ARRAY<INT>>", MapType(STRING, ArrayType(INTEGER))),
        ("BIGINT ARRAY ARRAY", ArrayType(ArrayType(BIGINT))),
        ("STRUCT<`f` INT, g STRUCT<>>", StructType((("f", INTEGER), ("G", StructType(()))))),
        ("STRUCT< >", StructType(())),
        ("address", NamedType("ADDRESS")),
        ("`Address`", NamedType("Address")),
    ],
)
def test_types(text: str, expected: object) -> None:
    statement = parsed(f"CREATE STREAM s (c {text}) WITH (kafka_topic='s')")
    assert isinstance(statement, CreateSource)
    assert statement.columns == (ColumnDefinition("C", expected),)  # type: ignore[arg-type]


@pytest.mark.parametrize("text", ["DECIMAL(0, 0)", "DECIMAL(2, 3)", "BIGINT(3", "address(2)", "DECIMAL"])
def test_types_that_cannot_be_are_errors(text: str) -> None:
    with pytest.raises(ParseFailedError):
        parsed(f"CREATE STREAM s (c {text}) WITH (kafka_topic='s')")


def test_a_key_of_a_table_is_primary_and_that_of_a_stream_is_not() -> None:
    with pytest.raises(ParseFailedError, match="Line: 1, Col: 17: Column `ID` is a 'KEY' column"):
        parsed("CREATE TABLE t (id INT KEY) WITH (kafka_topic='t')")
    with pytest.raises(ParseFailedError, match="please use 'KEY' for streams"):
        parsed("CREATE STREAM t (id INT PRIMARY KEY) WITH (kafka_topic='t')")


def test_create_as_has_a_query() -> None:
    statement = parsed("CREATE OR REPLACE TABLE t WITH (key_format='JSON') AS SELECT a FROM s")
    assert isinstance(statement, CreateAsSelect)
    assert (statement.kind, statement.or_replace, statement.name) == (SourceKind.TABLE, True, "T")
    assert statement.properties == (("KEY_FORMAT", StringLiteral("JSON")),)


def test_inserts() -> None:
    query = parsed("INSERT INTO t WITH (query_id='q') SELECT * FROM s")
    assert isinstance(query, InsertInto) and query.properties == (("QUERY_ID", StringLiteral("q")),)
    values = parsed("INSERT INTO t (a, `b`) VALUES (1, 'x')")
    assert values == InsertValues("T", ("A", "b"), (IntegerLiteral(1), StringLiteral("x")))
    assert parsed("INSERT INTO t VALUES (1)") == InsertValues("T", None, (IntegerLiteral(1),))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("DROP STREAM IF EXISTS s DELETE TOPIC", DropSource(SourceKind.STREAM, "S", True, True)),
        ("DROP TABLE if", DropSource(SourceKind.TABLE, "IF")),
        ("CREATE TYPE IF NOT EXISTS money AS DECIMAL(10, 2)", CreateType("MONEY", DecimalType(10, 2), True)),
        ("DROP TYPE IF EXISTS money", DropType("MONEY", True)),
        ("SET 'auto.offset.reset' = 'earliest'", SetProperty("auto.offset.reset", "earliest")),
        ("UNSET 'auto.offset.reset'", UnsetProperty("auto.offset.reset")),
        ("ALTER SYSTEM 'a'='b'", AlterSystem("a", "b")),
        ("DEFINE Name = 'it''s'", DefineVariable("Name", "it's")),
        ("UNDEFINE Name", UndefineVariable("Name")),
        ("TERMINATE ALL", QueryControl(QueryAction.TERMINATE, None)),
        ("PAUSE csas_x_1", QueryControl(QueryAction.PAUSE, "CSAS_X_1")),
        ("RESUME `q`", QueryControl(QueryAction.RESUME, "q")),
        ("LIST STREAMS EXTENDED", ListStatement("STREAMS", True)),
        ("SHOW ALL TOPICS", ListStatement("ALL TOPICS")),
        ("SHOW SOURCE CONNECTORS", ListStatement("SOURCE CONNECTORS")),
        ("LIST CONNECTOR PLUGINS", ListStatement("CONNECTOR PLUGINS")),
        ("show variables", ListStatement("VARIABLES")),
        ("DESCRIBE s EXTENDED", Describe("S", True)),
        ("DESCRIBE TABLES", Describe("TABLES", False, True)),
        ("DESCRIBE FUNCTION len", DescribeFunction("LEN")),
        ("DESCRIBE FUNCTION", Describe("FUNCTION")),
        ("DESCRIBE CONNECTOR c", DescribeConnector("C")),
        ("EXPLAIN csas_x_1", Explain(None, "CSAS_X_1")),
        ("EXPLAIN LIST STREAMS", Explain(ListStatement("STREAMS"))),
        ("EXPLAIN show", Explain(None, "SHOW")),
        ("PRINT Orders FROM BEGINNING INTERVAL 2 LIMIT 3", PrintTopic("Orders", True, 2, 3)),
        ("PRINT 'a-b'", PrintTopic("a-b")),
        ("DROP CONNECTOR IF EXISTS c", DropConnector("C", True)),
        ("ASSERT TOPIC t TIMEOUT 3 SECONDS", AssertTopic("t", timeout_ms=3_000)),
        ("ASSERT NOT EXISTS SCHEMA SUBJECT 's-value' ID 4", AssertSchema("s-value", 4, False)),
    ],
)
def test_small_statements(text: str, expected: Statement) -> None:
    assert parsed(text) == expected


def test_connectors_have_properties_as_written() -> None:
    assert parsed("CREATE SINK CONNECTOR c WITH ('connector.class'='x')") == CreateConnector(
        "SINK", "C", (("connector.class", StringLiteral("x")),)
    )


def test_alter_adds_columns_with_or_without_the_word_column() -> None:
    statement = parsed("ALTER TABLE t ADD COLUMN a INT, ADD b STRING, ADD column STRING, ADD COLUMN column INT")
    assert isinstance(statement, AlterSource)
    assert [column.name for column in statement.columns] == ["A", "B", "COLUMN", "COLUMN"]


def test_statements_of_tests_are_statements_only_for_tests() -> None:
    script = "ASSERT VALUES s (a) VALUES (1); ASSERT NULL VALUES s KEY (1); RUN SCRIPT 'x.sql'; ASSERT TABLE t;"
    statements = [each.statement for each in parse_script(script, test_statements=True)]
    assert statements[:3] == [
        AssertValues("S", ("A",), (IntegerLiteral(1),)),
        AssertNullValues("S", None, (IntegerLiteral(1),)),
        RunScript("x.sql"),
    ]
    with pytest.raises(ParseFailedError, match=r"Syntax error at or near 'VALUES' at line 1:8"):
        parse_script(script)


def test_a_script_gives_texts_and_places() -> None:
    script = "-- first\nSELECT a FROM s;\n /* and */  SELECT b\n FROM s; ;"
    first, second = parse_script(script)
    assert (first.text, first.location.line, first.location.column) == ("SELECT a FROM s;", 2, 1)
    assert (second.text, second.location.line, second.location.column) == ("SELECT b\n FROM s;", 3, 13)
    assert isinstance(first.statement, SelectQuery)


def test_keywords_that_are_not_reserved_are_names_where_no_keyword_can_stand() -> None:
    statement = parsed(
        "CREATE STREAM source (key STRING KEY, map INT, array INT, struct INT, date DATE, emit INT, if INT, "
        "partition INT, session INT, header INT, second INT, id INT) WITH (kafka_topic='s')"
    )
    assert isinstance(statement, CreateSource) and statement.columns is not None
    assert [column.name for column in statement.columns][:4] == ["KEY", "MAP", "ARRAY", "STRUCT"]


def test_names_may_begin_with_digits_and_hold_at_signs() -> None:
    statement = parsed('INSERT INTO 3d_points (a@b, `weird``name`, "quo""ted") VALUES (1, x1, 2)')
    assert isinstance(statement, InsertValues)
    assert (statement.target, statement.columns) == ("3D_POINTS", ("A@B", "weird`name", 'quo"ted'))
    assert statement.values[1] == ColumnRef("X1")


def test_names_of_sources_have_few_kinds_of_characters() -> None:
    with pytest.raises(ParseFailedError, match=r"Illegal argument at Line: 1, Col: 13\. Source names may only contain"):
        parsed("DROP STREAM `a b`")


def test_a_property_of_bytes_is_a_type() -> None:
    assert parsed("CREATE TYPE b AS BYTES") == CreateType("B", BYTES)
