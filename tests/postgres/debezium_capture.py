"""Captures of one database by Debezium's own connector and by ours, and their records as they compare."""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import httpx2
from confluent_kafka import Consumer, KafkaException, TopicPartition
from tests.postgres.capture import Capture
from tests.postgres.debezium_workload import LAST_TABLE, PREFIX, Workload

from hayase.connect.converters.json_converter import JsonConverter
from hayase.testing.kafka_broker import KafkaBroker
from hayase.testing.postgres_server import PostgresServer

_WAIT_S = 120.0
_OF_THE_MOMENT = ("version", "ts_ms", "ts_us", "ts_ns")
_OF_THE_SERVER = ("lsn", "txId", "sequence", "db")
"""Fields of `source` that another run of the same workload has other values for."""


@dataclass(frozen=True, slots=True)
class CapturedRecord:
    """A record as JSON with schemas, as the JSON converter writes it."""

    key: Any
    value: Any
    headers: dict[str, Any]


Records = dict[str, list[CapturedRecord]]
"""The records of each topic, in order."""


def run_statements(server: PostgresServer, database: str, statements: list[str]) -> None:
    """Run statements one by one, each a transaction."""
    with server.connect(database) as connection:
        for statement in statements:
            connection.execute(statement.encode())


class OurCapture:
    """Our connector's task on a database.

    Args:
        server: has the database.
        database: its name.
        config: keys of the workload.
    """

    def __init__(self, server: PostgresServer, database: str, config: Mapping[str, str]) -> None:
        names = {key.replace(".", "_"): value for key, value in config.items()}
        self.capture = Capture(server, database, slot_name=f"ours_{database}", topic_prefix=PREFIX, **names)
        self._converters = JsonConverter(), JsonConverter()
        for converter, is_key in zip(self._converters, (True, False), strict=True):
            converter.configure({}, is_key)

    def until_marks(self, count: int) -> None:
        """Go on until so many rows of the last table were captured."""
        deadline = time.monotonic() + _WAIT_S
        while sum(record.topic == f"{PREFIX}.public.{LAST_TABLE}" for record in self.capture.records) < count:
            assert time.monotonic() < deadline, "the last change does not come"
            self.capture.step()

    def end(self) -> Records:
        """End it; all records."""
        self.capture.crash()
        found: Records = {}
        keys, values = self._converters
        for record in self.capture.records:
            key = keys.from_connect_data(record.topic, (), record.key_schema, record.key)
            value = values.from_connect_data(record.topic, (), record.value_schema, record.value)
            headers = {
                header.key: _parsed(values.from_connect_data(record.topic, (), header.schema, header.value))
                for header in record.headers
            }
            found.setdefault(record.topic, []).append(CapturedRecord(_parsed(key), _parsed(value), headers))
        return found


class DebeziumCapture:
    """Debezium's connector in a running worker of Kafka Connect.

    Args:
        url: of the worker.
        broker: its Kafka.
        server: has the database.
        database: its name, and that of the connector.
        config: keys of the workload.
    """

    def __init__(
        self, url: str, broker: KafkaBroker, server: PostgresServer, database: str, config: Mapping[str, str]
    ) -> None:
        self._consumer = Consumer({
            "bootstrap.servers": broker.bootstrap_servers, "group.id": "none", "enable.auto.commit": False,
        })  # fmt: skip
        self._name = database
        self._marks = 0
        self._prefix = f"{PREFIX}-{database}"
        self._client = httpx2.Client(base_url=url, timeout=60)
        json_converter = "org.apache.kafka.connect.json.JsonConverter"
        self._config = {
            "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
            "header.converter": json_converter,
            "topic.creation.default.partitions": "1",
            "topic.creation.default.replication.factor": "1",
            **server.connector_config(database),
            "topic.prefix": self._prefix,
            "slot.name": f"debezium_{database}",
            "plugin.name": "pgoutput",
            "poll.interval.ms": "50",
            "extended.headers.enabled": "false",  # they name the connector's run
            **config,
        }

    def start(self) -> None:
        """Make the connector."""
        answer = self._client.put(f"/connectors/{self._name}/config", json=self._config)
        assert answer.status_code in (200, 201), answer.text

    def wait_for_stream(self, server: PostgresServer) -> None:
        """Wait until the snapshot is over and the slot is read."""
        deadline = time.monotonic() + _WAIT_S
        with server.connect(self._name) as connection:
            while True:
                found = connection.execute(
                    "SELECT active FROM pg_replication_slots WHERE slot_name = %s", (self._config["slot.name"],)
                ).fetchone()
                if found == (True,):
                    return
                status = self._client.get(f"/connectors/{self._name}/status").json()
                failed = any(task["state"] == "FAILED" for task in status.get("tasks", ()))
                assert not failed and time.monotonic() < deadline, status
                time.sleep(0.1)

    def until_marks(self, count: int) -> None:
        """Wait until so many rows of the last table were captured."""
        deadline = time.monotonic() + _WAIT_S
        while self._marks < count:
            assert time.monotonic() < deadline, self._client.get(f"/connectors/{self._name}/status").text
            topic = f"{self._prefix}.public.{LAST_TABLE}"
            if not self._consumer.assignment():
                if topic in self._consumer.list_topics().topics:
                    self._consumer.assign([TopicPartition(topic, 0, 0)])
                time.sleep(0.05)
            elif (message := self._consumer.poll(0.1)) is not None:
                assert message.error() is None, message.error()
                self._marks += 1

    def end(self) -> Records:
        """End it; all records."""
        self._end()
        try:
            topics = [name for name in self._consumer.list_topics().topics if name.startswith(f"{self._prefix}.")]
            return {name.replace(self._prefix, PREFIX, 1): self._records(TopicPartition(name, 0)) for name in topics}
        finally:
            self._consumer.close()
            self._client.close()

    def _end(self) -> None:
        """Stop it, so that everything is in its topics, and remove it."""
        assert self._client.put(f"/connectors/{self._name}/stop").status_code == 204
        deadline = time.monotonic() + _WAIT_S
        while self._client.get(f"/connectors/{self._name}/status").json()["tasks"]:
            assert time.monotonic() < deadline, "the connector does not stop"
            time.sleep(0.1)
        self._client.delete(f"/connectors/{self._name}")

    def _records(self, where: TopicPartition) -> list[CapturedRecord]:
        consumer = self._consumer
        end = _end_offset(consumer, where)
        where.offset = 0
        consumer.assign([where])
        found: list[CapturedRecord] = []
        while consumer.position([where])[0].offset < end:
            message = consumer.poll(1.0)
            if message is None:
                continue
            assert message.error() is None, message.error()
            headers = {key: self._parsed(data) for key, data in message.headers() or ()}
            found.append(CapturedRecord(self._parsed(message.key()), self._parsed(message.value()), headers))
        return found

    def _parsed(self, data: bytes | None) -> Any:
        # The prefix of the real connector is its own, so that several share a Kafka.
        return _parsed(None if data is None else data.replace(self._prefix.encode(), PREFIX.encode()))


def _end_offset(consumer: Consumer, where: TopicPartition) -> int:
    deadline = time.monotonic() + _WAIT_S
    while True:
        try:
            return int(consumer.get_watermark_offsets(where)[1])
        except KafkaException:  # the topic is just being made
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def _parsed(data: bytes | None) -> Any:
    return None if data is None else json.loads(data)


Comparable = dict[str, list[Any]]
"""Key, value and headers of the records of each topic."""


def comparable(records: Records, *, same_run: bool) -> Comparable:
    """The records without versions, times, and what the moment of a snapshot decides.

    Args:
        records: of one capture.
        same_run: whether the other capture is of the same database at the same time, so that positions compare.
    """
    return {
        topic: [
            [record.key, _comparable_value(record.value, same_run=same_run), record.headers]
            for record in found
            # Debezium writes tombstones for tables without a key, too, which say nothing.
            if record.key is not None or record.value is not None
        ]
        for topic, found in records.items()
    }


def _comparable_value(value: Any, *, same_run: bool) -> Any:
    if value is None:
        return None
    payload = {name: each for name, each in value["payload"].items() if name not in _OF_THE_MOMENT}
    left_out = (*_OF_THE_MOMENT, *(() if same_run else _OF_THE_SERVER))
    if payload["op"] == "r":  # each capture reads its rows at a moment of its own, in an order of its own
        left_out = (*left_out, *_OF_THE_SERVER, "snapshot")
    payload["source"] = {name: each for name, each in payload["source"].items() if name not in left_out}
    return {"schema": value["schema"], "payload": payload}


def without_columns(records: Comparable, columns: Mapping[str, Collection[str]]) -> Comparable:
    """The records without some columns of their rows, and rows of snapshots in an order that both captures have.

    Args:
        records: of one capture.
        columns: which are left out, by topic.
    """
    return {
        topic: _ordered([_without(each, columns.get(topic, ())) for each in found]) for topic, found in records.items()
    }


def _without(record: list[Any], columns: Collection[str]) -> list[Any]:
    key, value, headers = record
    if value is None or not columns:
        return record
    fields = [
        {**each, "fields": [column for column in each["fields"] if column["field"] not in columns]}
        if each["field"] in ("before", "after")
        else each
        for each in value["schema"]["fields"]
    ]
    payload = {
        name: {column: cell for column, cell in each.items() if column not in columns}
        if name in ("before", "after") and each is not None
        else each
        for name, each in value["payload"].items()
    }
    return [key, {"schema": {**value["schema"], "fields": fields}, "payload": payload}, headers]


def _ordered(records: list[Any]) -> list[Any]:
    snapshot = [each for each in records if each[1] is not None and each[1]["payload"]["op"] == "r"]
    stream = [each for each in records if each not in snapshot]
    return [*sorted(snapshot, key=lambda each: json.dumps(each, sort_keys=True)), *stream]


class _Marked(Protocol):
    def until_marks(self, count: int) -> None: ...


def run_changes(server: PostgresServer, database: str, workload: Workload, captures: Sequence[_Marked]) -> None:
    """Run the statements of a workload while they are captured; returns when all were.

    The catalog is of now, and the stream of then: where a table changes, the captures look at it in the same state.
    """
    marks = 0
    for statement in [*workload.after, ""]:
        if statement.startswith("ALTER") or not statement:
            marks += 1
            run_statements(server, database, [f"INSERT INTO {LAST_TABLE} VALUES ({marks})"])
            for capture in captures:
                capture.until_marks(marks)
        if statement:
            run_statements(server, database, [statement])


def capture_both(
    url: str, broker: KafkaBroker, server: PostgresServer, database: str, workload: Workload
) -> tuple[Records, Records]:
    """Run a workload in an empty database under both captures: Debezium's records, and ours."""
    run_statements(server, database, workload.before)
    ours = OurCapture(server, database, workload.config)
    real = DebeziumCapture(url, broker, server, database, workload.config)
    real.start()
    ours.capture.until_snapshot_is_done()
    real.wait_for_stream(server)
    run_changes(server, database, workload, (ours, real))
    return real.end(), ours.end()


def capture_ours(server: PostgresServer, database: str, workload: Workload) -> Records:
    """Run a workload in an empty database under our capture; its records."""
    run_statements(server, database, workload.before)
    ours = OurCapture(server, database, workload.config)
    ours.capture.until_snapshot_is_done()
    run_changes(server, database, workload, [ours])
    return ours.end()
