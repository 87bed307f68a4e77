"""A query that fails: its errors are shown, it is tried again with a back-off, and it hurts no other."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient
from tests.unit.server.command_servers import client_of, ksql, rows, server_in, wait_until

from hayase.core.records import TopicPartition
from hayase.log.protocol import OutputBatch
from hayase.server.hosts.failures import Failures
from hayase.server.hosts.protocol import QueryState

STREAM = "CREATE STREAM s (k STRING KEY, v INT) WITH (kafka_topic='s', value_format='JSON', partitions=1);"
STATEMENTS = f"""
{STREAM}
CREATE TABLE healthy AS SELECT k, COUNT(*) AS n FROM s GROUP BY k;
SET 'ksql.fail.on.deserialization.error'='true';
CREATE STREAM broken AS SELECT k, v FROM s;
"""


@pytest.mark.long
def test_its_errors_are_shown_it_is_tried_again_and_other_queries_go_on(tmp_path: Path) -> None:
    with server_in(tmp_path, ksql_query_retry_backoff_initial_ms=50, ksql_query_retry_backoff_max_ms=200) as context:
        client = client_of(context)
        ksql(client, STATEMENTS)
        writer = context.log.writer()
        writer.append([OutputBatch("s", [b"a"], [b"no JSON"], [0])])
        writer.close()
        ksql(client, "INSERT INTO s VALUES ('a', 1);")
        wait_until(lambda: rows(client, "SELECT n FROM healthy;") == [[1]])

        def errors() -> list[dict[str, object]]:
            (explained,) = ksql(client, "EXPLAIN CSAS_BROKEN_1;")
            found: list[dict[str, object]] = explained["queryDescription"]["queryErrors"]
            return found

        wait_until(lambda: len(errors()) >= 3)
        assert errors()[0]["type"] == "USER"
        states = {each["id"]: each["state"] for each in ksql(client, "SHOW QUERIES;")[0]["queries"]}
        assert states == {"CTAS_HEALTHY_0": "RUNNING", "CSAS_BROKEN_1": "ERROR"}
        assert 'hayase_sql_query_state{query="CSAS_BROKEN_1",state="ERROR"} 1.0' in client.get("/metrics").text


def test_the_time_until_the_next_attempt_doubles_up_to_its_limit_and_begins_anew_after_a_long_run() -> None:
    now_ms = [0]
    failures = Failures(lambda: now_ms[0], 100, 350)
    waits = []
    for _ in range(4):
        failures.tried()
        failures.add(ValueError("x"))
        assert failures.retry_at_ms is not None
        waits.append(failures.retry_at_ms - now_ms[0])
        now_ms[0] = failures.retry_at_ms
        assert failures.is_due()
    failures.tried()
    now_ms[0] += 351
    failures.add(ValueError("x"))
    assert failures.retry_at_ms is not None
    assert [*waits, failures.retry_at_ms - now_ms[0]] == [100, 200, 350, 350, 100]


@pytest.mark.parametrize("at_once", [True, False])
def test_a_query_whose_topic_is_deleted_fails_and_reads_the_topic_of_that_name_that_is_made_again(
    tmp_path: Path, at_once: bool
) -> None:
    with server_in(tmp_path, ksql_query_retry_backoff_initial_ms=1, ksql_query_retry_backoff_max_ms=50) as context:
        client = client_of(context)
        ksql(client, STREAM + "CREATE TABLE t AS SELECT k, COUNT(*) AS n FROM s GROUP BY k;")
        ksql(client, "INSERT INTO s VALUES ('a', 1);" * 5)
        wait_until(lambda: rows(client, "SELECT * FROM t;") == [["a", 5]])
        time.sleep(1.5)  # until its positions are kept
        written = context.log.end_offsets([TopicPartition("T", 0)])[TopicPartition("T", 0)]
        context.log.delete_topic("s")
        if not at_once:
            wait_until(lambda: context.host.status("CTAS_T_0").state is QueryState.ERROR)
            (failure, *_) = context.host.status("CTAS_T_0").errors
            assert "topic 's' was deleted" in failure.message
        context.log.create_topic("s", 1)
        ksql(client, "INSERT INTO s VALUES ('b', 1);")
        wait_until(lambda: ["b", 1] in rows_or_none(client, "SELECT * FROM t;"))
        ends = partial(context.log.end_offsets, [TopicPartition("T", 0)])
        wait_until(lambda: ends()[TopicPartition("T", 0)] == written + 1)


def rows_or_none(client: TestClient, select: str) -> list[list[Any]]:
    return rows(client, select) if client.post("/query", json={"ksql": select}).status_code == 200 else []
