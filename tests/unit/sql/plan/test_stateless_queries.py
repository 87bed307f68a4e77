"""Projections, filters, new keys and table functions, run record by record."""

from __future__ import annotations

from tests.unit.sql.plan.sql_queries import run_script

PEOPLE = "CREATE STREAM people (id INT KEY, name STRING, age INT) WITH (kafka_topic='people', value_format='JSON');"


def test_a_projection_renames_the_key_and_computes_values() -> None:
    script = PEOPLE + "CREATE STREAM result AS SELECT id AS k, name, age + 1 FROM people;"
    written = run_script(script, [("PEOPLE", 7, {"NAME": "Ann", "AGE": 30}, 5)])
    assert written == [(7, {"NAME": "Ann", "KSQL_COL_0": 31}, 5)]


def test_a_filter_drops_rows_that_are_not_true_and_records_without_a_value() -> None:
    script = PEOPLE + "CREATE STREAM result AS SELECT * FROM people WHERE age > 30;"
    inputs = [
        ("PEOPLE", 1, {"NAME": "Ann", "AGE": 31}, 0),
        ("PEOPLE", 2, {"NAME": "Bob", "AGE": 30}, 0),
        ("PEOPLE", 3, {"NAME": "Eve", "AGE": None}, 0),
        ("PEOPLE", 4, None, 0),
    ]
    assert [key for key, _, _ in run_script(script, inputs)] == [1]


def test_a_stream_passes_on_records_without_a_value() -> None:
    script = PEOPLE + "CREATE STREAM result AS SELECT * FROM people;"
    assert run_script(script, [("PEOPLE", 4, None, 9)]) == [(4, None, 9)]


def test_an_expression_that_fails_is_null_and_the_row_stays() -> None:
    script = PEOPLE + "CREATE STREAM result AS SELECT id, 10 / age AS share FROM people;"
    assert run_script(script, [("PEOPLE", 1, {"NAME": "Ann", "AGE": 0}, 0)]) == [(1, {"SHARE": None}, 0)]


def test_pseudo_columns_have_the_place_and_time_of_the_record() -> None:
    script = PEOPLE + (
        "CREATE STREAM result AS SELECT id, ROWTIME AS t, ROWPARTITION AS p, ROWOFFSET AS o FROM people;"
    )
    row = {"NAME": "Ann", "AGE": 1}
    written = run_script(script, [("PEOPLE", 1, row, 50), ("PEOPLE", 1, row, 60)])
    assert [value for _, value, _ in written] == [{"T": 50, "P": 0, "O": 0}, {"T": 60, "P": 0, "O": 1}]


def test_partition_by_moves_the_old_key_into_the_value() -> None:
    script = PEOPLE + "CREATE STREAM result AS SELECT * FROM people PARTITION BY name;"
    written = run_script(script, [("PEOPLE", 7, {"NAME": "Ann", "AGE": 30}, 0)])
    assert written == [("Ann", {"AGE": 30, "ID": 7}, 0)]


def test_partition_by_an_expression_that_fails_gives_a_null_key() -> None:
    script = PEOPLE + "CREATE STREAM result AS SELECT 10 / age AS k, name FROM people PARTITION BY 10 / age;"
    written = run_script(script, [("PEOPLE", 7, {"NAME": "Ann", "AGE": 0}, 0)])
    assert written == [(None, {"NAME": "Ann"}, 0)]


def test_partition_by_null_takes_the_key_away() -> None:
    script = PEOPLE + "CREATE STREAM result AS SELECT id, name FROM people PARTITION BY NULL;"
    written = run_script(script, [("PEOPLE", 7, {"NAME": "Ann", "AGE": 0}, 0)])
    assert written == [(None, {"ID": 7, "NAME": "Ann"}, 0)]


def test_a_record_without_a_value_keeps_the_part_of_its_new_key_that_comes_from_the_old_one() -> None:
    script = """
        CREATE STREAM s (a INT KEY, b INT) WITH (kafka_topic='s', format='JSON');
        CREATE STREAM result AS SELECT a, b, AS_VALUE(b) AS c FROM s PARTITION BY a, b;
    """
    assert run_script(script, [("S", 1, None, 0)]) == [({"A": 1, "B": None}, None, 0)]


def test_table_functions_are_zipped_and_the_shorter_one_ends_in_nulls() -> None:
    script = """
        CREATE STREAM s (k INT KEY, a ARRAY<INT>, b ARRAY<INT>) WITH (kafka_topic='s', value_format='JSON');
        CREATE STREAM result AS SELECT k, EXPLODE(a) AS x, EXPLODE(b) + 1 AS y FROM s;
    """
    written = run_script(script, [("S", 1, {"A": [1, 2], "B": [5]}, 0)])
    assert [value for _, value, _ in written] == [{"X": 1, "Y": 6}, {"X": 2, "Y": None}]


def test_the_timestamp_of_a_source_comes_from_its_column() -> None:
    script = """
        CREATE STREAM s (k INT KEY, t BIGINT) WITH (kafka_topic='s', value_format='JSON', timestamp='t');
        CREATE STREAM result AS SELECT * FROM s;
    """
    written = run_script(script, [("S", 1, {"T": 1234}, 0), ("S", 1, {"T": None}, 0)])
    assert written == [(1, {"T": 1234}, 1234)]


def test_the_timestamp_of_a_result_comes_from_its_column() -> None:
    script = PEOPLE + "CREATE STREAM result WITH (timestamp='t') AS SELECT id, CAST(age AS BIGINT) AS t FROM people;"
    written = run_script(script, [("PEOPLE", 1, {"NAME": "Ann", "AGE": 77}, 0)])
    assert written == [(1, {"T": 77}, 77)]


def test_rows_of_a_table_that_a_filter_refuses_are_deleted() -> None:
    script = """
        CREATE TABLE t (k INT PRIMARY KEY, v INT) WITH (kafka_topic='t', value_format='JSON');
        CREATE TABLE result AS SELECT * FROM t WHERE v > 0;
    """
    inputs = [("T", 1, {"V": 5}, 0), ("T", 1, {"V": -5}, 1), ("T", None, {"V": 5}, 2), ("T", 2, {"V": -5}, 3)]
    assert run_script(script, inputs) == [(1, {"V": 5}, 0), (1, None, 1)]


def test_a_query_reads_what_an_earlier_one_wrote() -> None:
    script = (
        PEOPLE
        + """
        CREATE STREAM adults AS SELECT * FROM people WHERE age >= 18;
        CREATE STREAM result AS SELECT id, UCASE(name) AS name FROM adults;
    """
    )
    assert run_script(script, [("ADULTS", 1, {"NAME": "Ann", "AGE": 20}, 0)]) == [(1, {"NAME": "ANN"}, 0)]
