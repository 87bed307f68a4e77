"""Groups of streams and tables, with and without windows, run record by record."""

from __future__ import annotations

import pytest
from tests.unit.sql.plan.sql_queries import run_script

from hayase.core.records import Window, Windowed
from hayase.testing.sql.script import SqlScript

SALES = "CREATE STREAM sales (shop STRING KEY, item STRING, cents INT) WITH (kafka_topic='sales', value_format='JSON');"


def _sale(shop: str | None, item: str | None, cents: int | None, timestamp_ms: int = 0) -> tuple:
    return ("SALES", shop, {"ITEM": item, "CENTS": cents}, timestamp_ms)


def test_each_row_gives_a_new_result_of_its_group() -> None:
    script = SALES + "CREATE TABLE result AS SELECT shop, COUNT(*) AS n, SUM(cents) AS total FROM sales GROUP BY shop;"
    written = run_script(script, [_sale("a", "x", 5), _sale("b", "x", 1), _sale("a", "y", 7, 3)])
    assert written == [("a", {"N": 1, "TOTAL": 5}, 0), ("b", {"N": 1, "TOTAL": 1}, 0), ("a", {"N": 2, "TOTAL": 12}, 3)]


def test_a_row_whose_grouping_value_is_null_is_left_out() -> None:
    script = SALES + "CREATE TABLE result AS SELECT item, COUNT(*) AS n FROM sales GROUP BY item;"
    assert run_script(script, [_sale("a", None, 5), _sale("a", "x", 5)]) == [("x", {"N": 1}, 0)]


def test_results_may_be_computed_from_groups_and_aggregates() -> None:
    script = (
        SALES
        + """
        CREATE TABLE result AS SELECT UCASE(item) AS k, LEN(UCASE(item)) AS l, SUM(cents) * 2 + COUNT(*) AS x
        FROM sales GROUP BY UCASE(item);
    """
    )
    assert run_script(script, [_sale("a", "pen", 5)]) == [("PEN", {"L": 3, "X": 11}, 0)]


def test_several_grouping_expressions_make_a_key_of_several_columns() -> None:
    script = SALES.replace("value_format", "format") + (
        "CREATE TABLE result AS SELECT item, shop, COUNT(*) AS n FROM sales GROUP BY shop, item;"
    )
    assert run_script(script, [_sale("a", "x", 5)]) == [({"SHOP": "a", "ITEM": "x"}, {"N": 1}, 0)]


def test_having_deletes_a_group_that_was_in_the_result() -> None:
    script = SALES + (
        "CREATE TABLE result AS SELECT shop, SUM(cents) AS total FROM sales GROUP BY shop HAVING SUM(cents) > 10;"
    )
    written = run_script(script, [_sale("a", "x", 5), _sale("a", "x", 9), _sale("a", "x", -9)])
    assert written == [("a", {"TOTAL": 14}, 0), ("a", None, 0)]


def test_an_update_of_a_table_moves_its_row_from_one_group_to_another() -> None:
    script = """
        CREATE TABLE users (id INT PRIMARY KEY, city STRING) WITH (kafka_topic='users', value_format='JSON');
        CREATE TABLE result AS SELECT city, COUNT(*) AS n FROM users GROUP BY city;
    """
    inputs = [("USERS", 1, {"CITY": "Oslo"}, 0), ("USERS", 1, {"CITY": "Oslo"}, 1), ("USERS", 1, {"CITY": "Rome"}, 2)]
    written = run_script(script, inputs)
    assert [(key, value) for key, value, _ in written] == [
        ("Oslo", {"N": 1}),
        ("Oslo", {"N": 1}),
        ("Oslo", {"N": 0}),
        ("Rome", {"N": 1}),
    ]


def test_a_tumbling_window_has_bounds_and_late_rows_are_left_out() -> None:
    script = (
        SALES
        + """
        CREATE TABLE result AS SELECT shop, COUNT(*) AS n, WINDOWSTART AS s, WINDOWEND AS e FROM sales
        WINDOW TUMBLING (SIZE 10 MILLISECONDS, GRACE PERIOD 5 MILLISECONDS) GROUP BY shop;
    """
    )
    written = run_script(script, [_sale("a", "x", 1, timestamp_ms) for timestamp_ms in (3, 14, 9, 15, 8)])
    first, second = Windowed("a", Window(0, 10)), Windowed("a", Window(10, 20))
    assert [(key, value["N"]) for key, value, _ in written] == [(first, 1), (second, 1), (first, 2), (second, 2)]
    assert written[0][1] == {"N": 1, "S": 0, "E": 10}


def test_a_session_that_grows_deletes_the_one_before() -> None:
    script = (
        SALES
        + """
        CREATE TABLE result AS SELECT shop, COUNT(*) AS n FROM sales
        WINDOW SESSION (10 MILLISECONDS) GROUP BY shop;
    """
    )
    written = run_script(script, [_sale("a", "x", 1, 0), _sale("a", "x", 1, 10)])
    assert [(key.window, value) for key, value, _ in written] == [
        (Window(0, 0), {"N": 1}),
        (Window(0, 0), None),
        (Window(0, 10), {"N": 2}),
    ]


def test_emit_final_sends_one_result_when_the_window_closes() -> None:
    script = (
        SALES
        + """
        CREATE TABLE result AS SELECT shop, COUNT(*) AS n FROM sales
        WINDOW TUMBLING (SIZE 10 MILLISECONDS, GRACE PERIOD 0 MILLISECONDS) GROUP BY shop EMIT FINAL;
    """
    )
    written = run_script(script, [_sale("a", "x", 1, 1), _sale("a", "x", 1, 2), _sale("a", "x", 1, 10)])
    assert [(key.window, value) for key, value, _ in written] == [(Window(0, 10), {"N": 2})]


def test_an_aggregate_that_a_new_definition_adds_begins_with_the_next_row() -> None:
    with SqlScript() as script:
        script.run(
            """
            CREATE STREAM s (k INT KEY, v INT) WITH (kafka_topic='s', value_format='JSON');
            CREATE TABLE a AS SELECT k, SUM(v) AS total FROM s GROUP BY k;
            INSERT INTO s VALUES (1, 5);
            ASSERT VALUES a (k, total) VALUES (1, 5);
            CREATE OR REPLACE TABLE a AS SELECT k, SUM(v) AS total, MAX(v) AS most, COUNT(v) AS n FROM s GROUP BY k;
            INSERT INTO s VALUES (1, 4);
            ASSERT VALUES a (k, total, most, n) VALUES (1, 9, 4, 1);
            """
        )


@pytest.mark.parametrize(
    ("source", "query", "insert"),
    [
        ("TABLE s (k INT PRIMARY KEY, v INT)", "SELECT k, v AS n FROM s WHERE v > {}", "INSERT INTO s VALUES (1, {})"),
        (
            "STREAM s (k INT KEY, v INT)",
            "SELECT k, LATEST_BY_OFFSET(v) AS n FROM s GROUP BY k HAVING LATEST_BY_OFFSET(v) > {}",
            "INSERT INTO s VALUES (1, {})",
        ),
    ],
)
def test_a_row_that_a_new_condition_leaves_out_stays_until_it_passes(source: str, query: str, insert: str) -> None:
    with SqlScript() as script:
        script.run(f"CREATE {source} WITH (kafka_topic='s', value_format='JSON');")
        script.run(f"CREATE TABLE t AS {query.format(0)}; {insert.format(5)};")
        script.run(f"CREATE OR REPLACE TABLE t AS {query.format(10)}; {insert.format(6)}; {insert.format(70)};")
        script.run(f"{insert.format(7)};")
        assert [record.value for record in script.records("T")] == [b'{"N":5}', b'{"N":70}', None]
