"""The SQL server with its queries on Spark: they run, answer, change, and go on after a restart."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from starlette.testclient import TestClient
from tests.spark.place import Place
from tests.unit.server.command_servers import client_of, ksql, refused, rows, wait_until

from hayase.server.context import ServerContext
from hayase.server.hosts.protocol import QueryState
from hayase.server.server import open_server
from hayase.server.settings import ServerSettings

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]
STATEMENTS = """
CREATE STREAM s (k STRING KEY, v INT) WITH (kafka_topic='s', value_format='JSON', partitions=2);
CREATE TABLE t AS SELECT k, COUNT(*) AS n FROM s GROUP BY k;
INSERT INTO s VALUES ('a', 1);
SET 'auto.offset.reset' = 'latest';
CREATE TABLE late AS SELECT k, COUNT(*) AS n FROM s GROUP BY k;
INSERT INTO s VALUES ('a', 2);
"""


@contextmanager
def server(place: Place, **others: object) -> Iterator[tuple[ServerContext, TestClient]]:
    settings = {key: value for key, value in place.settings().items() if key not in ("application.id", "log.dir")}
    where = {"log.dir": place.config.location, "auto.offset.reset": "earliest"}
    context = open_server(ServerSettings.of({**settings, **where, "commit.interval.ms": 200, **others}))
    try:
        yield context, client_of(context)
    finally:
        context.close()


def answers(client: TestClient, select: str, expected: list[list[object]]) -> None:
    """Wait until a pull query has these rows; before the query runs it is refused as not ready."""

    def is_there() -> bool:
        response = client.post("/query", json={"ksql": select})
        if response.status_code == 503:
            assert response.json()["error_code"] == 50302
            return False
        return rows(client, select) == expected

    wait_until(is_there, 240)


def test_queries_run_answer_change_and_go_on_after_a_restart(place: Place) -> None:
    with server(place) as (context, client):
        assert client.get("/info").json()["KsqlServerInfo"]["serverStatus"] == "RUNNING"
        ksql(client, STATEMENTS)
        answers(client, "SELECT * FROM t;", [["a", 2]])
        answers(client, "SELECT * FROM late;", [["a", 1]])  # what came behind its statement, before Spark was there
        assert "hayase-epoch" in client.post("/query", json={"ksql": "SELECT * FROM t WHERE k = 'a';"}).headers
        assert context.host.status("CTAS_T_0").state is QueryState.RUNNING

        ksql(client, "CREATE STREAM u AS SELECT * FROM s WHERE v > 1;")
        answers(client, "SELECT * FROM u;", [["a", 2]])
        ksql(client, "CREATE OR REPLACE STREAM u AS SELECT * FROM s WHERE v > 5;")
        ksql(client, "INSERT INTO s VALUES ('a', 3); INSERT INTO s VALUES ('a', 7);")
        answers(client, "SELECT * FROM u;", [["a", 2], ["a", 7]])
        ksql(client, "TERMINATE CSAS_U_2; DROP STREAM u DELETE TOPIC; PAUSE CTAS_T_0;")
        assert refused(client, "EXPLAIN CSAS_U_2;")["error_code"] == 40001
        assert "U" not in context.topics.names()

    with server(place) as (context, client):
        wait_until(lambda: context.host.status("CTAS_T_0").state is QueryState.PAUSED, 240)
        ksql(client, "RESUME CTAS_T_0; INSERT INTO s VALUES ('b', 1);")
        wait_until(lambda: sorted(pulled(client)) == [["a", 4], ["b", 1]], 240)


def pulled(client: TestClient) -> list[list[object]]:
    response = client.post("/query", json={"ksql": "SELECT * FROM t;"})
    return [] if response.status_code == 503 else rows(client, "SELECT * FROM t;")


HANGING = """
CREATE STREAM s (k STRING KEY, v INT) WITH (kafka_topic='s', value_format='JSON', partitions=2);
CREATE FUNCTION spin (v INT) RETURNS INT LANGUAGE PYTHON AS 'import time; time.sleep(600); return v';
SET 'ksql.streams.max.poll.interval.ms' = '6000';
CREATE STREAM spun AS SELECT k, spin(v) AS v FROM s;
UNSET 'ksql.streams.max.poll.interval.ms';
CREATE TABLE t AS SELECT k, COUNT(*) AS n FROM s GROUP BY k;
INSERT INTO s VALUES ('a', 1);
"""


@pytest.mark.slow
def test_a_function_that_hangs_fails_its_query_at_the_limit_that_set_gave_and_no_other(place: Place) -> None:
    with server(place, **{"ksql.udfs.python.enabled": "true"}) as (context, client):
        ksql(client, HANGING)
        wait_until(lambda: context.host.status("CSAS_SPUN_0").state is QueryState.ERROR, 240)
        [failure, *_] = context.host.status("CSAS_SPUN_0").errors
        assert "no progress for 6000 ms" in failure.message and "SPIN" in failure.message
        answers(client, "SELECT * FROM t;", [["a", 1]])
        assert context.host.status("CTAS_T_1").state is QueryState.RUNNING
