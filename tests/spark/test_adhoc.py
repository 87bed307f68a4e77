"""Ad-hoc SQL over the stores of queries that run on Spark, also as they were."""

from __future__ import annotations

import pytest
from tests.spark.place import Place
from tests.spark.test_server import answers
from tests.unit.server.command_servers import client_of, ksql, rows

from hayase.server.server import open_server
from hayase.server.settings import ServerSettings

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]


def test_tables_are_read_as_of_an_epoch_of_before(place: Place) -> None:
    settings = {key: value for key, value in place.settings().items() if key not in ("application.id", "log.dir")}
    where = {"log.dir": place.config.location, "auto.offset.reset": "earliest", "commit.interval.ms": 200}
    history = {"state.history.retention.ms": 3_600_000}
    context = open_server(ServerSettings.of({**settings, **where, **history}))
    client = client_of(context)
    try:
        ksql(
            client,
            "CREATE STREAM s (k STRING KEY, v INT) WITH (kafka_topic='s', value_format='JSON', partitions=2);"
            "CREATE TABLE t AS SELECT k, COUNT(*) AS n FROM s GROUP BY k; INSERT INTO s VALUES ('a', 1);",
        )
        answers(client, "SELECT * FROM t;", [["a", 1]])
        epoch = client.post("/query", json={"ksql": "SELECT * FROM t WHERE k = 'a';"}).headers["hayase-epoch"]
        ksql(client, "INSERT INTO s VALUES ('a', 2); INSERT INTO s VALUES ('b', 3);")
        answers(client, "SELECT k, n FROM t ORDER BY k;", [["a", 2], ["b", 1]])
        assert rows(client, f"SELECT k, n FROM t ORDER BY k AS OF EPOCH {epoch};") == [["a", 1]]
        assert rows(client, "SELECT SUM(n) AS n FROM t;") == [[3]]
    finally:
        context.close()
