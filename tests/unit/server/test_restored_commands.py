"""Commands of a backup in a place that has gone on since."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.server.command_servers import client_of, ksql, rows, server_in, settings_in, wait_until

from hayase.core.time import SystemClock
from hayase.log.embedded.writer import EmbeddedWriter
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


def test_a_restore_that_is_interrupted_leaves_a_degraded_server_and_can_be_done_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*arguments: object, **options: object) -> None:
        raise KeyboardInterrupt

    backups = tmp_path / "backup"
    with server_in(tmp_path, ksql_metastore_backup_location=backups) as context:
        ksql(client_of(context), "".join(f"CREATE TYPE t{number} AS INT;" for number in range(3)))
        lines = (backups / f"{context.settings.command_topic}.jsonl").read_bytes().splitlines()
    with monkeypatch.context() as patch:
        patch.setattr(EmbeddedWriter, "publish_epoch", interrupted)
        with pytest.raises(KeyboardInterrupt):
            restore(tmp_path, lines)
    with server_in(tmp_path) as context:
        assert context.status == "DEGRADED"
    restore(tmp_path, lines)
    with server_in(tmp_path) as context:
        assert context.status == "RUNNING"
        assert list(context.engine.catalog.types) == ["T0", "T1", "T2"]
        ksql(client_of(context), "CREATE TYPE t3 AS INT;")
    with server_in(tmp_path) as context:
        assert list(context.engine.catalog.types) == ["T0", "T1", "T2", "T3"]
