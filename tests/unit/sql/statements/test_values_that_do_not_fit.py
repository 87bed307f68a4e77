"""Statements whose values cannot be taken as they are written: they are refused instead of changed."""

from __future__ import annotations

import pytest

from hayase.sql.engine import SqlEngine
from hayase.sql.errors import ParseFailedError, SqlError, StatementError
from hayase.testing.sql.script import SqlScript

SOURCE = """
CREATE STREAM s (k INT KEY, i INT, b BIGINT, n DECIMAL(5, 2), d DOUBLE, a ARRAY<INT>,
    st STRUCT<x INT>, m MAP<STRING, INT>)
    WITH (kafka_topic='s', value_format='JSON');
"""


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("i", "2147483648"),
        ("k", "-2147483649"),
        ("i", "1.7"),
        ("b", "1.5E0"),
        ("b", "1E300"),
        ("n", "1.005"),
        ("a", "ARRAY[1, 2147483648]"),
        ("st", "STRUCT(x := 2147483648)"),
        ("m", "MAP('a' := 1.5)"),
    ],
)
def test_an_inserted_number_that_the_column_cannot_hold_is_refused(column: str, value: str) -> None:
    engine = SqlEngine()
    engine.script(SOURCE)
    with pytest.raises(StatementError, match="does not fit"):
        engine.script(f"INSERT INTO s ({column}) VALUES ({value});")


@pytest.mark.parametrize(
    ("column", "value", "written"),
    [("i", "2.0", b'"I":2'), ("n", "1.50", b'"N":1.50'), ("d", "0.1", b'"D":0.1'), ("b", "7", b'"B":7')],
)
def test_an_inserted_number_that_the_column_can_hold_is_taken(column: str, value: str, written: bytes) -> None:
    engine = SqlEngine()
    engine.script(SOURCE)
    (record,) = engine.script(f"INSERT INTO s ({column}) VALUES ({value});")[0].records
    assert record.value is not None
    assert written in record.value


def test_a_record_before_1970_cannot_be_inserted() -> None:
    engine = SqlEngine()
    engine.script(SOURCE)
    with pytest.raises(StatementError, match="ROWTIME is -5"):
        engine.script("INSERT INTO s (ROWTIME, i) VALUES (-5, 1);")


def test_a_record_in_too_many_hopping_windows_is_refused_before_it_fills_the_memory() -> None:
    engine = SqlEngine()
    engine.script(SOURCE)
    with pytest.raises(StatementError, match="86400000000 windows"):
        engine.script(
            "CREATE TABLE r AS SELECT k, COUNT(*) FROM s "
            "WINDOW HOPPING (SIZE 1000 DAYS, ADVANCE BY 1 MILLISECOND) GROUP BY k;"
        )


@pytest.mark.parametrize(
    "properties",
    [
        "kafka_topic='s', partitions=0",
        "kafka_topic='s', partitions=-1",
        "kafka_topic='s', partitions=99999999999",
        "kafka_topic='s', replicas=0",
        "kafka_topic=''",
        "kafka_topic='..'",
        "kafka_topic='a/../b'",
        "kafka_topic='s', window_type='TUMBLING', window_size='0 SECONDS'",
        "kafka_topic='s', window_type='HOPPING', window_size='99999999999999999999 DAYS'",
    ],
)
def test_a_property_that_no_topic_or_window_can_have_is_refused(properties: str) -> None:
    with pytest.raises((StatementError, ParseFailedError), match="is invalid"):
        SqlEngine().script(f"CREATE STREAM s (k INT KEY, v INT) WITH ({properties}, value_format='JSON');")


def test_a_path_with_a_zero_character_is_an_error_of_the_script() -> None:
    with SqlScript() as script, pytest.raises(SqlError, match="cannot read"):
        script.run("RUN SCRIPT 'a\0b';")
