"""Statements: what they leave behind, and that a failing one leaves nothing."""

from __future__ import annotations

import re

import pytest

from hayase.core.errors import ConfigError
from hayase.sql.engine import SqlEngine
from hayase.sql.errors import ParseFailedError, StatementError
from hayase.sql.settings import check_configuration, effective, streams_config
from hayase.sql.statements.topics import MemoryTopics

SOURCE = "CREATE STREAM s (k INT KEY, v INT) WITH (kafka_topic='s', value_format='JSON');"


@pytest.fixture
def engine() -> SqlEngine:
    engine = SqlEngine()
    engine.script(SOURCE)
    return engine


def _message(engine: SqlEngine, statement: str) -> str:
    return engine.script(statement)[-1].message


def _error(engine: SqlEngine, statement: str) -> str:
    with pytest.raises((StatementError, ParseFailedError)) as caught:
        engine.script(statement)
    return caught.value.message


def test_queries_have_ids_of_kind_sink_and_number(engine: SqlEngine) -> None:
    engine.script(
        "CREATE STREAM a AS SELECT * FROM s; CREATE TABLE b AS SELECT k, COUNT(*) FROM s GROUP BY k;"
        "INSERT INTO a SELECT * FROM s; INSERT INTO a WITH (QUERY_ID='mine') SELECT * FROM s;"
    )
    assert list(engine.queries) == ["CSAS_A_0", "CTAS_B_1", "INSERTQUERY_2", "MINE"]


def test_a_result_has_a_topic_with_the_partitions_of_its_source() -> None:
    topics = MemoryTopics({"s": (6, 2)})
    engine = SqlEngine({"ksql.output.topic.name.prefix": "out-"}, topics=topics)
    engine.script(SOURCE + "CREATE STREAM a AS SELECT * FROM s;")
    assert topics.known["out-A"] == (6, 2)


def test_a_source_over_a_topic_that_is_not_there_needs_partitions() -> None:
    engine = SqlEngine(topics=MemoryTopics())
    assert "Topic 's' does not exist." in _error(engine, SOURCE)
    engine.script(SOURCE.replace("'JSON'", "'JSON', partitions=3"))


def test_a_name_can_be_taken_once_unless_the_statement_says_otherwise(engine: SqlEngine) -> None:
    assert "A stream with the same name already exists" in _error(engine, SOURCE)
    message = _message(engine, SOURCE.replace("STREAM s", "STREAM IF NOT EXISTS s"))
    assert message == "Cannot add stream `S`: A stream with the same name already exists."


def test_create_or_replace_keeps_the_id_of_the_query_and_its_place(engine: SqlEngine) -> None:
    engine.script("CREATE STREAM a AS SELECT k, v FROM s; CREATE STREAM b AS SELECT * FROM s;")
    engine.script("CREATE OR REPLACE STREAM a AS SELECT k, v, v + 1 AS w FROM s WHERE v > 0;")
    assert list(engine.queries) == ["CSAS_A_0", "CSAS_B_1"]
    assert "v > 0" in engine.queries["CSAS_A_0"].statement


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("SELECT k, v FROM s", "SELECT k, v AS w FROM s", "changed, missing or reordered: [`V` INTEGER]"),
        ("SELECT * FROM s", "SELECT * FROM s PARTITION BY v", "Key columns must be identical."),
    ],
)
def test_create_or_replace_refuses_other_columns(engine: SqlEngine, before: str, after: str, message: str) -> None:
    engine.script(f"CREATE STREAM a AS {before};")
    assert message in _error(engine, f"CREATE OR REPLACE STREAM a AS {after};")


def test_create_or_replace_refuses_queries_whose_state_would_be_wrong(engine: SqlEngine) -> None:
    windowed = "TABLE a AS SELECT k, COUNT(*) FROM s WINDOW TUMBLING (SIZE 1 SECOND) {} GROUP BY k;"
    engine.script("CREATE " + windowed.format(""))
    error = _error(engine, "CREATE OR REPLACE " + windowed.format("WHERE v > 0"))
    assert "Upgrades not yet supported for StreamWindowedAggregate" in error


def test_create_or_replace_names_the_windows_that_it_refuses_to_change(engine: SqlEngine) -> None:
    windowed = "TABLE a AS SELECT k, COUNT(*) AS n FROM s WINDOW TUMBLING (SIZE {} SECONDS) GROUP BY k;"
    engine.script("CREATE " + windowed.format(1))
    error = _error(engine, "CREATE OR REPLACE " + windowed.format(2))
    assert "has windows = TUMBLING of 1000 ms which is not upgradeable to TUMBLING of 2000 ms" in error


def test_create_or_replace_names_the_timestamp_column_that_it_refuses_to_change(engine: SqlEngine) -> None:
    source = "STREAM a (k INT KEY, v BIGINT) WITH (kafka_topic='s', value_format='JSON'{});"
    engine.script("CREATE " + source.format(""))
    error = _error(engine, "CREATE OR REPLACE " + source.format(", timestamp='v'"))
    assert "has timestamp column = none which is not upgradeable to `V`" in error


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE STREAM x AS SELECT * FROM order;",
        "INSERT INTO order VALUES (1, 2);",
        "INSERT INTO order SELECT * FROM orders;",
        "DROP STREAM order;",
    ],
)
def test_a_source_that_does_not_exist_is_answered_with_the_nearest_name(engine: SqlEngine, statement: str) -> None:
    engine.script(SOURCE.replace("STREAM s", "STREAM orders"))
    assert "\nDid you mean ORDERS?" in _error(engine, statement)


def test_drop_stops_the_query_that_was_made_with_the_source(engine: SqlEngine) -> None:
    engine.script("CREATE STREAM a AS SELECT * FROM s;")
    (result,) = engine.script("DROP STREAM a DELETE TOPIC;")
    assert (result.message, result.stopped) == ("Source `A` (topic: A) was dropped.", ("CSAS_A_0",))
    assert engine.queries == {}


def test_drop_refuses_a_source_that_others_read(engine: SqlEngine) -> None:
    engine.script("CREATE STREAM a AS SELECT * FROM s;")
    assert "The following streams and/or tables read from this source: [A]." in _error(engine, "DROP STREAM s;")
    assert _message(engine, "DROP STREAM IF EXISTS nope;") == "Source NOPE does not exist."


def test_alter_adds_columns_to_sources_that_no_query_made(engine: SqlEngine) -> None:
    engine.script("ALTER STREAM s ADD COLUMN w STRING; CREATE STREAM a AS SELECT * FROM s;")
    source = engine.catalog.find("S")
    assert source is not None
    assert source.schema_text == "`K` INTEGER KEY, `V` INTEGER, `W` STRING"
    assert "not supported for CREATE ... AS" in _error(engine, "ALTER STREAM a ADD COLUMN x INT;")


def test_custom_types_stand_for_what_they_were_when_they_are_used(engine: SqlEngine) -> None:
    engine.script("CREATE TYPE point AS STRUCT<x INT, y INT>;")
    engine.script(
        "CREATE STREAM p (k INT KEY, place point) WITH (kafka_topic='p', value_format='JSON'); DROP TYPE point;"
    )
    source = engine.catalog.find("P")
    assert source is not None
    assert source.schema_text == "`K` INTEGER KEY, `PLACE` STRUCT<`X` INTEGER, `Y` INTEGER>"
    assert "Cannot resolve unknown type: POINT" in _error(
        engine, "CREATE STREAM q (k INT KEY, place point) WITH (kafka_topic='q', value_format='JSON');"
    )


def test_sources_are_read_only(engine: SqlEngine) -> None:
    engine.script("CREATE SOURCE TABLE t (k INT PRIMARY KEY, v INT) WITH (kafka_topic='t', value_format='JSON');")
    assert list(engine.queries) == ["CST_T_0"]
    assert "Cannot insert values into read-only table: T" in _error(engine, "INSERT INTO t VALUES (1, 2);")
    assert "Cannot delete topic for read-only source: T" in _error(engine, "DROP TABLE t DELETE TOPIC;")


def test_insert_values_makes_one_record(engine: SqlEngine) -> None:
    (result,) = engine.script("INSERT INTO s (v, k, ROWTIME) VALUES (1 + 1, 7, 50);")
    (record,) = result.records
    assert (record.topic, record.key, record.timestamp_ms) == ("s", b"\0\0\0\x07", 50)
    assert record.value == b'{"V":2}'


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("INSERT INTO nope VALUES (1);", "Cannot insert values into an unknown stream/table: `NOPE`"),
        ("INSERT INTO s VALUES (1);", "Expected number columns and values to match: 2, 1"),
        ("INSERT INTO s VALUES (1, v);", "VALUES column 'V' cannot be resolved."),
        ("INSERT INTO s (k, x) VALUES (1, 2);", "Column name `X` does not exist. The columns of `S` are `K`, "),
        ("INSERT INTO s (k, ROWOFFSET) VALUES (1, 2);", "Inserting into column `ROWOFFSET` is not allowed."),
        ("INSERT INTO s VALUES (1, 1 / 0);", "Failed to insert values: Expected type INTEGER for field `V`"),
        ("INSERT INTO s VALUES (1, 'many');", "Expected type INTEGER for field `V`"),
        ("INSERT INTO s SELECT k, v, v AS w FROM s;", "Result schema is `K` INTEGER KEY, `V` INTEGER, `W` INTEGER"),
        ("INSERT INTO s SELECT k, COUNT(*) FROM s GROUP BY k;", "select query result is TABLE."),
    ],
)
def test_inserts_that_are_refused(engine: SqlEngine, statement: str, message: str) -> None:
    assert message in _error(engine, statement)


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ("value_format='JSON'", 'Missing required property "KAFKA_TOPIC"'),
        ("kafka_topic='x'", "Statement is missing the 'VALUE_FORMAT' property"),
        ("kafka_topic='x', format='JSON', value_format='JSON'", "Cannot supply both 'VALUE_FORMAT' and 'FORMAT'"),
        ("kafka_topic='x', value_format='FOO'", "Unknown format: FOO"),
        ("kafka_topic='x', value_format='JSON', nope=1", "Invalid config variable(s) in the WITH clause: NOPE"),
        ("kafka_topic='x', value_format='JSON', timestamp='nope'", "does not exist in the schema: 'NOPE'"),
        ("kafka_topic='x', value_format='JSON', timestamp='v'", "should be LONG(INT64), TIMESTAMP, or a String"),
        ("kafka_topic='x', value_format='JSON', window_type='SESSION', window_size='1 DAY'", "should not be set for"),
        (
            "kafka_topic='x', value_format='JSON', window_type='HOPPING', window_size='1 BOB'",
            "Unknown time unit: 'BOB'",
        ),
    ],
)
def test_properties_that_are_refused(engine: SqlEngine, properties: str, message: str) -> None:
    assert message in _error(engine, f"CREATE STREAM x (k INT KEY, v INT) WITH ({properties});")


def test_settings_are_known_or_refused(engine: SqlEngine) -> None:
    engine.script("SET 'ksql.output.topic.name.prefix' = 'p-'; CREATE STREAM a AS SELECT * FROM s;")
    source = engine.catalog.find("A")
    assert source is not None
    assert source.topic == "p-A"
    assert "Unknown property: nope" in _error(engine, "SET 'nope' = '1';")
    engine.script("UNSET 'ksql.output.topic.name.prefix';")
    assert engine.settings["ksql.output.topic.name.prefix"] == ""


@pytest.mark.parametrize(
    ("setting", "statement"),
    [
        ("ksql.create.or.replace.enabled", SOURCE.replace("CREATE", "CREATE OR REPLACE")),
        ("ksql.insert.into.values.enabled", "INSERT INTO s VALUES (1, 2);"),
        (
            "ksql.suppress.enabled",
            "CREATE TABLE a AS SELECT k, COUNT(*) FROM s WINDOW TUMBLING (SIZE 1 DAY) GROUP BY k EMIT FINAL;",
        ),
    ],
)
def test_settings_switch_statements_off(engine: SqlEngine, setting: str, statement: str) -> None:
    engine.script(f"SET '{setting}' = 'false';")
    assert f"set {setting} to true to allow it" in _error(engine, statement)


def test_a_setting_without_effect_says_so(engine: SqlEngine) -> None:
    (result,) = engine.script("SET 'ksql.lambdas.enabled' = 'false';")
    assert result.warnings == ("ksql.lambdas.enabled has no effect: lambdas are always allowed",)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("ksql.service.id", "Cannot override property 'ksql.service.id'"),
        ("ksql.connect.url", "it belongs to the configuration that a server or program starts with"),
        ("ksql.extension.dir", "functions are Python modules, not jars"),
        ("ksql.query.nope", "Unknown property: ksql.query.nope"),
    ],
)
def test_settings_of_a_server_and_refused_ones_cannot_be_set(engine: SqlEngine, name: str, message: str) -> None:
    assert message in _error(engine, f"SET '{name}' = 'x';")
    rows = {row["name"]: row for row in engine.script("LIST PROPERTIES;")[0].rows}
    assert name not in rows or rows[name]["editable"] is False


def test_an_unknown_setting_is_refused_with_the_nearest_name(engine: SqlEngine) -> None:
    assert "Did you mean ksql.suppress.enabled?" in _error(engine, "SET 'ksql.supress.enabled' = 'false';")


@pytest.mark.parametrize(
    ("name", "condition", "message"),
    [
        ("ksql.supress.enabled", "UNKNOWN_SETTING", "Did you mean ksql.suppress.enabled?"),
        ("ksql.security.extension.class", "REFUSED_SETTING", "Java classes cannot be loaded"),
    ],
)
def test_a_configuration_with_an_unknown_or_refused_setting_is_refused(name: str, condition: str, message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)) as caught:
        check_configuration({"commit.interval.ms": 100, name: "x"})
    assert caught.value.condition == condition


def test_a_configuration_names_its_settings_without_effect() -> None:
    given = {"ksql.service.id": "shop_", "ksql.lambdas.enabled": "false", "ksql.streams.cache.max.bytes.buffering": 0}
    assert check_configuration(given) == ["ksql.lambdas.enabled has no effect: lambdas are always allowed"]


def test_a_setting_of_kafka_streams_that_hayase_has_not_is_taken_with_a_warning(engine: SqlEngine) -> None:
    (result,) = engine.script("SET 'ksql.streams.rocksdb.config.setter' = 'x';")
    assert result.warnings != ()
    (result,) = engine.script("SET 'ksql.streams.max.task.idle.ms' = '5';")
    assert result.warnings == () and streams_config(engine.settings)["max.task.idle.ms"] == "5"


def test_alter_system_is_refused(engine: SqlEngine) -> None:
    assert "ALTER SYSTEM is refused" in _error(engine, "ALTER SYSTEM 'auto.offset.reset' = 'earliest';")


def test_the_settings_of_the_application_come_from_those_of_ksqldb() -> None:
    settings = effective({"ksql.streams.num.stream.threads": 2, "ksql.fail.on.deserialization.error": "true"})
    config = streams_config(settings)
    assert config["num.stream.threads"] == 2
    assert config["deserialization.exception.handler"] == "log_and_fail"
    assert config["auto.offset.reset"] == "latest"


def test_a_replaced_query_does_not_go_on_with_state_of_another_source(engine: SqlEngine) -> None:
    engine.script(
        f"{SOURCE.replace('STREAM s', 'STREAM s1')} CREATE TABLE t AS SELECT k, SUM(v) AS n FROM s GROUP BY k;"
    )
    error = _error(engine, "CREATE OR REPLACE TABLE t AS SELECT k, SUM(v) AS n FROM s1 GROUP BY k;")
    assert "its query reads S, and would read S1" in error


@pytest.mark.parametrize("value", ["abc", "0", "-1", "1.5"])
@pytest.mark.parametrize("name", ["ksql.sink.partitions", "ksql.sink.replicas"])
def test_a_setting_of_sinks_that_is_no_number_is_refused(engine: SqlEngine, name: str, value: str) -> None:
    assert "allowed is a whole number from 1 to" in _error(
        engine, f"SET '{name}'='{value}'; CREATE STREAM a AS SELECT * FROM s;"
    )


def test_a_topic_with_a_variable_that_is_not_defined_says_so() -> None:
    assert "the variable in it is not defined" in _error(SqlEngine(), SOURCE.replace("'s'", "'${topic}'"))
