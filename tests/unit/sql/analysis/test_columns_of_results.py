"""Names, order and keys of the columns of results."""

from __future__ import annotations

import pytest

from hayase.sql.engine import SqlEngine

SOURCES = """
    CREATE STREAM l (a INT KEY, b INT, s STRUCT<b INT, c INT>) WITH (kafka_topic='l', value_format='JSON');
    CREATE STREAM r (a INT KEY, d INT) WITH (kafka_topic='r', value_format='JSON');
    CREATE STREAM r2 (a INT KEY, b INT) WITH (kafka_topic='r2', value_format='JSON');
"""
JOINED = "FROM l JOIN r WITHIN 1 SECOND ON"


@pytest.mark.parametrize(
    ("query", "columns"),
    [
        (
            "SELECT a, b + 1, b + 2 AS x, b + 3 FROM l",
            "`A` INTEGER KEY, `KSQL_COL_0` INTEGER, `X` INTEGER, `KSQL_COL_1` INTEGER",
        ),
        ("SELECT a, s->c, s->b FROM l", "`A` INTEGER KEY, `C` INTEGER, `B_1` INTEGER"),
        ("SELECT a, s->* FROM l", "`A` INTEGER KEY, `B_1` INTEGER, `C` INTEGER"),
        ("SELECT *, AS_VALUE(b) AS c FROM r2 PARTITION BY b", "`B` INTEGER KEY, `A` INTEGER, `C` INTEGER"),
        (f"SELECT l.a, l.b, r.d {JOINED} l.a = r.a", "`L_A` INTEGER KEY, `B` INTEGER, `D` INTEGER"),
        (f"SELECT r.*, l.b {JOINED} l.a = r.a", "`R_A` INTEGER KEY, `R_D` INTEGER, `B` INTEGER"),
        (
            f"SELECT * {JOINED} l.b = r.d",
            "`L_B` INTEGER KEY, `L_A` INTEGER, `L_S` STRUCT<`B` INTEGER, `C` INTEGER>, `R_A` INTEGER, `R_D` INTEGER",
        ),
        (f"SELECT ROWKEY, d {JOINED} ABS(l.a) = ABS(r.a)", "`ROWKEY` INTEGER KEY, `D` INTEGER"),
    ],
)
def test_columns_of_a_result(query: str, columns: str) -> None:
    engine = SqlEngine()
    engine.script(SOURCES)
    engine.script(f"CREATE STREAM x AS {query};")
    source = engine.catalog.find("X")
    assert source is not None
    assert source.schema_text == columns


def test_formats_come_from_the_leftmost_source_unless_they_are_given() -> None:
    engine = SqlEngine()
    engine.script(
        "CREATE STREAM a (k INT KEY, v INT) WITH (kafka_topic='a', format='DELIMITED', value_delimiter='TAB');"
        "CREATE STREAM same AS SELECT * FROM a;"
        "CREATE STREAM other WITH (value_format='JSON') AS SELECT * FROM a;"
    )
    same, other = engine.catalog.find("SAME"), engine.catalog.find("OTHER")
    assert same is not None
    assert other is not None
    assert (same.key_format.name, same.value_format.property("delimiter")) == ("DELIMITED", "TAB")
    assert (other.key_format.name, other.value_format.name) == ("DELIMITED", "JSON")
