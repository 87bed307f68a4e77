"""Errors of statements say where: line and column in the script, not in the statement."""

from __future__ import annotations

import pytest

from hayase.sql.ast.location import Location
from hayase.sql.engine import SqlEngine
from hayase.sql.errors import SqlError

_BEFORE = """CREATE STREAM s (k INT KEY, v INT, t VARCHAR) WITH (kafka_topic='s', value_format='JSON');
CREATE STREAM s2 (k INT KEY, w INT) WITH (kafka_topic='s2', value_format='JSON');
CREATE TABLE t (k INT PRIMARY KEY, v INT) WITH (kafka_topic='t', value_format='JSON');
CREATE STREAM c AS SELECT * FROM s;
"""

_BAD_STATEMENTS = [
    # in an expression
    "CREATE STREAM x AS SELECT k, ^nope FROM s;",
    "CREATE STREAM x AS SELECT k, ^a.v FROM s;",
    "CREATE STREAM x AS SELECT k, ^NOPE(v) AS y FROM s;",
    "CREATE STREAM x AS SELECT k, v + ^ABS(t) AS y FROM s;",
    "CREATE STREAM x AS SELECT k, ^v + t AS y FROM s;",
    "CREATE STREAM x AS SELECT k, ^CAST(v AS DATE) AS y FROM s;",
    "CREATE STREAM x AS SELECT k, ^ARRAY[] AS y FROM s;",
    "CREATE STREAM x AS SELECT k, ^MAP(ARRAY[1] := 2) AS y FROM s;",
    "CREATE STREAM x AS SELECT k, ^v IN (1, 'a') AS y FROM s;",
    "CREATE STREAM x AS SELECT * FROM s WHERE\n  ^v;",
    "CREATE STREAM x AS SELECT * FROM s WHERE\n  ^v = 'a';",
    "CREATE STREAM x AS SELECT * FROM s WHERE t LIKE ^v;",
    "CREATE TABLE x AS ^SELECT k, COUNT(*) AS n FROM s;",
    "CREATE TABLE x AS SELECT k, ^SUM(t) AS n FROM s GROUP BY k;",
    "CREATE STREAM x AS ^SELECT * FROM s HAVING k > 1;",
    "CREATE TABLE x AS SELECT k, ^nope(1), COUNT(*) FROM s GROUP BY k;",
    "CREATE TABLE x AS SELECT k, ^TOPK(v, 0) AS n FROM s GROUP BY k;",
    "CREATE STREAM x AS SELECT k, ^STRUCT(a := 1, b := 2, a := 3) AS y FROM s;",
    "CREATE STREAM x AS SELECT k, CAST(NULL AS ^STRUCT<a INT, a STRING>) AS y FROM s;",
    # in FROM
    "CREATE STREAM x AS SELECT * FROM ^nope;",
    "CREATE STREAM x AS SELECT * FROM s JOIN ^nope n ON s.k = n.k;",
    "CREATE STREAM x AS SELECT * FROM s a JOIN s2 b WITHIN 1 DAY ON ^c.k = b.k;",
    # in columns and WITH
    "CREATE STREAM x (k INT KEY, ^k INT) WITH (kafka_topic='x', value_format='JSON');",
    "CREATE STREAM x (k INT KEY, ^v nope) WITH (kafka_topic='x', value_format='JSON');",
    "CREATE STREAM x (k INT KEY, v INT) WITH (kafka_topic='x', value_format='JSON',\n nope=^1);",
    "CREATE STREAM x (k INT KEY, v INT) WITH (kafka_topic='x', value_format='JSON', partitions=^'a');",
    "CREATE STREAM x (k INT KEY, v INT) WITH (kafka_topic='x', format=^'JSON', value_format='JSON');",
    "CREATE STREAM x (k INT KEY, v INT) WITH (kafka_topic='x', value_format='JSON', timestamp_format=^'yyyy');",
    "CREATE STREAM x (k INT KEY, v INT) WITH (kafka_topic='x', value_format='JSON', window_type=^'TUMBLING');",
    "CREATE STREAM x (k INT KEY, v ^STRUCT<a INT, b INT, A STRING>) WITH (kafka_topic='x', value_format='JSON');",
    # in VALUES
    "INSERT INTO s VALUES (1, ^'a', 'b');",
    "INSERT INTO s VALUES (1, ^nope, 'b');",
    # about the query, or the statement as a whole
    "CREATE STREAM x AS\n  ^SELECT * FROM s LIMIT 3;",
    "CREATE STREAM x AS ^SELECT k, v AS a, v AS a FROM s;",
    "CREATE STREAM x AS ^SELECT k FROM s;",
    "CREATE TABLE x AS ^SELECT k, v FROM s GROUP BY k, v;",
    "^CREATE TABLE x AS SELECT * FROM s;",
    "^CREATE STREAM s (k INT KEY, v INT) WITH (kafka_topic='s', value_format='JSON');",
    "^CREATE STREAM x (k INT KEY, v INT) WITH (kafka_topic='x');",
    "^CREATE STREAM x (k INT KEY, v INT) WITH (kafka_topic='x', value_format='XML');",
    "^CREATE TABLE x (k INT, v INT) WITH (kafka_topic='x', value_format='JSON');",
    "^CREATE OR REPLACE STREAM c AS SELECT k, v FROM s;",
    "^DROP STREAM nope;",
    "^DROP TABLE s;",
    "^DROP STREAM s;",
    "^ALTER STREAM s ADD COLUMN v INT;",
    "^INSERT INTO t SELECT * FROM s;",
    "^INSERT INTO s2 SELECT * FROM s;",
    "INSERT INTO ^nope SELECT * FROM s;",
    "^INSERT INTO s VALUES (1);",
    "^INSERT INTO nope VALUES (1);",
    "^INSERT INTO s (k, v, v) VALUES (1, 2, 3);",
    "^DESCRIBE nope;",
    "^DESCRIBE FUNCTION nope;",
    "^EXPLAIN nope;",
    "^DROP TYPE nope;",
    "^SET 'nope' = '1';",
    "^ASSERT SCHEMA SUBJECT 'nope';",
    "^CREATE FUNCTION f (x INT) RETURNS INT LANGUAGE PYTHON AS 'def f(x): return x';",
]


@pytest.mark.parametrize("marked", _BAD_STATEMENTS)
def test_an_error_has_the_position_of_what_is_wrong(marked: str) -> None:
    engine = SqlEngine()
    engine.script(_BEFORE)
    prefix = "-- a comment\r\n\r\n   "
    script = prefix + marked
    before = script.partition("^")[0]
    with pytest.raises(SqlError) as caught:
        engine.script(script.replace("^", ""))
    location = Location(before.count("\n") + 1, len(before) - before.rfind("\n"))
    assert caught.value.location == location, caught.value
    assert f"line {location.line}, column {location.column}" in str(caught.value)


def test_the_mark_of_utf_8_at_the_beginning_of_a_script_is_no_character_of_it() -> None:
    engine = SqlEngine()
    engine.script("\ufeff" + _BEFORE)
    assert engine.catalog.find("S") is not None
    with pytest.raises(SqlError) as caught:
        engine.script("\ufeffDROP STREAM nope;")
    assert caught.value.location == Location(1, 1)
    with pytest.raises(SqlError, match="token recognition error") as caught:
        engine.script("DROP \ufeffSTREAM s;")
    assert caught.value.location == Location(1, 6)
