"""Joins of streams and tables, run record by record."""

from __future__ import annotations

import json
import struct

import pytest
from tests.ksqldb.epoch_driver import EpochDriver
from tests.unit.sql.plan.sql_queries import run_script

from hayase.sql.engine import SqlEngine
from hayase.testing.topics import RawRecord

STREAMS = """
    CREATE STREAM l (id INT KEY, v STRING) WITH (kafka_topic='l', value_format='JSON');
    CREATE STREAM r (id INT KEY, v STRING) WITH (kafka_topic='r', value_format='JSON');
"""
TABLES = STREAMS.replace("STREAM", "TABLE").replace("KEY", "PRIMARY KEY")


def _rows(script: str, inputs: list[tuple]) -> list[tuple]:
    return [(key, None if value is None else tuple(value.values())) for key, value, _ in run_script(script, inputs)]


def _on(side: str, key: int | None, text: str | None, timestamp_ms: int = 0) -> tuple:
    return (side, key, None if text is None else {"V": text}, timestamp_ms)


def test_rows_of_two_streams_meet_within_the_window() -> None:
    script = (
        STREAMS + "CREATE STREAM result AS SELECT l.id, l.v, r.v FROM l JOIN r WITHIN 10 MILLISECONDS ON l.id = r.id;"
    )
    inputs = [_on("L", 1, "a", 0), _on("R", 1, "b", 10), _on("R", 1, "c", 11), _on("L", 2, "d", 11)]
    assert _rows(script, inputs) == [(1, ("a", "b"))]


def test_a_left_join_without_grace_sends_a_row_alone_at_once_and_again_when_it_meets_one() -> None:
    script = STREAMS + (
        "CREATE STREAM result AS SELECT l.id, l.v, r.v FROM l LEFT JOIN r WITHIN 10 MILLISECONDS ON l.id = r.id;"
    )
    inputs = [_on("L", 1, "a", 0), _on("R", 1, "b", 5), _on("R", 2, "c", 5)]
    assert _rows(script, inputs) == [(1, ("a", None)), (1, ("a", "b"))]


def test_a_right_join_keeps_the_rows_of_the_right_side() -> None:
    script = STREAMS + (
        "CREATE STREAM result AS SELECT l.id, l.v, r.v FROM l RIGHT JOIN r WITHIN 10 MILLISECONDS ON l.id = r.id;"
    )
    assert _rows(script, [_on("L", 1, "a", 0), _on("R", 2, "b", 0)]) == [(2, (None, "b"))]


def test_a_full_join_has_a_key_of_its_own() -> None:
    script = STREAMS + "CREATE STREAM result AS SELECT * FROM l FULL JOIN r WITHIN 10 MILLISECONDS ON l.id = r.id;"
    assert _rows(script, [_on("L", 1, "a"), _on("R", 1, "b")]) == [(1, (1, "a", None, None)), (1, (1, "a", 1, "b"))]


def test_a_left_join_with_grace_sends_a_row_alone_when_its_window_has_closed() -> None:
    script = (
        STREAMS
        + """
        CREATE STREAM result AS SELECT l.id, l.v, r.v FROM l
        LEFT JOIN r WITHIN 10 MILLISECONDS GRACE PERIOD 0 MILLISECONDS ON l.id = r.id;
    """
    )
    assert _rows(script, [_on("L", 1, "a", 0), _on("L", 2, "b", 5)]) == []
    assert _rows(script, [_on("L", 1, "a", 0), _on("L", 2, "b", 50)]) == [(1, ("a", None))]


def test_streams_are_joined_by_expressions() -> None:
    script = (
        STREAMS
        + """
        CREATE STREAM result AS SELECT ROWKEY AS k, l.v, r.v FROM l
        JOIN r WITHIN 10 MILLISECONDS ON LEN(l.v) = LEN(r.v);
    """
    )
    assert _rows(script, [_on("L", 1, "aa"), _on("R", 9, "bb")]) == [(2, ("aa", "bb"))]


def test_a_stream_sees_the_row_that_a_table_has_now() -> None:
    script = """
        CREATE STREAM l (id INT KEY, v STRING) WITH (kafka_topic='l', value_format='JSON');
        CREATE TABLE r (id INT PRIMARY KEY, v STRING) WITH (kafka_topic='r', value_format='JSON');
        CREATE STREAM result AS SELECT l.id, l.v, r.v FROM l LEFT JOIN r ON l.id = r.id;
    """
    inputs = [_on("L", 1, "a"), _on("R", 1, "x"), _on("L", 1, "b"), _on("R", 1, None), _on("L", 1, "c")]
    assert _rows(script, inputs) == [(1, ("a", None)), (1, ("b", "x")), (1, ("c", None))]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("JOIN", [(1, ("a", "x")), (1, None)]),
        ("LEFT JOIN", [(1, ("a", None)), (1, ("a", "x")), (1, None)]),
    ],
)
def test_two_tables_are_joined_by_their_keys(kind: str, expected: list[tuple]) -> None:
    script = TABLES + f"CREATE TABLE result AS SELECT l.id, l.v, r.v FROM l {kind} r ON l.id = r.id;"
    assert _rows(script, [_on("L", 1, "a"), _on("R", 1, "x"), _on("L", 1, None)]) == expected


@pytest.mark.parametrize("kind", ["STREAM", "TABLE"])
def test_both_zeros_are_two_keys_of_a_table_in_both_forms(kind: str) -> None:
    primary = "PRIMARY KEY" if kind == "TABLE" else "KEY"
    engine = SqlEngine()
    engine.script(f"""
        CREATE {kind} l (id DOUBLE {primary}, v STRING) WITH (kafka_topic='l', value_format='JSON');
        CREATE TABLE r (id DOUBLE PRIMARY KEY, v STRING) WITH (kafka_topic='r', value_format='JSON');
        CREATE {kind} result AS SELECT l.id, l.v, r.v FROM l LEFT JOIN r ON l.id = r.id;
    """)
    (query,) = engine.queries.values()
    plus, minus = (struct.pack(">d", zero) for zero in (0.0, -0.0))
    right_rows = [RawRecord("r", zero, b'{"V":"%s"}' % name, 0) for zero, name in ((plus, b"plus"), (minus, b"minus"))]
    left_rows = [RawRecord("l", zero, b'{"V":"x"}', 1) for zero in (plus, minus, plus)]
    for form in ("rows", "auto"):
        driver = EpochDriver(query.topology, {"processing.form": form, "statestore.cache.max.bytes": 0})
        with driver:
            driver.pipe_epoch(right_rows)
            driver.pipe_epoch(left_rows)
            values = [json.loads(record.value or b"{}") for record in driver.output_queue("RESULT")]
            assert [value["R_V"] for value in values] == ["plus", "minus", "plus"], form


@pytest.mark.long
def test_a_foreign_key_names_a_row_of_another_table() -> None:
    script = """
        CREATE TABLE orders (id INT PRIMARY KEY, user INT) WITH (kafka_topic='orders', value_format='JSON');
        CREATE TABLE users (id INT PRIMARY KEY, name STRING) WITH (kafka_topic='users', value_format='JSON');
        CREATE TABLE result AS SELECT orders.id, users.name FROM orders JOIN users ON orders.user = users.id;
    """
    inputs = [
        ("ORDERS", 1, {"USER": 7}, 0),
        ("USERS", 7, {"NAME": "Ann"}, 0),
        ("ORDERS", 2, {"USER": 7}, 0),
        ("USERS", 7, {"NAME": "Anna"}, 0),
    ]
    assert _rows(script, inputs) == [(1, ("Ann",)), (2, ("Ann",)), (1, ("Anna",)), (2, ("Anna",))]


@pytest.mark.long
def test_three_sources_are_joined_from_left_to_right() -> None:
    script = (
        STREAMS
        + """
        CREATE TABLE t (id INT PRIMARY KEY, v STRING) WITH (kafka_topic='t', value_format='JSON');
        CREATE STREAM result AS SELECT l.id, l.v, r.v, t.v FROM l
        JOIN r WITHIN 10 MILLISECONDS ON l.id = r.id LEFT JOIN t ON r.id = t.id;
    """
    )
    assert _rows(script, [_on("T", 1, "x"), _on("L", 1, "a"), _on("R", 1, "b")]) == [(1, ("a", "b", "x"))]


def _is_repartitioned(key_format: str) -> bool:
    engine = SqlEngine()
    engine.script(
        STREAMS.replace("kafka_topic='r'", f"kafka_topic='r', key_format='{key_format}'")
        + "CREATE STREAM result AS SELECT l.id, l.v, r.v FROM l JOIN r WITHIN 1 SECOND ON l.id = r.id;"
    )
    (query,) = engine.queries.values()
    return "repartition" in str(query.topology.describe())


def test_a_stream_is_partitioned_again_where_the_keys_of_the_sides_have_other_bytes() -> None:
    assert _is_repartitioned("JSON")
    assert not _is_repartitioned("KAFKA")
