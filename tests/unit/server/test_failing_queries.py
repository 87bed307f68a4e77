"""A query that fails: its errors are shown, it is tried again with a back-off, and it hurts no other."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.server.command_servers import client_of, ksql, rows, server_in, wait_until

from hayase.log.protocol import OutputBatch
from hayase.server.hosts.failures import Failures

STATEMENTS = """
CREATE STREAM s (k STRING KEY, v INT) WITH (kafka_topic='s', value_format='JSON', partitions=1);
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
