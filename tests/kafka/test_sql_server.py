"""A SQL server over a real broker: commands, queries in its process, and what a restart has."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import pytest
from tests.unit.server.command_servers import client_of, execute, ksql, rows, wait_until

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
