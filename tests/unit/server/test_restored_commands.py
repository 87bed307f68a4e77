"""Commands of a backup in a place that has gone on since."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.server.command_servers import client_of, ksql, rows, server_in, settings_in, wait_until

from hayase.core.time import SystemClock
from hayase.log.open import open_log
from hayase.log.protocol import LogConfig
from hayase.server.commands.log import CommandLog

STREAM = "CREATE STREAM s (k STRING KEY, v INT) WITH (kafka_topic='s', value_format='JSON', partitions=1);"


def restore(folder: Path, lines: list[bytes]) -> None:
    log = open_log(LogConfig("embedded", str(folder / "log")))
    commands = CommandLog(log, settings_in(folder).command_topic, SystemClock().now_ms)
    commands.replace(lines)
    commands.close()
    log.close()


@pytest.mark.long
def test_a_new_query_does_not_go_on_where_one_of_its_id_was_before_the_commands_were_restored(tmp_path: Path) -> None:
    backups = tmp_path / "backup"
    with server_in(tmp_path, ksql_metastore_backup_location=backups) as context:
        client = client_of(context)
        ksql(client, STREAM + "INSERT INTO s VALUES ('a', 1); INSERT INTO s VALUES ('a', 2);")
        lines = (backups / f"{context.settings.command_topic}.jsonl").read_bytes().splitlines()
        ksql(client, "CREATE STREAM c WITH (kafka_topic='before') AS SELECT k, v FROM s;")
        wait_until(lambda: rows(client, "SELECT v FROM c;") == [[1], [2]])
    restore(tmp_path, lines)
    with server_in(tmp_path) as context:
        client = client_of(context)
        (answer,) = ksql(client, "CREATE STREAM c WITH (kafka_topic='after') AS SELECT k, v * 10 AS v FROM s;")
        assert answer["commandStatus"]["queryId"] == "CSAS_C_0"
        wait_until(lambda: rows(client, "SELECT v FROM c;") == [[10], [20]])
