"""What queries may not do, in the words of ksqlDB."""

from __future__ import annotations

import pytest

from hayase.sql.engine import SqlEngine
from hayase.sql.errors import StatementError
from hayase.sql.statements.topics import MemoryTopics

SOURCES = """
    CREATE STREAM s (k INT KEY, v INT, a ARRAY<INT>) WITH (kafka_topic='s', value_format='JSON');
    CREATE STREAM r (k INT KEY, w STRING) WITH (kafka_topic='r', value_format='JSON');
    CREATE STREAM wide (k INT KEY, v INT) WITH (kafka_topic='wide', value_format='JSON');
    CREATE STREAM f (k INT KEY, v INT) WITH (kafka_topic='f', value_format='KAFKA');
    CREATE STREAM ws (k INT KEY, v INT)
        WITH (kafka_topic='ws', value_format='JSON', window_type='TUMBLING', window_size='1 SECOND');
    CREATE TABLE t (k INT PRIMARY KEY, v INT) WITH (kafka_topic='t', value_format='JSON');
    CREATE TABLE u (k INT PRIMARY KEY, v INT) WITH (kafka_topic='u', value_format='JSON');
    CREATE TABLE o (k INT PRIMARY KEY, v INT) WITH (kafka_topic='o', value_format='JSON');
    CREATE TABLE wt (k INT PRIMARY KEY, v INT)
        WITH (kafka_topic='wt', value_format='JSON', window_type='SESSION');
"""
JOIN = "CREATE STREAM x AS SELECT * FROM s JOIN "


@pytest.fixture(scope="module")
def engine() -> SqlEngine:
    engine = SqlEngine(topics=MemoryTopics({"wide": (8, 1)}, partitions_by_default=4))
    engine.script(SOURCES)
    return engine


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("CREATE STREAM x AS SELECT v FROM s;", "must include the key column K in its projection (eg, SELECT K...)"),
        ("CREATE STREAM x AS SELECT k, k AS l, v FROM s;", "(`K`) more than once, aliased as: K and L."),
        ("CREATE STREAM x AS SELECT k FROM s;", "The projection contains no value columns."),
        ("CREATE STREAM x AS SELECT k, v, v FROM s;", "Duplicate value columns found in schema: `V` INTEGER"),
        ("CREATE STREAM x AS SELECT k, nope FROM s;", "SELECT column 'NOPE' cannot be resolved."),
        ("CREATE STREAM x AS SELECT k, rowtimes FROM s;", "cannot be resolved.\nDid you mean 'ROWTIME'?"),
        ("CREATE STREAM x AS SELECT k, y.v FROM s;", "'Y' is not a valid stream/table name or alias."),
        ("CREATE STREAM x AS SELECT k, v FROM nope;", "NOPE does not exist."),
        ("CREATE STREAM x AS SELECT k, ROWTIME FROM s;", "Reserved column name in select: `ROWTIME`."),
        ("CREATE STREAM x AS SELECT k, v AS ROWTIME FROM s;", "`ROWTIME` is a reserved column name."),
        ("CREATE STREAM x AS SELECT k, NULL AS n FROM s;", "Can't infer a type of null."),
        ("CREATE STREAM x AS SELECT * FROM s WHERE v + 1;", "Should evaluate to boolean but is (V + 1) (INTEGER)"),
        ("CREATE STREAM x AS SELECT * FROM s WHERE v > 'a';", "Error in WHERE expression: Cannot compare"),
        (
            "CREATE STREAM x AS SELECT * FROM s LIMIT 1;",
            "CREATE STREAM AS SELECT statements don't support LIMIT clause.",
        ),
        ("CREATE TABLE x AS SELECT * FROM s;", "Please use CREATE STREAM AS SELECT statement instead."),
        ("CREATE STREAM x AS SELECT * FROM t;", "Please use CREATE TABLE AS SELECT statement instead."),
        ("CREATE TABLE x AS SELECT * FROM wt;", "does not support persistent queries on windowed tables."),
    ],
)
def test_projections_that_are_refused(engine: SqlEngine, statement: str, message: str) -> None:
    _refused(engine, statement, message)


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("CREATE STREAM x AS SELECT * FROM s PARTITION BY nope;", "'NOPE' must be a column in the source schema"),
        ("CREATE STREAM x AS SELECT * FROM s PARTITION BY k, NULL;", "multiple columns including NULL"),
        ("CREATE STREAM x AS SELECT k, v FROM s PARTITION BY v + 1;", "the partitioning expression (S.V + 1) in its"),
        ("CREATE TABLE x AS SELECT * FROM t PARTITION BY v;", "Cannot repartition a TABLE source"),
        ("CREATE TABLE x AS SELECT v, COUNT(*) FROM s GROUP BY k;", "not part of GROUP BY: V"),
        ("CREATE TABLE x AS SELECT COUNT(*) FROM s GROUP BY k;", "the grouping expression K in its projection"),
        ("CREATE TABLE x AS SELECT k, v FROM s GROUP BY k, v;", "GROUP BY requires aggregate functions"),
        ("CREATE TABLE x AS SELECT COUNT(*) FROM s;", "does not support aggregate function [COUNT(ROWTIME)] without"),
        ("CREATE TABLE x AS SELECT k, SUM(COUNT()) FROM s GROUP BY k;", "be nested: SUM(COUNT())"),
        ("CREATE TABLE x AS SELECT k, COUNT(*) FROM s GROUP BY k, s.k;", "Duplicate GROUP BY expression: S.K"),
        ("CREATE TABLE x AS SELECT COUNT(*) FROM s GROUP BY SUM(v);", "SUM is an aggregate function."),
        ("CREATE TABLE x AS SELECT k, MIN(v) FROM t GROUP BY k;", "MIN cannot be applied to a table source"),
        ("CREATE TABLE x AS SELECT k, COUNT(*) FROM f GROUP BY k;", "does not yet support GROUP BY."),
        ("CREATE STREAM x AS SELECT * FROM s WINDOW TUMBLING (SIZE 1 SECOND);", "WINDOW clause requires a GROUP BY"),
        (
            "CREATE TABLE x AS SELECT k, COUNT(*) FROM s WINDOW TUMBLING (SIZE 99999999999 DAYS) GROUP BY k;",
            "SIZE is 8639999999913600000 ms; it can be from 1 to",
        ),
        (
            "CREATE TABLE x AS SELECT k, COUNT(*) FROM s WINDOW HOPPING (SIZE 1 DAY, ADVANCE BY 2 DAYS) GROUP BY k;",
            "ADVANCE BY is 172800000 ms, more than SIZE, 86400000 ms",
        ),
        ("CREATE TABLE x AS SELECT k, COUNT(*) FROM s GROUP BY k EMIT FINAL;", "only supported for windowed aggregat"),
        (
            "CREATE TABLE x AS SELECT k, COUNT(*) FROM s WINDOW TUMBLING (SIZE 1 SECOND) GROUP BY k, WINDOWSTART;",
            "Window bounds column WINDOWSTART can only be used in the SELECT clause of windowed aggregations",
        ),
        (
            "CREATE STREAM x AS SELECT k, CASE WHEN v > 0 THEN EXPLODE(a) END AS e FROM s;",
            "Table functions cannot be used in CASE: EXPLODE(S.A)",
        ),
        ("CREATE STREAM x AS SELECT k, EXPLODE(ARRAY[EXPLODE(a)]) FROM s;", "Table functions cannot be nested"),
        ("CREATE STREAM x AS SELECT k, EXPLODE(a), COUNT(*) FROM s GROUP BY k;", "cannot be used with aggregations."),
    ],
)
def test_groups_and_keys_that_are_refused(engine: SqlEngine, statement: str, message: str) -> None:
    _refused(engine, statement, message)


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        (JOIN + "r ON s.k = r.k;", "Stream-Stream joins must have a WITHIN clause specified."),
        (JOIN + "r WITHIN 1 SECOND ON s.v = r.w;", "types don't match. Got S.V{INTEGER} = R.W{STRING}."),
        (JOIN + "r WITHIN 1 SECOND ON k = r.k;", "Column 'K' is ambiguous. Could be S.K or R.K."),
        (JOIN + "r WITHIN 1 SECOND ON s.k = 0;", "Invalid comparison expression '0' in join '(S.K = 0)'."),
        (JOIN + "r WITHIN 1 SECOND ON s.k = s.v;", "Left side references `S` and right references `S`"),
        (JOIN + "r WITHIN 1 SECOND ON s.k = r.k AND s.v = r.k;", "joins on multiple conditions are not yet supported."),
        (JOIN + "s s2 WITHIN 1 SECOND ON s.k = s2.k;", "join 'S' to 'S': self joins are not yet supported."),
        (JOIN + "wide WITHIN 1 SECOND ON s.k = wide.k;", "`S` partitions = 4; `WIDE` partitions = 8."),
        (JOIN + "ws WITHIN 1 SECOND ON s.k = ws.k;", "`S` is not windowed\n`WS` is TUMBLING windowed"),
        (JOIN + "f WITHIN 1 SECOND ON s.k = f.k;", "Source(s) F are using the 'KAFKA' value format."),
        (JOIN + "t ON s.k = t.v;", "to join on the table's primary key. Got S.K = T.V."),
        ("CREATE STREAM x AS SELECT * FROM s FULL JOIN t ON s.k = t.k;", "full-outer join not supported"),
        ("CREATE TABLE x AS SELECT * FROM t JOIN s ON t.k = s.k;", "table-stream joins are not supported"),
        ("CREATE TABLE x AS SELECT * FROM t JOIN u ON t.k = u.v;", "primary key of the right input table."),
        ("CREATE TABLE x AS SELECT * FROM t RIGHT JOIN u ON t.v = u.k;", "RIGHT OUTER JOIN on a foreign key"),
        (
            "CREATE TABLE x AS SELECT * FROM t JOIN u ON t.v = u.k JOIN o ON u.k = o.k;",
            "not supported as part of n-way joins. Got U.K = O.K.",
        ),
        ("CREATE TABLE x AS SELECT t.v, u.v FROM t JOIN u ON t.v = u.k;", "(`T`). Missing column: `K`."),
        (
            "CREATE STREAM x AS SELECT s.v, r.w FROM s JOIN r WITHIN 1 SECOND ON s.k = r.k;",
            "must include the join expressions S.K or R.K in its projection (eg, SELECT S.K...)",
        ),
        (
            "CREATE STREAM x AS SELECT s.v, r.w FROM s FULL JOIN r WITHIN 1 SECOND ON s.k = r.k;",
            "ROWKEY was added as a synthetic key column",
        ),
    ],
)
def test_joins_that_are_refused(engine: SqlEngine, statement: str, message: str) -> None:
    _refused(engine, statement, message)


def _refused(engine: SqlEngine, statement: str, message: str) -> None:
    with pytest.raises(StatementError) as caught:
        engine.script(statement)
    assert message in caught.value.message
    assert engine.catalog.find("X") is None
    assert engine.queries == {}
