"""Statements about connectors: of a Connect worker over loopback, and of the server's own process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient
from tests.unit.server.command_servers import client_of, ksql, refused, rows, server_in, settings_in, wait_until

from hayase.cli.sql.tables import answer_lines
from hayase.connect.worker import ConnectWorker
from hayase.core.errors import ConfigError
from hayase.log.protocol import LogConfig
from hayase.server.server import open_server


def create(name: str, file: Path, *, absent: str = "", more: str = "") -> str:
    return (
        f"CREATE SOURCE CONNECTOR {absent}{name} WITH ('connector.class'='FileStreamSource', 'file'='{file}', "
        f"\"topic\"='lines'{more});"
    )


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConnectWorker]:
    folder = tmp_path_factory.mktemp("worker")
    (folder / "users").write_text("ada=secret\n")
    props = {
        "group.id": "w",
        "listeners": "http://127.0.0.1:0",
        "rest.basic.auth.file": str(folder / "users"),
        "value.converter": "StringConverter",
    }
    with ConnectWorker(LogConfig("embedded", str(folder / "log"), {"fsync": "false"}), props) as running:
        yield running
        for name in running.herder.connectors():
            running.herder.delete(name)


@pytest.fixture(params=["remote", "embedded"])
def client(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[TestClient]:
    """A server whose connectors are of a worker, and one that runs them itself."""
    settings: dict[str, str] = {}
    worker = None
    if request.param == "remote":
        worker = request.getfixturevalue("worker")
        (tmp_path / "credentials").write_text("username=ada\npassword=secret\n")
        settings = {
            "ksql_connect_url": worker.urls[0],
            "ksql_connect_basic_auth_credentials_source": "FILE",
            "ksql_connect_basic_auth_credentials_file": str(tmp_path / "credentials"),
        }
    (tmp_path / "lines.txt").write_text("one\ntwo\n")
    with server_in(tmp_path, **settings) as context:
        yield client_of(context)
        for name in context.connect.names():
            context.connect.delete(name)


def connectors(client: TestClient, kind: str = "") -> list[dict[str, Any]]:
    (entity,) = ksql(client, f"SHOW {kind} CONNECTORS;")
    assert entity["@type"] == "connector_list"
    found: list[dict[str, Any]] = entity["connectors"]
    return found


@pytest.mark.long
def test_a_connector_is_made_listed_described_and_dropped(client: TestClient, tmp_path: Path) -> None:
    (made,) = ksql(client, create("reader", tmp_path / "lines.txt"))
    assert made["@type"] == "connector_info"
    assert made["info"]["name"] == "READER"
    assert made["info"]["type"] == "source"
    assert made["info"]["config"]["topic"] == "lines"
    running = "RUNNING (1/1 tasks RUNNING)"
    wait_until(lambda: connectors(client)[0]["state"] == running)
    listed = {"name": "READER", "type": "source", "className": "FileStreamSource", "state": running}
    assert connectors(client) == connectors(client, "SOURCE") == [listed]
    assert connectors(client, "SINK") == []
    (described,) = ksql(client, "DESCRIBE CONNECTOR reader;")
    assert described["@type"] == "connector_description"
    assert described["connectorClass"] == "FileStreamSource"
    assert described["status"]["connector"]["state"] == "RUNNING"
    assert [task["state"] for task in described["status"]["tasks"]] == ["RUNNING"]
    (dropped,) = ksql(client, "DROP CONNECTOR reader;")
    assert (dropped["@type"], dropped["connectorName"]) == ("drop_connector", "READER")
    assert connectors(client) == []


def test_a_connector_that_is_there_is_a_conflict(client: TestClient, tmp_path: Path) -> None:
    ksql(client, create("reader", tmp_path / "lines.txt"))
    error = refused(client, create("reader", tmp_path / "lines.txt"), 409)
    assert error["@type"] == "generic_error"
    assert (error["error_code"], error["message"]) == (40900, "Connector READER already exists")


def test_if_not_exists_and_if_exists_warn(client: TestClient, tmp_path: Path) -> None:
    statement = create("reader", tmp_path / "lines.txt", absent="IF NOT EXISTS ")
    assert ksql(client, statement)[0]["@type"] == "connector_info"
    (warning,) = ksql(client, statement)
    assert (warning["@type"], warning["message"]) == ("warning_entity", "Connector READER already exists")
    (warning,) = ksql(client, "DROP CONNECTOR IF EXISTS nope;")
    assert (warning["@type"], warning["message"]) == ("warning_entity", "Connector 'NOPE' does not exist.")


def test_a_wrong_configuration_names_all_errors_and_makes_nothing(client: TestClient) -> None:
    text = "WITH ('connector.class'='FileStreamSource', 'topic'='t', 'tasks.max'='0', 'errors.tolerance'='some');"
    error = refused(client, f"CREATE STREAM s (v INT) WITH (kafka_topic='s', value_format='JSON', partitions=1); "
                    f"CREATE SOURCE CONNECTOR c {text}")  # fmt: skip
    assert (error["@type"], error["error_code"]) == ("statement_error", 40001)
    assert error["message"].startswith("Validation error: ")
    assert "tasks.max - " in error["message"]
    assert "errors.tolerance - " in error["message"]
    assert connectors(client) == []
    assert ksql(client, "SHOW STREAMS;")[0]["streams"] == []


def test_a_connector_needs_a_class(client: TestClient) -> None:
    assert "connector type" in refused(client, "CREATE SINK CONNECTOR c WITH ('topics'='t');")["message"]
    empty = "CREATE SINK CONNECTOR c WITH ('connector.class'=' ');"
    assert refused(client, empty)["message"] == "Validation error: Connector type cannot be empty"


def test_what_is_not_there_cannot_be_dropped_or_described(client: TestClient) -> None:
    dropped = refused(client, "DROP CONNECTOR nope;", 404)
    assert dropped["error_code"] == 40400
    assert dropped["message"] == "Failed to drop connector: Connector NOPE not found"
    described = refused(client, "DESCRIBE CONNECTOR nope;", 404)
    assert described["message"].startswith("Failed to query connector status: ")


def test_plugins_are_listed(client: TestClient) -> None:
    (entity,) = ksql(client, "SHOW CONNECTOR PLUGINS;")
    assert entity["@type"] == "connector_plugins_list"
    assert {"className", "type", "version"} == set(entity["connectorsPlugins"][0])
    assert {"source", "sink"} == {each["type"] for each in entity["connectorsPlugins"]}


def test_values_of_a_configuration_are_not_repeated(client: TestClient, tmp_path: Path) -> None:
    secret = ", 'header.converter.password'='hunter22'"
    (made,) = ksql(client, create("reader", tmp_path / "lines.txt", more=secret))
    assert "FileStreamSource" in made["statementText"]
    assert "'[string]'" in made["statementText"]
    assert "hunter22" not in str(made)
    wrong = create("c", tmp_path / "lines.txt", more=f"{secret}, 'tasks.max'='0'")
    assert "hunter22" not in str(refused(client, wrong))


@pytest.mark.long
def test_a_stream_reads_what_the_servers_own_connector_writes(tmp_path: Path) -> None:
    (tmp_path / "lines.txt").write_text("one\ntwo\n")
    with server_in(tmp_path) as context:
        client = client_of(context)
        ksql(client, create("reader", tmp_path / "lines.txt"))
        wait_until(lambda: "lines" in context.log.topics())
        ksql(client, "CREATE STREAM lines (line VARCHAR) WITH (kafka_topic='lines', value_format='JSON', "
                     "wrap_single_value=false);")  # fmt: skip
        wait_until(lambda: len(rows(client, "SELECT line FROM lines;")) == 2)
        assert rows(client, "SELECT line FROM lines;") == [["one"], ["two"]]
        (described,) = ksql(client, "DESCRIBE CONNECTOR reader;")
        assert described["topics"] == ["lines"]
        assert [source["name"] for source in described["sources"]] == ["LINES"]
    (tmp_path / "lines.txt").write_text("one\ntwo\nthree\n")
    with server_in(tmp_path) as context:  # goes on where it stopped, without a statement
        client = client_of(context)
        wait_until(lambda: len(rows(client, "SELECT line FROM lines;")) == 3)
        assert ksql(client, "SHOW TOPICS;")[0]["topics"] == [{"name": "lines", "replicaInfo": [1]}]


def test_a_worker_that_does_not_answer_is_named(tmp_path: Path) -> None:
    with server_in(tmp_path, ksql_connect_url="http://127.0.0.1:1") as context:
        error = refused(client_of(context), "SHOW CONNECTORS;", 500)
        assert error["error_code"] == 50000
        assert error["message"].startswith("Failed to list connectors: no worker answers at http://127.0.0.1:1: ")


def test_credentials_are_checked_when_the_server_starts(tmp_path: Path) -> None:
    given = {"ksql_connect_url": "http://127.0.0.1:1", "ksql_connect_basic_auth_credentials_source": "FILE"}
    with pytest.raises(ConfigError, match=r"credentials\.file: a file with"):
        settings_in(tmp_path, **given)
    (tmp_path / "credentials").write_text("username=ada\n")
    file = {"ksql_connect_basic_auth_credentials_file": str(tmp_path / "credentials")}
    with pytest.raises(ConfigError, match="password="):
        open_server(settings_in(tmp_path, **given, **file))


@pytest.mark.long
def test_the_shell_shows_answers_about_connectors() -> None:
    status = {
        "name": "C",
        "type": "source",
        "connector": {"state": "RUNNING", "worker_id": "a:1"},
        "tasks": [{"id": 0, "state": "FAILED", "worker_id": "a:1", "trace": "broken"}],
    }
    shown = answer_lines(
        {"@type": "connector_description", "connectorClass": "X", "status": status, "sources": [], "topics": ["t"]}
    )
    assert "State                : RUNNING" in shown
    assert "0       | FAILED | broken" in shown
    assert shown[-1] == "t"
    assert answer_lines({"@type": "drop_connector", "connectorName": "C"}) == ['Dropped connector "C"']
    assert answer_lines({"@type": "connector_info", "info": {"name": "C"}}) == ["Created connector C"]
    assert answer_lines({"@type": "warning_entity", "message": "there"}) == ["there"]
