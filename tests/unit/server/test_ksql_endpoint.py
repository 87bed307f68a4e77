"""POST /ksql, and what else the server answers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient
from tests.unit.server.command_servers import client_of, ksql, refused, rows, server_in, wait_until

from hayase.core.errors import LogError
from hayase.server.context import ServerContext

STREAM = "CREATE STREAM s (k STRING KEY, v INT) WITH (kafka_topic='s', value_format='JSON', partitions=2);"
TABLE = "CREATE TABLE t AS SELECT k, COUNT(*) AS n FROM s GROUP BY k;"


@pytest.fixture
def context(tmp_path: Path) -> Iterator[ServerContext]:
    with server_in(tmp_path) as opened:
        yield opened


@pytest.fixture
def client(context: ServerContext) -> TestClient:
    return client_of(context)


def test_a_command_answers_its_id_status_and_number(client: TestClient) -> None:
    (status,) = ksql(client, STREAM)
    assert status == {
        "@type": "currentStatus",
        "statementText": STREAM,
        "commandId": "stream/`S`/create",
        "commandStatus": {"status": "SUCCESS", "message": "Stream created", "queryId": None},
        "commandSequenceNumber": 0,
        "warnings": [],
    }


def test_a_query_that_starts_is_named_in_the_status(client: TestClient) -> None:
    assert ksql(client, STREAM + TABLE)[1]["commandStatus"]["queryId"] == "CTAS_T_0"


def test_insert_values_set_and_define_answer_nothing(client: TestClient) -> None:
    ksql(client, STREAM)
    text = "SET 'auto.offset.reset'='earliest'; DEFINE x='1'; INSERT INTO s VALUES ('a', ${x}); UNDEFINE x;"
    assert ksql(client, text) == []


def test_set_counts_for_the_statements_behind_it(client: TestClient) -> None:
    text = "SET 'ksql.persistence.default.format.value'='JSON';"
    ksql(client, f"{text} CREATE STREAM s (v INT) WITH (kafka_topic='s', partitions=1);")
    assert ksql(client, "SHOW STREAMS;")[0]["streams"][0]["valueFormat"] == "JSON"
    assert "format" in refused(client, "CREATE STREAM z (v INT) WITH (kafka_topic='s');")["message"].lower()


@pytest.mark.long
@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("SHOW STREAMS;", "streams"),
        ("SHOW TABLES;", "tables"),
        ("SHOW STREAMS EXTENDED;", "source_descriptions"),
        ("DESCRIBE TABLES;", "source_descriptions"),
        ("DESCRIBE s;", "sourceDescription"),
        ("DESCRIBE t EXTENDED;", "sourceDescription"),
        ("SHOW QUERIES;", "queries"),
        ("SHOW QUERIES EXTENDED;", "query_descriptions"),
        ("EXPLAIN CTAS_T_0;", "queryDescription"),
        ("EXPLAIN SELECT * FROM s EMIT CHANGES;", "queryDescription"),
        ("EXPLAIN CREATE STREAM z AS SELECT * FROM s;", "queryDescription"),
        ("SHOW TOPICS;", "kafka_topics"),
        ("SHOW ALL TOPICS;", "kafka_topics"),
        ("SHOW TOPICS EXTENDED;", "kafka_topics_extended"),
        ("SHOW PROPERTIES;", "properties"),
        ("SHOW FUNCTIONS;", "function_names"),
        ("DESCRIBE FUNCTION LPAD;", "describe_function"),
        ("DESCRIBE FUNCTION COUNT;", "describe_function"),
        ("SHOW TYPES;", "type_list"),
        ("SHOW VARIABLES;", "variables"),
        ("SHOW CONNECTORS;", "connector_list"),
        ("SHOW CONNECTOR PLUGINS;", "connector_plugins_list"),
        ("ASSERT TOPIC s;", "assert_topic"),
        ("CREATE STREAM IF NOT EXISTS s (v INT) WITH (kafka_topic='s', value_format='JSON');", "warning_entity"),
        ("DROP TABLE IF EXISTS nope;", "warning_entity"),
        ("DROP TYPE IF EXISTS nope;", "warning_entity"),
        ("PAUSE CTAS_T_0;", "currentStatus"),
        ("RESUME ALL;", "currentStatus"),
        ("TERMINATE ALL;", "currentStatus"),
        ("ALTER STREAM s ADD COLUMN w INT;", "currentStatus"),
        ("INSERT INTO s SELECT * FROM s2;", "currentStatus"),
        ("CREATE TYPE a AS INT;", "currentStatus"),
    ],
)
def test_each_statement_answers_its_type(client: TestClient, statement: str, expected: str) -> None:
    second = "CREATE STREAM s2 (k STRING KEY, v INT) WITH (kafka_topic='s2', value_format='JSON', partitions=2);"
    ksql(client, STREAM + TABLE + second)
    (entity,) = ksql(client, statement)
    assert entity["@type"] == expected
    assert entity["statementText"] == statement
    assert "warnings" in entity


@pytest.mark.long
def test_describe_shows_columns_queries_and_numbers(client: TestClient) -> None:
    ksql(client, STREAM + TABLE + "INSERT INTO s VALUES ('a', 1);")
    wait_until(lambda: rows(client, "SELECT * FROM t;") == [["a", 1]])
    # Rows can be read a moment before the numbers of their epoch are there.
    wait_until(lambda: ksql(client, "DESCRIBE t EXTENDED;")[0]["sourceDescription"]["clusterStatistics"])
    described = ksql(client, "DESCRIBE t EXTENDED;")[0]["sourceDescription"]
    assert [(each["name"], each["schema"]["type"]) for each in described["fields"]] == [
        ("K", "STRING"),
        ("N", "BIGINT"),
    ]
    assert described["fields"][0]["type"] == "KEY"
    assert "type" not in described["fields"][1]
    assert described["writeQueries"][0]["id"] == "CTAS_T_0"
    assert described["partitions"] == 2
    assert described["clusterStatistics"][0]["value"] == 1
    (offsets,) = ksql(client, "DESCRIBE s EXTENDED;")[0]["sourceDescription"]["queryOffsetSummaries"]
    assert sum(each["consumerOffset"] for each in offsets["topicSummaries"][0]["offsets"]) == 1


def test_types_are_shown_with_their_parts(client: TestClient) -> None:
    text = "CREATE STREAM d (a ARRAY<DECIMAL(4,2)>, m MAP<STRING,INT>, s STRUCT<x DATE>, h BYTES HEADER('h'))"
    ksql(client, f"{text} WITH (kafka_topic='d', value_format='JSON', partitions=1);")
    fields = {each["name"]: each for each in ksql(client, "DESCRIBE d;")[0]["sourceDescription"]["fields"]}
    decimal = fields["A"]["schema"]["memberSchema"]
    assert decimal == {
        "type": "DECIMAL", "fields": None, "memberSchema": None, "parameters": {"precision": 4, "scale": 2}
    }  # fmt: skip
    assert fields["M"]["schema"]["memberSchema"]["type"] == "INTEGER"
    assert fields["S"]["schema"]["fields"][0]["schema"]["type"] == "DATE"
    assert (fields["H"]["type"], fields["H"]["headerKey"]) == ("HEADER", "h")


def test_nothing_is_executed_if_a_later_statement_is_wrong(client: TestClient) -> None:
    error = refused(client, STREAM + "DROP TABLE nope;")
    assert error["@type"] == "statement_error"
    assert error["error_code"] == 40001
    assert error["statementText"] == "DROP TABLE nope;"
    assert error["entities"] == []
    assert ksql(client, "SHOW STREAMS;")[0]["streams"] == []


def test_statements_are_checked_together(client: TestClient) -> None:
    text = STREAM + TABLE + "TERMINATE CTAS_T_0; DROP TABLE t DELETE TOPIC; DROP STREAM s;"
    assert [each["commandStatus"]["status"] for each in ksql(client, text)] == ["SUCCESS"] * 5


def test_what_was_done_before_a_failure_is_part_of_the_error(
    client: TestClient, context: ServerContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(records: object) -> None:
        raise_statement_error()

    monkeypatch.setattr(context.inserts, "write", refuse)
    error = refused(client, STREAM + "INSERT INTO s VALUES ('a', 1);")
    assert [each["commandId"] for each in error["entities"]] == ["stream/`S`/create"]


def raise_statement_error() -> None:
    from hayase.sql.errors import StatementError

    raise StatementError("READ_ONLY_TOPIC", "not today")


@pytest.mark.parametrize("text", ["SELECT * FROM s;", "SELECT * FROM s EMIT CHANGES;", "PRINT s;"])
def test_queries_are_sent_elsewhere(client: TestClient, text: str) -> None:
    ksql(client, STREAM)
    assert refused(client, text)["error_code"] == 40002


def test_text_that_is_no_statement_shows_where(client: TestClient) -> None:
    error = refused(client, "CREATE STREAM;")
    assert error["error_code"] == 40001
    assert error["message"].startswith("line 1:14")


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{}", b'{"ksql": 1}', b"\xff", b'{"ksql":"SHOW STREAMS;","streamsProperties":[]}']
)
def test_a_body_that_is_no_request_is_a_bad_request(client: TestClient, body: bytes) -> None:
    response = client.post("/ksql", content=body)
    assert (response.status_code, response.json()["error_code"]) == (400, 40000)


def test_an_unknown_setting_is_a_bad_request(client: TestClient) -> None:
    response = client.post("/ksql", json={"ksql": "SHOW STREAMS;", "streamsProperties": {"nope": 1}})
    assert (response.status_code, response.json()["error_code"]) == (400, 40000)


def test_settings_may_have_the_prefix_of_streams(client: TestClient) -> None:
    ksql(client, "SHOW STREAMS;", {"ksql.streams.auto.offset.reset": "earliest"})
    (entity,) = ksql(client, "SHOW PROPERTIES;", {"ksql.streams.auto.offset.reset": "latest"})
    shown = {each["name"]: each["value"] for each in entity["properties"]}
    assert shown["auto.offset.reset"] == "latest"
    assert entity["overwrittenProperties"] == ["auto.offset.reset"]


def test_set_of_an_unknown_setting_is_an_error_of_the_statement(client: TestClient) -> None:
    error = refused(client, "SET 'nope'='1';")
    assert (error["@type"], error["error_code"]) == ("statement_error", 40001)


def test_a_query_whose_topic_is_gone_can_still_be_listed_and_ended(client: TestClient, context: ServerContext) -> None:
    ksql(client, STREAM + TABLE)
    context.log.delete_topic("s")
    assert ksql(client, "SHOW QUERIES;")[0]["queries"][0]["id"] == "CTAS_T_0"
    assert ksql(client, "EXPLAIN CTAS_T_0;")[0]["queryDescription"]["id"] == "CTAS_T_0"
    assert client.get("/metrics").status_code == 200
    ksql(client, "TERMINATE CTAS_T_0; DROP TABLE t; DROP STREAM s;")


def test_a_request_may_wait_for_a_command(client: TestClient) -> None:
    ksql(client, STREAM)
    response = client.post("/ksql", json={"ksql": "SHOW STREAMS;", "commandSequenceNumber": 0})
    assert response.status_code == 200


def test_a_command_that_does_not_come_is_a_timeout(tmp_path: Path) -> None:
    with server_in(tmp_path, ksql_server_command_response_timeout_ms=10) as opened:
        response = client_of(opened).post("/ksql", json={"ksql": "SHOW STREAMS;", "commandSequenceNumber": 7})
        assert (response.status_code, response.json()["error_code"]) == (503, 50301)


def test_assert_that_does_not_hold_has_a_code_of_its_own(client: TestClient) -> None:
    error = refused(client, "ASSERT TOPIC nope TIMEOUT 10 MILLISECONDS;", 417)
    assert error["error_code"] == 41700


def test_statuses_are_found_by_their_id(client: TestClient) -> None:
    ksql(client, STREAM + TABLE)
    assert client.get("/status").json()["commandStatuses"]["table/`T`/create"] == "SUCCESS"
    assert client.get("/status/table/%60T%60/create").json()["queryId"] == "CTAS_T_0"
    assert client.get("/status/table/nope/create").status_code == 404


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/info", {"ksqlServiceId": "default_", "serverStatus": "RUNNING", "kafkaClusterId": "embedded"}),
        ("/healthcheck", {"isHealthy": True, "serverState": "READY"}),
        ("/v1/metadata", {"version": "0.29.0"}),
        ("/chc/ready", {}),
        ("/chc/live", {}),
    ],
)
def test_the_server_says_what_it_is(client: TestClient, path: str, expected: dict[str, Any]) -> None:
    answer = client.get(path).json()
    assert expected.items() <= answer.get("KsqlServerInfo", answer).items()


def test_the_root_leads_to_info(client: TestClient) -> None:
    response = client.get("/", follow_redirects=False)
    assert (response.status_code, response.headers["location"]) == (307, "/info")


def test_settings_can_be_checked(client: TestClient) -> None:
    assert client.get("/is_valid_property/auto.offset.reset").json() is True
    assert client.get("/is_valid_property/nope").status_code == 400


def test_internal_endpoints_are_refused(client: TestClient) -> None:
    assert client.post("/heartbeat", content=b"{}").json()["error_code"] == 40005
    assert client.post("/lag", content=b"{}").json()["error_code"] == 40005


def test_other_paths_are_not_found(client: TestClient) -> None:
    response = client.get("/nope")
    assert (response.status_code, response.text) == (404, "Not Found")


def test_metrics_have_the_state_of_each_query(client: TestClient) -> None:
    ksql(client, STREAM + TABLE)
    wait_until(lambda: 'hayase_sql_query_state{query="CTAS_T_0",state="RUNNING"} 1.0' in client.get("/metrics").text)


def test_metrics_have_how_long_requests_take(client: TestClient) -> None:
    ksql(client, "SHOW STREAMS;")
    refused(client, "nonsense;")
    text = client.get("/metrics").text
    assert 'hayase_sql_request_seconds_count{endpoint="/ksql"} 2.0' in text
    assert 'hayase_sql_requests_total{endpoint="/ksql",status="400"} 1.0' in text


def test_the_cluster_is_one_host(client: TestClient) -> None:
    ksql(client, STREAM + TABLE)
    (host,) = client.get("/clusterStatus").json()["clusterStatus"].values()
    assert host["hostAlive"] is True
    assert list(host["activeStandbyPerQuery"]) == ["CTAS_T_0"]


def test_rows_are_inserted_line_by_line(client: TestClient) -> None:
    ksql(client, STREAM)
    body = b'{"target":"s","properties":{}}\n{"K":"a","V":1}\n{"k":"b","v":2}\n'
    response = client.post("/inserts-stream", content=body)
    assert response.text.splitlines() == ['{"status":"ok","seq":0}', '{"status":"ok","seq":1}']
    assert sorted(rows(client, "SELECT * FROM s;")) == [["a", 1], ["b", 2]]


@pytest.mark.parametrize("count", [0, 1, 2])
def test_acknowledgements_are_one_array_for_a_client_that_takes_json(client: TestClient, count: int) -> None:
    ksql(client, STREAM)
    body = b"\n".join([b'{"target":"s"}', *[b'{"K":"a","V":1}'] * count])
    response = client.post("/inserts-stream", content=body, headers={"accept": "application/json"})
    assert response.headers["content-type"] == "application/json"
    assert response.json() == [{"status": "ok", "seq": number} for number in range(count)]


def test_the_first_row_that_is_wrong_ends_the_inserts(client: TestClient) -> None:
    ksql(client, STREAM)
    body = b'{"target":"s"}\n{"K":"a","V":1}\n{"K":"a","V":"x"}\n{"K":"a","V":3}\n'
    *_, last = client.post("/inserts-stream", content=body).text.splitlines()
    assert '"seq":1' in last
    assert '"status":"error"' in last
    assert rows(client, "SELECT * FROM s;") == [["a", 1]]


def test_a_row_with_a_column_that_the_stream_lacks_is_answered_with_those_there_are(client: TestClient) -> None:
    ksql(client, STREAM)
    text = client.post("/inserts-stream", content=b'{"target":"s"}\n{"K":"a","W":1}\n').text
    assert "Column name `W` does not exist. The columns of `S` are `K`, `V`" in text


def test_inserts_into_what_is_not_there_are_refused(client: TestClient) -> None:
    response = client.post("/inserts-stream", content=b'{"target":"nope"}\n')
    assert (response.status_code, response.json()["error_code"]) == (400, 40000)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/ksql", {"ksql": "INSERT INTO s (k, v) VALUES ('a', 1);"}),
        ("/query", {"ksql": "SELECT * FROM s EMIT CHANGES LIMIT 1;"}),
        ("/query-stream", {"sql": "SELECT * FROM s EMIT CHANGES LIMIT 1;"}),
        ("/query-stream", {"sql": "SELECT * FROM s;"}),
    ],
)
def test_a_statement_about_records_of_a_deleted_topic_is_refused_with_the_name_of_the_topic(
    client: TestClient, context: ServerContext, path: str, body: dict[str, str]
) -> None:
    ksql(client, STREAM)
    context.log.delete_topic("s")
    response = client.post(path, json=body)
    answer = response.json()
    assert (response.status_code, answer["error_code"], answer["@type"]) == (400, 40001, "statement_error")
    assert "Topic 's' does not exist any more" in answer["message"]
    assert answer["statementText"] == next(iter(body.values()))


@pytest.mark.parametrize("before", ["", "CREATE TYPE x AS INT; "])
@pytest.mark.parametrize(
    "statement",
    [
        "CREATE STREAM c AS SELECT * FROM s;",
        "INSERT INTO o SELECT * FROM s;",
        "INSERT INTO s SELECT * FROM o;",
        "CREATE STREAM c AS SELECT s.k AS k, o.v AS v FROM o JOIN s WITHIN 1 HOUR ON o.k = s.k;",
    ],
)
def test_a_query_of_a_deleted_topic_is_not_made(
    client: TestClient, context: ServerContext, statement: str, before: str
) -> None:
    ksql(client, STREAM + STREAM.replace("STREAM s", "STREAM o").replace("'s'", "'o'"))
    context.log.delete_topic("s")
    error = refused(client, before + statement)
    assert (error["error_code"], error["statementText"], error["entities"]) == (40001, statement, [])
    assert "Topic 's' does not exist any more" in error["message"]
    assert not context.engine.queries
    assert not context.engine.catalog.types


def test_a_row_of_a_deleted_topic_is_refused_with_the_name_of_the_topic(
    client: TestClient, context: ServerContext
) -> None:
    ksql(client, STREAM)
    context.log.delete_topic("s")
    (answer,) = client.post("/inserts-stream", content=b'{"target":"s"}\n{"K":"a","V":1}\n').text.splitlines()
    error = json.loads(answer)
    assert (error["@type"], error["error_code"], error["seq"]) == ("generic_error", 40000, 0)
    assert "Topic 's' does not exist any more" in error["message"]


def test_an_insert_that_fails_in_whatever_way_because_the_topic_has_just_gone_names_the_topic(
    client: TestClient, context: ServerContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    def of_no_broker(batches: object) -> None:
        raise LogError("BROKER_UNAVAILABLE", "no answer from the Kafka cluster while writing a record")

    ksql(client, STREAM + "INSERT INTO s (k, v) VALUES ('a', 1);")
    monkeypatch.setattr(context.inserts._writer, "append", of_no_broker)
    context.log.delete_topic("s")  # a moment after the insert: it is not looked for
    assert "Topic 's' does not exist any more" in refused(client, "INSERT INTO s (k, v) VALUES ('a', 2);")["message"]
    context.log.create_topic("s", 2)
    assert refused(client, "INSERT INTO s (k, v) VALUES ('a', 2);", 500)["error_code"] == 50000


def test_rows_are_inserted_again_once_a_deleted_topic_is_made_again(client: TestClient, context: ServerContext) -> None:
    ksql(client, STREAM + "INSERT INTO s (k, v) VALUES ('a', 1);")
    context.log.delete_topic("s")
    refused(client, "INSERT INTO s (k, v) VALUES ('a', 2);")
    context.log.create_topic("s", 2)
    ksql(client, "INSERT INTO s (k, v) VALUES ('a', 3);")
    assert rows(client, "SELECT * FROM s;") == [["a", 3]]


def test_closing_a_query_that_does_not_run_is_refused(client: TestClient) -> None:
    response = client.post("/close-query", json={"queryId": "nope"})
    assert (response.status_code, response.json()["message"]) == (400, "No query with id nope")


def test_terminating_the_cluster_drops_everything(client: TestClient, context: ServerContext) -> None:
    ksql(client, STREAM + TABLE + "CREATE TYPE a AS INT;")
    (status,) = client.post("/ksql/terminate", json={"deleteTopicList": ["T.*"]}).json()
    assert status["commandId"] == "cluster/TerminateCluster/terminate"
    assert not context.engine.catalog.sources
    assert not context.engine.catalog.types
    assert not context.engine.queries
    assert sorted(context.topics.names()) == ["default_ksql_processing_log", "s"]
