"""A SQL server over a real broker: commands, queries in its process, and what a restart has."""

from __future__ import annotations

import time
import uuid
from pathlib import Path
from typing import Any

import pytest
from tests.unit.server.command_servers import client_of, execute, ksql, refused, rows, wait_until

from hayase.server.context import ServerContext
from hayase.server.server import open_server
from hayase.server.settings import ServerSettings

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(600)]


def server(folder: Path, servers: str, service_id: str) -> ServerContext:
    return open_server(
        ServerSettings.of(
            {
                "bootstrap.servers": servers,
                "state.dir": str(folder),
                "ksql.service.id": service_id,
                "hayase.server.in.process": "true",
                "auto.offset.reset": "earliest",
            }
        )
    )


def test_a_restart_over_a_broker_has_catalog_and_state(tmp_path: Path, broker: Any) -> None:
    name = f"t{uuid.uuid4().hex[:8]}"
    text = f"""
        CREATE STREAM s (k STRING KEY, v INT) WITH (kafka_topic='{name}', value_format='JSON', partitions=2);
        CREATE TABLE t WITH (kafka_topic='{name}-t') AS SELECT k, COUNT(*) AS n FROM s GROUP BY k;
    """
    context = server(tmp_path, broker.bootstrap_servers, name)
    try:
        client = client_of(context)
        ksql(client, text)
        ksql(client, "INSERT INTO s VALUES ('a', 1); INSERT INTO s VALUES ('a', 2);")
        wait_until(lambda: rows(client, "SELECT * FROM t;") == [["a", 2]], 60)
    finally:
        context.close()
    context = server(tmp_path, broker.bootstrap_servers, name)
    try:
        client = client_of(context)
        assert context.status == "RUNNING"
        ksql(client, "INSERT INTO s VALUES ('a', 3);")
        wait_until(lambda: rows(client, "SELECT * FROM t;") == [["a", 3]], 60)
        execute(context, "TERMINATE CTAS_T_0; DROP TABLE t DELETE TOPIC; DROP STREAM s DELETE TOPIC;")
        wait_until(lambda: f"{name}-t" not in context.topics.names(), 60)
    finally:
        context.close()


def test_an_insert_into_a_topic_that_was_deleted_names_the_topic(tmp_path: Path, broker: Any) -> None:
    name = f"t{uuid.uuid4().hex[:8]}"
    context = server(tmp_path, broker.bootstrap_servers, name)
    try:
        client = client_of(context)
        ksql(
            client,
            f"CREATE STREAM s (k STRING KEY, v INT) WITH (kafka_topic='{name}', value_format='JSON', partitions=2);"
            "INSERT INTO s VALUES ('a', 1);",
        )
        context.log.delete_topic(name)
        wait_until(lambda: name not in context.topics.names(), 60)
        time.sleep(1)  # the server does not look for a topic at each row
        for number in (2, 3):
            error = refused(client, f"INSERT INTO s VALUES ('a', {number});")
            assert (error["error_code"], f"Topic '{name}' does not exist" in error["message"]) == (40001, True), error
    finally:
        context.close()
