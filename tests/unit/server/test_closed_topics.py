"""Topics that requests cannot make, write or read, whatever they set, and settings that are not shown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.unit.server.command_servers import client_of, execute, ksql, refused, server_in

STREAM = "CREATE STREAM s (k STRING KEY, v INT) WITH (kafka_topic='s', value_format='JSON', partitions=1);"
QUERY = "CREATE STREAM c AS SELECT * FROM s;"
CONFIGS = "_hayase-sql-default__connect-configs"


@pytest.mark.parametrize(
    "setting",
    [
        "ksql.streams.errors.dead.letter.queue.topic.name",
        "ksql.streams.processing.log.topic.name",
        "ksql.logging.processing.topic.name",
    ],
)
def test_no_setting_of_a_request_has_a_query_write_a_read_only_topic(tmp_path: Path, setting: str) -> None:
    with server_in(tmp_path) as context:
        client, topic = client_of(context), context.settings.command_topic
        ksql(client, STREAM)
        error = refused(client, f"SET '{setting}'='{topic}'; {QUERY}")
        assert "read-only" in error["message"]
        assert setting.removeprefix("ksql.streams.") in error["message"]
        assert not context.engine.queries
        ksql(client, f"SET '{setting}'='failures'; {QUERY}")


def test_a_topic_of_more_partitions_than_a_log_can_make_is_refused_at_once(tmp_path: Path) -> None:
    with server_in(tmp_path) as context:
        client = client_of(context)
        error = refused(client, STREAM.replace("partitions=1", "partitions=2000000000"))
        assert "1 to 10,000 partitions, not 2,000,000,000" in error["message"]
        ksql(client, STREAM)


@pytest.mark.parametrize(
    ("endpoint", "statement"),
    [
        ("/query", f"PRINT '{CONFIGS}' FROM BEGINNING LIMIT 1;"),
        ("/ksql", f"CREATE STREAM peek (v STRING) WITH (kafka_topic='{CONFIGS}', value_format='KAFKA');"),
        ("/ksql", f"CREATE SOURCE STREAM peek (v STRING) WITH (kafka_topic='{CONFIGS}', value_format='KAFKA');"),
        ("/ksql", "CREATE STREAM peek (v STRING) WITH (kafka_topic='renamed', value_format='KAFKA');"),
    ],
)
def test_passwords_of_connectors_are_not_read_from_their_topic(tmp_path: Path, endpoint: str, statement: str) -> None:
    worker = tmp_path / "worker.properties"
    worker.write_text("config.storage.topic=renamed\n")
    with server_in(tmp_path, ksql_connect_worker_config=worker) as context:
        for topic in (CONFIGS, "renamed"):
            context.log.create_topic(topic, 1)
        response = client_of(context).post(endpoint, json={"ksql": statement})
        assert response.status_code == 400, response.text
        assert "configurations of connectors" in response.json()["message"]


def test_show_properties_hides_the_values_of_secrets(tmp_path: Path) -> None:
    secrets: dict[str, Any] = {"ksql_streams_sasl_jaas_config": "open sesame", "ksql_streams_ssl_key_password": "hush"}
    with server_in(tmp_path, **secrets) as context:
        execute(context, STREAM)
        (answer,) = ksql(client_of(context), "SHOW PROPERTIES;")
        shown = {each["name"]: each["value"] for each in answer["properties"]}
    assert shown["ksql.streams.sasl.jaas.config"] == "***"
    assert shown["ksql.streams.ssl.key.password"] == "***"
    assert shown["ksql.persistence.default.format.key"] == "KAFKA"


@pytest.mark.parametrize(
    "setting",
    ["ksql.streams.errors.dead.letter.queue.topic.name", "ksql.streams.processing.log.topic.name"],
)
def test_a_push_query_goes_on_behind_a_record_that_cannot_be_read_whatever_topic_it_names_for_such(
    tmp_path: Path, setting: str
) -> None:
    raw = "CREATE STREAM raw (k STRING KEY, v STRING) WITH (kafka_topic='s', value_format='KAFKA');"
    query = {
        "sql": "SELECT * FROM s EMIT CHANGES LIMIT 1;",
        "properties": {"auto.offset.reset": "earliest", setting: "failures"},
    }
    with server_in(tmp_path) as context:
        client = client_of(context)
        ksql(client, STREAM + raw + "INSERT INTO raw VALUES ('a', 'bad{'); INSERT INTO s VALUES ('a', 1);")
        assert client.post("/query-stream", json=query).text.splitlines()[1:] == ['["a",1]']
