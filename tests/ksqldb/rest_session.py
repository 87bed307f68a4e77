"""ksqlDB's server as far as a case needs it: engine, log, persistent queries and answers, in this process."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Mapping
from typing import Any

from tests.ksqldb.driver import SETTINGS
from tests.ksqldb.functions import registry_with_test_functions

from hayase.core.records import TopicPartition
from hayase.log.embedded.log import EmbeddedLog
from hayase.log.protocol import LogConfig, OutputBatch
from hayase.server.limits import PullLimits
from hayase.server.local_run.query import LocalQuery
from hayase.server.local_run.store import LocalStore
from hayase.server.local_run.tails import LogTails
from hayase.server.pull.stores import PinnedStore
from hayase.server.push.running import PushQueries
from hayase.server.queries import start_query
from hayase.server.rows import RowStream
from hayase.sql.engine import PersistentQuery, SqlEngine
from hayase.sql.grammar.parser import ParsedStatement
from hayase.sql.registry.embedded import EmbeddedSchemaRegistry
from hayase.testing.topics import RawRecord

_RUN = {"statestore.cache.max.bytes": 0, "deserialization.exception.handler": "log_and_continue"}
_TIMEOUT_S = 20.0
PUSH_QUERIES_MAX = 100


class LogTopics:
    """The topics of a log, for the engine (`TopicAdmin`)."""

    def __init__(self, log: EmbeddedLog) -> None:
        self._log = log

    def names(self) -> Collection[str]:
        return self._log.topics()

    def partitions(self, topic: str) -> int | None:
        info = self._log.describe([topic]).get(topic)
        return None if info is None else info.partitions

    def replicas(self, topic: str) -> int:
        return 1

    def create(self, topic: str, partitions: int, replicas: int) -> None:
        if self.partitions(topic) is None:
            self._log.create_topic(topic, partitions)

    def delete(self, topic: str) -> None:
        self._log.delete_topic(topic)


class RestSession:
    """Runs the statements of one case (`QueryServices`, `QueryStores`)."""

    def __init__(self, folder: str, properties: Mapping[str, Any]) -> None:
        self.log = EmbeddedLog(LogConfig("embedded", folder, {"fsync": "false", "cleaner.interval.ms": "0"}))
        self.tails = LogTails(self.log, poll_every_s=0.002)
        self.registry = EmbeddedSchemaRegistry()
        self.topics = LogTopics(self.log)
        self.engine = SqlEngine(
            {**SETTINGS, "ksql.query.push.v2.enabled": "true", **properties},
            functions=registry_with_test_functions(),
            schema_registry=self.registry,
            topics=self.topics,  # type: ignore[arg-type]  # a TopicAdmin of its own
        )
        self.running = PushQueries(PUSH_QUERIES_MAX)
        self._writer = self.log.writer()
        self._queries: dict[str, LocalQuery] = {}

    @property
    def stores(self) -> RestSession:
        return self

    def statement_settings(self, overrides: Mapping[str, object]) -> Mapping[str, object]:
        return {**self.engine.settings, **overrides}

    def open_store(self, query_id: str, store: str) -> PinnedStore:
        return LocalStore(self._queries[query_id].run, store)

    def execute(self, parsed: ParsedStatement) -> None:
        result = self.engine.execute(parsed)
        for record in result.records:
            now_ms = int(time.time() * 1000)
            time_ms = now_ms if record.timestamp_ms is None else record.timestamp_ms
            self.produce([RawRecord(record.topic, record.key, record.value, time_ms)])
        for query_id in result.stopped:
            self._queries.pop(query_id).close()
        for query in result.started:
            self._start(query)

    def _start(self, query: PersistentQuery) -> None:
        self._queries[query.id] = LocalQuery(
            query.topology, _RUN, self.tails, self._writer.append, "earliest", name=query.id
        )

    def produce(self, records: Collection[RawRecord]) -> None:
        for record in records:
            batch = OutputBatch(
                record.topic, [record.key], [record.value], [record.timestamp_ms], headers=[record.headers]
            )
            self._writer.append([batch])

    async def settle(self) -> None:
        """Wait until all persistent queries have processed all that there is."""
        deadline = time.monotonic() + _TIMEOUT_S
        while not self._settled():
            if time.monotonic() > deadline:
                raise TimeoutError("the persistent queries do not come to an end")
            await asyncio.sleep(0.002)

    def _settled(self) -> bool:
        topics = {topic for query in self._queries.values() for topic in query.run.source_topics}
        if not topics:
            return True
        ends: dict[TopicPartition, int] = self.log.end_offsets(self.tails.partitions(sorted(topics)))
        for query in self._queries.values():
            if query.error is not None:
                raise query.error
            own = {place: end for place, end in ends.items() if place.topic in query.run.source_topics}
            if not query.has_processed(own):
                return False
        return self.log.end_offsets(list(ends)) == ends

    async def query(self, parsed: ParsedStatement) -> RowStream:
        return await start_query(parsed, self, self.running, PullLimits(), {})

    def close(self) -> None:
        for query in self._queries.values():
            query.close()
        self.tails.close()
        self._writer.close()
        self.log.close()
