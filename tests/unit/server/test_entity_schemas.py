"""The shapes of what POST /ksql answers: a JSON schema for each `@type`, written from the inventory, and a request."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient
from tests.unit.server.command_servers import client_of, rows, server_in, wait_until
from tests.unit.server.json_schema import errors

from hayase.server.context import ServerContext

SCHEMAS: dict[str, Any] = json.loads((Path(__file__).parent / "entities.schema.json").read_text("utf-8"))
PUSH_QUERY = "transient_S_1"
SETUP = """
    CREATE TYPE address AS STRUCT<street STRING, zips ARRAY<INT>, more MAP<STRING, DECIMAL(4, 2)>>;
    CREATE STREAM s (k STRING KEY, v INT, made TIMESTAMP, a address)
        WITH (kafka_topic='s', value_format='JSON', partitions=2, timestamp='made');
    CREATE STREAM h (v INT, h BYTES HEADER('h')) WITH (kafka_topic='h', value_format='JSON', partitions=1);
    CREATE TABLE t AS SELECT k, COUNT(*) AS n FROM s WINDOW TUMBLING (SIZE 1 HOUR) GROUP BY k;
    CREATE TABLE u WITH (value_format='AVRO') AS SELECT k, COUNT(*) AS n FROM s GROUP BY k;
    CREATE SOURCE CONNECTOR c WITH ('connector.class'='FileStreamSource', 'file'='/nowhere', 'topic'='s');
    INSERT INTO s (k, v, made) VALUES ('a', 1, '2026-11-25T00:00:00');
"""
REQUESTS = [
    ("currentStatus", "CREATE STREAM x WITH (value_format='JSON') AS SELECT * FROM s;"),
    ("currentStatus", "CREATE TABLE y (k INT PRIMARY KEY) WITH (kafka_topic='y', value_format='JSON', partitions=1);"),
    ("currentStatus", "INSERT INTO s SELECT * FROM s;"),
    ("currentStatus", "ALTER STREAM s ADD COLUMN w INT;"),
    ("currentStatus", "DROP TABLE u DELETE TOPIC;"),
    ("currentStatus", "CREATE TYPE x AS INT;"),
    ("currentStatus", "DROP TYPE address;"),
    ("currentStatus", "PAUSE ALL;"),
    ("currentStatus", "RESUME CTAS_T_0;"),
    ("currentStatus", "TERMINATE CTAS_T_0;"),
    ("warning_entity", "CREATE STREAM IF NOT EXISTS s (v INT) WITH (kafka_topic='s', value_format='JSON');"),
    ("warning_entity", "DROP CONNECTOR IF EXISTS nope;"),
    ("terminate_query", f"TERMINATE {PUSH_QUERY};"),
    ("streams", "LIST STREAMS;"),
    ("tables", "SHOW TABLES;"),
    ("source_descriptions", "SHOW STREAMS EXTENDED;"),
    ("source_descriptions", "DESCRIBE TABLES EXTENDED;"),
    ("sourceDescription", "DESCRIBE h;"),
    ("sourceDescription", "DESCRIBE s EXTENDED;"),
    ("queries", "SHOW QUERIES;"),
    ("query_descriptions", "SHOW QUERIES EXTENDED;"),
    ("queryDescription", "EXPLAIN CTAS_T_0;"),
    ("queryDescription", "EXPLAIN SELECT * FROM s EMIT CHANGES;"),
    ("kafka_topics", "SHOW ALL TOPICS;"),
    ("kafka_topics_extended", "SHOW TOPICS EXTENDED;"),
    ("properties", "SHOW PROPERTIES;"),
    ("function_names", "SHOW FUNCTIONS;"),
    ("describe_function", "DESCRIBE FUNCTION COUNT;"),
    ("type_list", "SHOW TYPES;"),
    ("variables", "SHOW VARIABLES;"),
    ("connector_list", "SHOW CONNECTORS;"),
    ("connector_plugins_list", "SHOW CONNECTOR PLUGINS;"),
    ("connector_description", "DESCRIBE CONNECTOR c;"),
    ("connector_info", "CREATE SINK CONNECTOR d WITH ('connector.class'='FileStreamSink', 'topics'='s', 'file'='{}');"),
    ("drop_connector", "DROP CONNECTOR c;"),
    ("assert_topic", "ASSERT TOPIC s;"),
    ("assert_topic", "ASSERT NOT EXISTS TOPIC nope;"),
    ("assert_schema", "ASSERT SCHEMA SUBJECT 'U-value' TIMEOUT 5 SECONDS;"),
    ("statement_error", "DROP STREAM nope;"),
    ("statement_error", "SELECT 1;"),
    ("generic_error", "DROP CONNECTOR nope;"),
]
_SHARED = {"SchemaInfo", "FieldInfo", "RunningQuery", "SourceDescription", "QueryDescription", "ConnectorStatus"}


class _Rows:
    """A push query of nothing."""

    def finish(self) -> None:
        """See PushRows."""


@pytest.fixture(scope="module")
def context(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerContext]:
    with server_in(tmp_path_factory.mktemp("server")) as opened:
        yield opened


@pytest.fixture(scope="module")
def client(context: ServerContext) -> TestClient:
    """A client of a server that has one of everything; the requests stand in an order that needs no other."""
    made = client_of(context)
    response = made.post("/ksql", json={"ksql": SETUP})
    assert response.status_code == 200, response.text
    context.push_queries._running[PUSH_QUERY] = _Rows()  # type: ignore[assignment]  # only `finish` is called
    wait_until(lambda: rows(made, "SELECT n FROM u;") == [[1]])
    return made


def _order(request: tuple[str, str]) -> bool:
    """Requests that change something come last."""
    return request[0] in ("currentStatus", "drop_connector")


@pytest.mark.parametrize(("kind", "statement"), sorted(REQUESTS, key=_order))
def test_an_answer_has_the_shape_of_its_type(client: TestClient, tmp_path: Path, kind: str, statement: str) -> None:
    text = "DEFINE x='1'; " * (kind == "variables") + statement.replace("{}", str(tmp_path / "sink"))
    answer = client.post("/ksql", json={"ksql": text, "streamsProperties": {"auto.offset.reset": "earliest"}}).json()
    (entity,) = answer if isinstance(answer, list) else [answer]
    assert entity["@type"] == kind, entity
    assert list(errors(entity, SCHEMAS["$defs"][kind], SCHEMAS)) == []


def test_every_type_has_a_request() -> None:
    assert {kind for kind, _ in REQUESTS} == SCHEMAS["$defs"].keys() - _SHARED


def test_the_validator_finds_what_is_wrong() -> None:
    wrong = {"@type": "drop_connector", "statementText": 1, "connectorName": "C", "more": None}
    assert list(errors(wrong, SCHEMAS["$defs"]["drop_connector"], SCHEMAS)) == [
        ".warnings is missing",
        ".statementText: 1 is no string",
        ".more is not known",
    ]
