"""A worker in miniature: it publishes what a task polls together with its offsets, or crashes before or after."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any

from hayase.connect.contracts import SerializedJson, SourcePartitionKey, source_partition_key
from hayase.connect.exceptions import RetriableError
from hayase.connect.model import SerializedRecords, SourceRecord
from hayase.connect.postgres.task import PostgresSourceTask
from hayase.testing.postgres_server import PostgresServer


class _Offsets:
    def __init__(self, stored: Mapping[SourcePartitionKey, Any]) -> None:
        self._stored = dict(stored)

    def offset(self, partition: Mapping[str, object]) -> Any:
        return self._stored.get(source_partition_key(partition))

    def offsets(self) -> Mapping[SourcePartitionKey, Any]:
        return dict(self._stored)


class _Context:
    connector = "capture"
    task = 0
    transaction_context = None
    serialized_json: SerializedJson | None = None

    def __init__(self, configs: Mapping[str, str], stored: Mapping[SourcePartitionKey, Any]) -> None:
        self.configs = configs
        self.offset_storage_reader = _Offsets(stored)
        self.metrics: dict[str, float] = {}
        self.waiting: list[tuple[Mapping[str, object], Mapping[str, object]]] = []
        self.refused: list[Exception] = []

    def report(self, record: SourceRecord, error: Exception) -> None:
        if self.configs.get("errors.tolerance") != "all":
            raise error
        self.refused.append(error)

    def publish_offsets(self, partition: Mapping[str, object], offset: Mapping[str, object]) -> None:
        self.waiting.append((partition, offset))


class Capture:
    """Drives a task; `records` and `offsets` are what the log would have, `crashes` counts those of `step`."""

    def __init__(
        self, server: PostgresServer, database: str = "postgres", *, serialized: bool = False, **config: str
    ) -> None:
        self.serialized = serialized
        self.config = {
            **server.connector_config(database),
            "topic.prefix": "shop",
            "slot.name": f"slot_{database}",
            "poll.interval.ms": "20",
            **{name.replace("_", "."): value for name, value in config.items()},
        }
        self.records: list[SourceRecord] = []
        self.offsets: dict[SourcePartitionKey, Any] = {}
        self.crashes = 0
        self.task: PostgresSourceTask | None = None
        self.context: _Context | None = None

    def step(self, *, crash: str = "") -> None:
        """Poll once and publish; crash `before` the records are durable, or `after`, when they are not confirmed."""
        task, context = self._running()
        try:
            polled = task.poll() or []
        except RetriableError:
            time.sleep(0.05)
            return
        if crash != "before":
            for record in polled:
                self.records += [record] if isinstance(record, SourceRecord) else decoded(record)
                if record.source_offset is not None:
                    self.offsets[source_partition_key(record.source_partition)] = record.source_offset
            for partition, offset in context.waiting:
                self.offsets[source_partition_key(partition)] = offset
            context.waiting.clear()
        if crash:
            self.crashes += 1
            self.crash()
        else:
            task.commit()

    def until(self, count: int, timeout_s: float = 30.0) -> list[SourceRecord]:
        """Go on until so many records were published; all of them."""
        deadline = time.monotonic() + timeout_s
        while len(self.records) < count and time.monotonic() < deadline:
            self.step()
        assert len(self.records) >= count, self.records
        return self.records

    def until_snapshot_is_done(self) -> None:
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            self.step()
            main = self.offsets.get((("server", self.config["topic.prefix"]),), {})
            if main and not main.get("snapshot"):
                return
        raise AssertionError("the snapshot does not end")

    def crash(self) -> None:
        """The process ends: its connections break, nothing is confirmed."""
        if self.task is not None:
            self.task.stop()
        self.task = self.context = None

    def _running(self) -> tuple[PostgresSourceTask, _Context]:
        if self.task is None or self.context is None:
            self.context = _Context(self.config, self.offsets)
            self.context.serialized_json = SerializedJson(False, False) if self.serialized else None
            self.task = PostgresSourceTask()
            self.task.initialize(self.context)
            self.task.start(self.config)
        return self.task, self.context


def decoded(batch: SerializedRecords) -> list[SourceRecord]:
    """The records of a batch that the task has written itself."""
    return [
        SourceRecord(
            source_partition=batch.source_partition, source_offset={}, topic=batch.topic,
            key=None if key is None else json.loads(key), value=None if value is None else json.loads(value),
        )
        for key, value in zip(batch.keys, batch.values, strict=True)
    ]  # fmt: skip


def values(records: list[SourceRecord]) -> list[dict[str, Any]]:
    """The values of the records that have one."""
    return [record.value for record in records if isinstance(record.value, dict)]
