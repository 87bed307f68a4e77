"""Commands: written, carried out once, replayed."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from tests.unit.server.command_servers import client_of, execute, ksql, rows, server_in, settings_in, wait_until

from hayase.connect.worker_lease import WorkerLease
from hayase.core.errors import LeaseHeldError, LogError
from hayase.core.records import TopicPartition
from hayase.core.time import SystemClock
from hayase.log.embedded.writer import EmbeddedWriter
from hayase.log.open import open_log
from hayase.log.protocol import Log, LogConfig, OutputBatch
from hayase.server.commands.executor import CommandExecutor
from hayase.server.commands.log import CommandLog
from hayase.server.commands.records import Command, Outcome
from hayase.server.errors import RequestError
from hayase.server.hosts.protocol import QueryState
from hayase.server.server import open_server
from hayase.sql.errors import StatementError

STREAM = "CREATE STREAM s (k STRING KEY, v INT) WITH (kafka_topic='s', value_format='JSON', partitions=2);"
TABLE = "CREATE TABLE t AS SELECT k, COUNT(*) AS n FROM s GROUP BY k;"


@pytest.mark.long
def test_a_restart_has_the_catalog_the_queries_and_their_state(tmp_path: Path) -> None:
    with server_in(tmp_path) as context:
        client = client_of(context)
        ksql(client, STREAM + TABLE + "INSERT INTO s VALUES ('a', 1); INSERT INTO s VALUES ('a', 2);")
        wait_until(lambda: rows(client, "SELECT * FROM t;") == [["a", 2]])
    with server_in(tmp_path) as context:
        client = client_of(context)
        assert list(context.engine.catalog.sources) == ["S", "T"]
        assert context.commands.last_sequence == 1
        wait_until(lambda: rows(client, "SELECT * FROM t;") == [["a", 2]])


@pytest.mark.long
def test_a_restart_writes_nothing_twice(tmp_path: Path) -> None:
    written = [TopicPartition("T", 0), TopicPartition("T", 1)]
    with server_in(tmp_path) as context:
        client = client_of(context)
        ksql(client, STREAM + TABLE + "INSERT INTO s VALUES ('a', 1); INSERT INTO s VALUES ('a', 2);")
        wait_until(lambda: sum(context.log.end_offsets(written).values()) == 2)
    with server_in(tmp_path) as context:
        client = client_of(context)
        ksql(client, "INSERT INTO s VALUES ('a', 3);")
        wait_until(lambda: rows(client, "SELECT * FROM t;") == [["a", 3]])
        wait_until(lambda: sum(context.log.end_offsets(written).values()) == 3)


def test_a_paused_query_is_paused_after_a_restart(tmp_path: Path) -> None:
    with server_in(tmp_path) as context:
        execute(context, STREAM + TABLE + "PAUSE CTAS_T_0;")
    with server_in(tmp_path) as context:
        assert context.host.status("CTAS_T_0").state is QueryState.PAUSED
        execute(context, "RESUME CTAS_T_0;")
        wait_until(lambda: context.host.status("CTAS_T_0").state is QueryState.RUNNING)


def test_a_paused_query_has_its_state_after_a_restart_and_processes_nothing_new(tmp_path: Path) -> None:
    written = [TopicPartition("T", 0), TopicPartition("T", 1)]
    with server_in(tmp_path) as context:
        execute(context, STREAM + TABLE)
        ksql(client_of(context), "INSERT INTO s VALUES ('a', 1); INSERT INTO s VALUES ('a', 2);")
        wait_until(lambda: rows(client_of(context), "SELECT * FROM t;") == [["a", 2]])
        execute(context, "PAUSE CTAS_T_0;")
        ksql(client_of(context), "INSERT INTO s VALUES ('a', 3);")
    with server_in(tmp_path) as context:
        client = client_of(context)
        wait_until(lambda: rows(client, "SELECT * FROM t;") == [["a", 2]])
        assert context.host.status("CTAS_T_0").state is QueryState.PAUSED
        ksql(client, "INSERT INTO s VALUES ('a', 4);")
        time.sleep(0.5)
        assert rows(client, "SELECT * FROM t;") == [["a", 2]]
        assert sum(context.log.end_offsets(written).values()) == 2
    with server_in(tmp_path) as context:
        execute(context, "RESUME CTAS_T_0;")
        wait_until(lambda: rows(client_of(context), "SELECT * FROM t;") == [["a", 4]])
        wait_until(lambda: sum(context.log.end_offsets(written).values()) == 4)


def test_numbers_of_commands_are_dense_and_go_on_after_a_restart(tmp_path: Path) -> None:
    with server_in(tmp_path) as context:
        assert [each.sequence for each in execute(context, STREAM + TABLE)] == [0, 1]
    with server_in(tmp_path) as context:
        assert [each.sequence for each in execute(context, "CREATE TYPE a AS INT;")] == [2]


def test_ids_of_queries_go_on_after_a_restart(tmp_path: Path) -> None:
    with server_in(tmp_path) as context:
        execute(context, STREAM + TABLE + "TERMINATE CTAS_T_0; DROP TABLE t;")
    with server_in(tmp_path) as context:
        assert execute(context, TABLE)[0].status.query_id == "CTAS_T_1"


def test_a_statement_that_breaks_a_rule_is_not_written(tmp_path: Path) -> None:
    with server_in(tmp_path) as context:
        with pytest.raises(StatementError, match="NOPE"):
            execute(context, "CREATE STREAM x AS SELECT * FROM nope;")
        assert context.commands.last_sequence == -1


def test_a_command_whose_effects_are_refused_changes_nothing_now_and_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with server_in(tmp_path) as context:

        def refuse(topic: str, partitions: int, replicas: int) -> None:
            raise LogError("BROKER_AWAY", "no topic today")

        with monkeypatch.context() as patched:
            patched.setattr(context.topics, "create", refuse)
            with pytest.raises(LogError, match="no topic today"):
                execute(context, STREAM)
        assert context.commands.statuses.all()["stream/`S`/create"].status == "ERROR"
        assert not context.engine.catalog.sources
    with server_in(tmp_path) as context:
        assert not context.engine.catalog.sources
        assert context.commands.statuses.all()["stream/`S`/create"].message == "no topic today"
        assert execute(context, STREAM)[0].sequence == 1


def test_columns_of_the_registry_are_part_of_the_command(tmp_path: Path) -> None:
    with server_in(tmp_path) as context:
        execute(context, "CREATE STREAM s (k STRING KEY, v INT) WITH (kafka_topic='s', format='AVRO', partitions=1);")
        execute(context, "CREATE STREAM again WITH (kafka_topic='s', format='AVRO');")
        before = context.engine.catalog.find("AGAIN")
    shutil.rmtree(tmp_path / "log" / "schemas")
    with server_in(tmp_path) as context:
        assert context.engine.catalog.find("AGAIN") == before
        assert context.commands.problem is None


def test_subjects_go_with_the_topic_that_a_drop_deletes_and_are_not_deleted_by_its_replay(tmp_path: Path) -> None:
    stream = "CREATE STREAM s (k INT KEY, v INT) WITH (kafka_topic='s', format='AVRO', partitions=1);"
    with server_in(tmp_path) as context:
        assert context.registry is not None
        execute(context, stream + "DROP STREAM s;")
        assert context.registry.subjects() == ["s-key", "s-value"]
        execute(context, stream + "DROP STREAM s DELETE TOPIC;" + stream)
        execute(context, "CREATE STREAM json WITH (kafka_topic='json', format='JSON') AS SELECT * FROM s;")
        execute(context, "DROP STREAM json DELETE TOPIC;")
        assert context.registry.subjects() == ["s-key", "s-value"]
        execute(context, "DROP STREAM s DELETE TOPIC;")
        assert context.registry.subjects() == []
        context.log.create_topic("s", 1)
        execute(context, stream)
    with server_in(tmp_path) as context:
        assert context.registry is not None
        assert context.registry.subjects() == ["s-key", "s-value"]


def test_a_topic_that_was_made_again_is_not_deleted_by_the_replay_of_a_drop(tmp_path: Path) -> None:
    with server_in(tmp_path) as context:
        execute(context, STREAM + "DROP STREAM s DELETE TOPIC;")
        assert "s" not in context.topics.names()
        context.log.create_topic("s", 1)
    with server_in(tmp_path) as context:
        assert "s" in context.topics.names()


@pytest.mark.long
@pytest.mark.parametrize("in_process", ["true", "false"])
def test_a_second_server_on_the_same_log_is_not_started_whatever_its_state_folder_is(
    tmp_path: Path, in_process: str
) -> None:
    first, second = (
        settings_in(tmp_path, state_dir=tmp_path / name, hayase_server_in_process=in_process)
        for name in ("here", "elsewhere")
    )
    context = open_server(first, start_queries=False)
    try:
        with pytest.raises(LeaseHeldError, match=r"runs the queries of this log \(pid \d+.*another ksql\.service\.id"):
            open_server(second, start_queries=False)
    finally:
        context.close()
    context = open_server(second, start_queries=False)
    try:
        assert context.status == "RUNNING"
    finally:
        context.close()


@pytest.mark.long
def test_a_server_whose_queries_another_one_has_taken_over_runs_them_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leases, enter = [], WorkerLease.__enter__

    def entered(lease: WorkerLease) -> WorkerLease:
        leases.append(lease)
        return enter(lease)

    monkeypatch.setattr(WorkerLease, "__enter__", entered)
    written = [TopicPartition("T", 0), TopicPartition("T", 1)]
    with server_in(tmp_path) as first:
        execute(first, STREAM + TABLE)
        # as if the first were silent for long
        monkeypatch.setattr(WorkerLease, "_last_beat_of_former_holder", lambda lease: lease._last()[0])
        with server_in(tmp_path, state_dir=tmp_path / "elsewhere") as second:
            assert not leases[0].renew()  # done every few seconds
            assert first.status == "DEGRADED"
            with pytest.raises(RequestError, match="taken over its queries"):
                execute(first, "CREATE TYPE b AS INT;")
            ksql(client_of(second), "INSERT INTO s VALUES ('a', 1);")
            wait_until(lambda: sum(second.log.end_offsets(written).values()) == 1)
            time.sleep(0.5)
            assert sum(second.log.end_offsets(written).values()) == 1


def test_a_server_that_is_taken_over_while_it_replays_its_commands_runs_no_queries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with server_in(tmp_path) as context:
        execute(context, STREAM + TABLE)
    replay = CommandExecutor.recover

    def taken_over_meanwhile(commands: CommandExecutor) -> None:
        replay(commands)
        leases[0].lost = LeaseHeldError("LEASE_LOST", "another one has it")
        leases[0]._on_lost()

    leases, enter = [], WorkerLease.__enter__
    monkeypatch.setattr(WorkerLease, "__enter__", lambda lease: (leases.append(lease), enter(lease))[1])
    monkeypatch.setattr(CommandExecutor, "recover", taken_over_meanwhile)
    with server_in(tmp_path) as context:
        assert context.status == "DEGRADED"
        assert context.host.status("CTAS_T_0").state is not QueryState.RUNNING


def test_two_servers_cannot_write_the_same_command_topic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where the second one takes the first for dead."""
    monkeypatch.setattr("hayase.server.server._take_lease_in_log", lambda *_: SimpleNamespace(lost=None))
    elsewhere = tmp_path / "elsewhere"
    with server_in(tmp_path) as first, server_in(tmp_path, state_dir=elsewhere) as second:
        execute(first, "CREATE TYPE a AS INT;")
        with pytest.raises(RequestError, match="another server writes") as caught:
            execute(second, "CREATE TYPE b AS INT;")
        assert caught.value.code == 50302
        assert second.status == "DEGRADED"
        assert execute(first, "CREATE TYPE c AS INT;")[0].sequence == 1


def test_a_server_that_finds_another_one_in_its_command_topic_ends_its_queries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hayase.server.server._take_lease_in_log", lambda *_: SimpleNamespace(lost=None))
    with server_in(tmp_path) as first:
        execute(first, STREAM + TABLE)
        with server_in(tmp_path, state_dir=tmp_path / "elsewhere") as second:
            execute(second, "CREATE TYPE a AS INT;")
            assert first.host.status("CTAS_T_0").state is QueryState.RUNNING
            with pytest.raises(RequestError, match="another server writes"):
                execute(first, "CREATE TYPE b AS INT;")
            wait_until(lambda: first.host.status("CTAS_T_0").state is not QueryState.RUNNING)
            assert second.host.status("CTAS_T_0").state is QueryState.RUNNING
            with pytest.raises(RequestError, match="another server writes"):
                execute(first, "CREATE TYPE c AS INT;")


@pytest.mark.long
def test_a_second_server_with_the_same_state_is_not_started(tmp_path: Path) -> None:
    with (
        server_in(tmp_path),
        pytest.raises(LeaseHeldError, match=r"running already \(pid \d+.*another ksql\.service\.id"),
    ):
        open_server(settings_in(tmp_path))
    with server_in(tmp_path) as context:
        assert context.status == "RUNNING"


def test_a_log_that_was_opened_early_is_closed_where_the_server_does_not_start(tmp_path: Path) -> None:
    closed = []

    class LogOfTests:
        def close(self) -> None:
            closed.append(self)

    log = LogOfTests()
    with server_in(tmp_path), pytest.raises(LeaseHeldError):
        open_server(settings_in(tmp_path), log=cast("Log", log))
    assert closed == [log]


@pytest.mark.parametrize("damage", ["foreign", "gone", "more"])
def test_a_damaged_command_topic_degrades_the_server(tmp_path: Path, damage: str) -> None:
    topic = settings_in(tmp_path).command_topic
    with server_in(tmp_path) as context:
        execute(context, "CREATE TYPE a AS INT; CREATE TYPE b AS INT;")
        if damage == "gone":
            context.log.delete_topic(topic)
        else:
            value = b"hello" if damage == "foreign" else b'{"record":"outcome","number":9,"sequence":1}'
            writer = context.log.writer()
            writer.append([OutputBatch(topic, [None], [value], [0])])
            writer.close()
    with server_in(tmp_path) as context:
        client = client_of(context)
        assert client.get("/info").json()["KsqlServerInfo"]["serverStatus"] == "DEGRADED"
        response = client.post("/ksql", json={"ksql": "CREATE TYPE c AS INT;"})
        assert response.status_code == 503
        assert response.json()["error_code"] == 50302
        assert response.headers["retry-after"] == "10"
        assert ksql(client, "SHOW STREAMS;")[0]["streams"] == []


def test_a_server_whose_log_is_away_does_not_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(log: CommandLog) -> list[Command | Outcome]:
        raise LogError("BROKER_AWAY", "no broker today")

    with monkeypatch.context() as patched:
        patched.setattr(CommandLog, "open", away)
        with pytest.raises(LogError, match="no broker today"):
            open_server(settings_in(tmp_path))
    with server_in(tmp_path) as context:
        assert context.status == "RUNNING"


def test_a_backup_brings_the_commands_back(tmp_path: Path) -> None:
    backups = tmp_path / "backup"
    settings = settings_in(tmp_path)
    with server_in(tmp_path, ksql_metastore_backup_location=backups) as context:
        execute(context, STREAM + "CREATE TYPE a AS INT;")
        context.log.delete_topic(settings.command_topic)
    log = open_log(LogConfig("embedded", str(tmp_path / "log")))
    commands = CommandLog(log, settings.command_topic, SystemClock().now_ms)
    assert commands.replace((backups / f"{settings.command_topic}.jsonl").read_bytes().splitlines()) == 4
    commands.close()
    log.close()
    with server_in(tmp_path) as context:
        assert context.status == "RUNNING"
        assert list(context.engine.catalog.sources) == ["S"]
        assert list(context.engine.catalog.types) == ["A"]


def test_a_backup_that_is_none_replaces_nothing(tmp_path: Path) -> None:
    settings = settings_in(tmp_path)
    with server_in(tmp_path) as context:
        execute(context, "CREATE TYPE a AS INT;")
        commands = CommandLog(context.log, settings.command_topic, SystemClock().now_ms)
        with pytest.raises(LogError, match="is no command"):
            commands.replace([b"hello"])
        assert len(commands.open()) == 2


def test_a_command_holds_no_secret(tmp_path: Path) -> None:
    with server_in(tmp_path) as context:
        execute(context, STREAM)
        commands = CommandLog(context.log, context.settings.command_topic, SystemClock().now_ms)
        command, outcome = commands.open()
        assert isinstance(command, Command)
        assert isinstance(outcome, Outcome)
        assert not [name for name in command.settings if "password" in name or "jaas" in name]


def test_variables_are_replaced_in_the_command(tmp_path: Path) -> None:
    with server_in(tmp_path) as context:
        client = client_of(context)
        text = "CREATE TYPE ${name} AS INT;"
        response = client.post("/ksql", json={"ksql": text, "sessionVariables": {"name": "money"}})
        assert response.status_code == 200, response.text
    with server_in(tmp_path) as context:
        assert list(context.engine.catalog.types) == ["MONEY"]


def test_create_or_replace_goes_on_with_the_state(tmp_path: Path) -> None:
    with server_in(tmp_path) as context:
        client = client_of(context)
        ksql(client, STREAM + "CREATE STREAM c AS SELECT k, v FROM s;INSERT INTO s VALUES ('a', 1);")
        wait_until(lambda: rows(client, "SELECT * FROM c;") == [["a", 1]])
        ksql(client, "CREATE OR REPLACE STREAM c AS SELECT k, v FROM s WHERE v > 5;")
        ksql(client, "INSERT INTO s VALUES ('a', 2); INSERT INTO s VALUES ('a', 7);")
        wait_until(lambda: rows(client, "SELECT * FROM c;") == [["a", 1], ["a", 7]])
        assert list(context.engine.queries) == ["CSAS_C_0"]


def test_terminate_ends_a_query_and_keeps_its_sink(tmp_path: Path) -> None:
    with server_in(tmp_path) as context:
        execute(context, STREAM + TABLE + "TERMINATE ctas_t_0;")
        assert not context.engine.queries
        assert "T" in context.engine.catalog.sources
        assert "T" in context.topics.names()


def test_terminate_of_an_unknown_query_is_refused(tmp_path: Path) -> None:
    with server_in(tmp_path) as context, pytest.raises(StatementError, match="Unknown queryId: NOPE"):
        execute(context, "TERMINATE NOPE;")


def test_a_command_that_a_full_disk_has_kept_out_can_be_given_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*arguments: object, **options: object) -> None:
        raise LogError("DISK_FULL", "there is no space left")

    with server_in(tmp_path) as context:
        execute(context, STREAM)
        with monkeypatch.context() as patch:
            patch.setattr(EmbeddedWriter, "publish_epoch", full)
            with pytest.raises(RequestError, match="no space left"):
                execute(context, TABLE)
        assert context.status == "RUNNING"
        assert not context.engine.queries
        execute(context, TABLE)
    with server_in(tmp_path) as context:
        assert list(context.engine.catalog.sources) == ["S", "T"]
        assert context.status == "RUNNING"


def test_read_only_topics_are_not_written(tmp_path: Path) -> None:
    with server_in(tmp_path) as context, pytest.raises(StatementError, match="read-only"):
        execute(context, "CREATE STREAM s (v INT) WITH (kafka_topic='_hayase-x', value_format='JSON', partitions=1);")


FUNCTION = "CREATE FUNCTION twice(x INT) RETURNS INT LANGUAGE PYTHON AS 'x * 2';"


def test_functions_in_python_need_the_switch_of_the_server_and_are_replayed(tmp_path: Path) -> None:
    with server_in(tmp_path) as context, pytest.raises(StatementError, match="that is off"):
        execute(context, FUNCTION)
    with server_in(tmp_path) as context:
        response = client_of(context).post(
            "/ksql", json={"ksql": FUNCTION, "streamsProperties": {"ksql.udfs.python.enabled": "true"}}
        )
        assert response.status_code == 400
    with server_in(tmp_path, ksql_udfs_python_enabled="true") as context:
        assert execute(context, FUNCTION)[0].id == "function/TWICE/create"
    with server_in(tmp_path, ksql_udfs_python_enabled="true") as context:
        assert context.engine.functions.kind("TWICE") is not None
    with server_in(tmp_path) as context:
        assert context.engine.functions.kind("TWICE") is None
        assert context.commands.problem is None


def test_the_processing_log_is_a_stream_where_the_settings_want_one(tmp_path: Path) -> None:
    more = {
        "ksql_logging_processing_stream_auto_create": "true",
        "ksql_logging_processing_topic_auto_create": "true",
    }
    for _ in range(2):
        with server_in(tmp_path, **more) as context:
            assert "KSQL_PROCESSING_LOG" in context.engine.catalog.sources
            assert context.commands.last_sequence == 0


def test_a_record_that_cannot_be_read_is_in_the_processing_log(tmp_path: Path) -> None:
    with server_in(tmp_path, ksql_logging_processing_topic_auto_create="true") as context:
        execute(context, STREAM + "CREATE STREAM c AS SELECT k, v FROM s;")
        writer = context.log.writer()
        writer.append([OutputBatch("s", [b"a"], [b"no JSON"], [0])])
        writer.close()
        topic = [TopicPartition("default_ksql_processing_log", 0)]
        wait_until(lambda: sum(context.log.end_offsets(topic).values()) == 1)
