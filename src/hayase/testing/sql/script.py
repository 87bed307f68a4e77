"""A script of SQL, executed statement by statement: each record goes through all queries before the next statement."""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Iterator, Mapping
from pathlib import Path

from hayase.core.errors import HayaseError
from hayase.sql.ast.location import Location
from hayase.sql.ast.statements import (
    AssertNullValues,
    AssertSource,
    AssertValues,
    CreateSource,
    DefineVariable,
    RunScript,
    UndefineVariable,
)
from hayase.sql.catalog.catalog import did_you_mean
from hayase.sql.engine import SqlEngine
from hayase.sql.errors import ParseFailedError, StatementError
from hayase.sql.functions.registry import FunctionRegistry
from hayase.sql.grammar.parser import ParsedStatement, iterate_script
from hayase.sql.grammar.script_files import script_text
from hayase.sql.grammar.variables import Variables
from hayase.sql.registry.embedded import EmbeddedSchemaRegistry
from hayase.sql.settings import check_configuration, is_on
from hayase.sql.statements.processing_log import processing_log_stream, processing_log_topic
from hayase.sql.statements.results import PersistentQuery, ProducedRecord
from hayase.sql.statements.topics import MemoryTopics
from hayase.testing.driver import TopologyTestDriver
from hayase.testing.sql.asserts import check_null_values, check_source, check_values
from hayase.testing.topics import RawRecord

_DRIVER = {"statestore.cache.max.bytes": 0, "deserialization.exception.handler": "log_and_continue"}
_UNNAMEABLE = re.compile(r"[^A-Za-z0-9._-]")
_SCRIPTS_DEPTH_MAX = 20
_ROUNDS_MAX = 300
"""Records that go round a circle of queries, made of one record that was written."""


class SqlScript:
    """Runs statements of SQL without Spark and Kafka.

    INSERT INTO … VALUES writes a record, which all queries that read the topic process before the next statement.
    ASSERT VALUES takes the next record of a topic that no ASSERT has seen.

    Args:
        settings: of ksqlDB, by name.
        functions: all functions; by default those of ksqlDB.
        folder: where relative paths of RUN SCRIPT begin.

    Raises:
        ConfigError: a setting is unknown or refused, or its value not allowed.

    Attributes:
        location: where the last statement begins, or a syntax error is, in the text that `run` was given; not in a
            file of RUN SCRIPT. `None`: there was none.

    Example:
        >>> with SqlScript() as script:
        ...     script.run('''
        ...         CREATE STREAM orders (id INT KEY, cents INT) WITH (kafka_topic='orders', value_format='JSON');
        ...         CREATE STREAM large AS SELECT * FROM orders WHERE cents > 1000;
        ...         INSERT INTO orders VALUES (1, 500);
        ...         INSERT INTO orders VALUES (2, 5000);
        ...         ASSERT VALUES large (id, cents) VALUES (2, 5000);
        ...     ''')
    """

    def __init__(
        self,
        settings: Mapping[str, object] | None = None,
        functions: FunctionRegistry | None = None,
        folder: Path | None = None,
    ) -> None:
        check_configuration(settings or {})
        self.registry = EmbeddedSchemaRegistry()
        self._topics = MemoryTopics()
        self.engine = SqlEngine(settings, functions, self.registry, self._topics)
        self._folder = folder or Path()
        self._variables = Variables()
        self._drivers: dict[str, tuple[PersistentQuery, TopologyTestDriver]] = {}
        self._log: dict[str, list[RawRecord]] = {}
        self._read: dict[str, int] = {}
        self._depth = 0
        self.location: Location | None = None
        stream = processing_log_stream(self.engine.settings)
        if stream is not None:
            self.run(stream)
            self.location = None

    def __enter__(self) -> SqlScript:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop all queries."""
        for _, driver in self._drivers.values():
            driver.close()
        self._drivers.clear()

    def run(self, text: str) -> None:
        """Execute the statements of a text, one by one as they are parsed.

        Raises:
            SqlError: a statement is wrong.
            SqlAssertionError: an ASSERT does not hold.

        Errors of a file of RUN SCRIPT have its path as `script` in their context.
        """
        for parsed in self._parsed(text):
            self._come_to(parsed.location)
            self.execute(parsed)

    def _parsed(self, text: str) -> Iterator[ParsedStatement]:
        try:
            yield from iterate_script(text, self._variables, test_statements=True)
        except ParseFailedError as error:
            self._come_to(error.location)
            raise

    def _come_to(self, location: Location | None) -> None:
        if self._depth == 0:
            self.location = location

    def execute(self, parsed: ParsedStatement) -> None:
        """Execute one statement; raises as `run`."""
        match parsed.statement:
            case AssertValues() as statement:
                check_values(statement, self.engine, self.registry, self._next(statement.source))
            case AssertNullValues() as statement:
                check_null_values(statement, self.engine, self.registry, self._next(statement.source))
            case AssertSource() as statement:
                check_source(statement, self.engine)
            case RunScript(path):
                self._run_file(path)
            case DefineVariable() | UndefineVariable():
                pass  # the parser has done it
            case _:
                self._change(parsed)

    def _run_file(self, path: str) -> None:
        if self._depth >= _SCRIPTS_DEPTH_MAX:
            raise StatementError("TOO_DEEP", f"RUN SCRIPT {path!r}: scripts run each other over {self._depth} levels")
        file = self._folder / path
        try:
            text = script_text(file)
        except (OSError, ValueError) as error:  # ValueError: not UTF-8, or a zero character in the path
            raise StatementError("SCRIPT_NOT_READABLE", f"RUN SCRIPT {path!r}: cannot read {file}: {error}") from error
        self._depth += 1
        try:
            self.run(text)
        except HayaseError as error:  # its line and column are those of the file
            error.context = {"script": file, **error.context}
            raise
        finally:
            self._depth -= 1

    def _change(self, parsed: ParsedStatement) -> None:
        if isinstance(parsed.statement, CreateSource):
            self._make_topic(parsed.statement)
        result = self.engine.execute(parsed)
        for query_id in result.stopped:
            if query_id in self._drivers:
                self._drivers.pop(query_id)[1].close()
        for query in result.started:
            self._start(query)
        for record in result.records:
            self.write(_raw(record))

    def _make_topic(self, statement: CreateSource) -> None:
        """The topic of a source is there, with one partition unless the statement says otherwise."""
        properties = {name.upper(): getattr(value, "value", None) for name, value in statement.properties}
        topic, partitions, replicas = (properties.get(name) for name in ("KAFKA_TOPIC", "PARTITIONS", "REPLICAS"))
        if isinstance(topic, str) and topic not in self._topics.known:
            self._topics.create(
                topic, partitions if isinstance(partitions, int) else 1, replicas if isinstance(replicas, int) else 1
            )

    def _start(self, query: PersistentQuery) -> None:
        running = self._drivers.get(query.id)
        if running is None:
            settings = {
                **_DRIVER,
                "application.id": _UNNAMEABLE.sub("-", query.id),
                "processing.log.topic.name": processing_log_topic(self.engine.settings),
                "processing.log.rows.include": is_on(self.engine.settings, "ksql.logging.processing.rows.include"),
            }
            results = () if query.sink_topic is None else (query.sink_topic,)
            driver = TopologyTestDriver(query.topology, settings, piped_results=results)
            self._drivers[query.id] = query, driver
        else:
            running[1].replace_topology(query.topology)
            self._drivers[query.id] = query, running[1]

    def write(self, record: RawRecord) -> None:
        """Append a record to its topic, and have all queries process it and what comes of it.

        Raises:
            StatementError: `QUERIES_WITHOUT_END`: queries that feed each other do not come to an end.
        """
        waiting = deque([(record, 0)])
        rounds = 0
        while waiting:
            record, depth = waiting.popleft()
            if depth > len(self._drivers):  # it has come round a circle of queries
                rounds += 1
                if rounds > _ROUNDS_MAX:
                    raise _without_end(record.topic)
            self._log.setdefault(record.topic, []).append(record)
            for query, driver in list(self._drivers.values()):
                if record.topic in query.source_topics:
                    driver.pipe(record.topic, record.key, record.value, record.timestamp_ms, record.headers)
                    for topic in filter(None, (query.sink_topic, processing_log_topic(self.engine.settings))):
                        written = driver.output_queue(topic)
                        waiting += [(each, depth + 1) for each in written]
                        written.clear()

    def records(self, topic: str) -> list[RawRecord]:
        """All records of a topic, in order."""
        return self._log.get(topic, [])

    def _next(self, source_name: str) -> RawRecord | None:
        """The next record of a source's topic that was not asserted; `None` if there is none."""
        source = self.engine.catalog.find(source_name)
        if source is None:
            hint = did_you_mean(self.engine.catalog, source_name)
            raise StatementError("UNKNOWN_SOURCE", f"{source_name} does not exist.{hint}")
        position = self._read.get(source.topic, 0)
        records = self._log.get(source.topic, [])
        if position >= len(records):
            return None
        self._read[source.topic] = position + 1
        return records[position]


def _without_end(topic: str) -> StatementError:
    return StatementError(
        "QUERIES_WITHOUT_END",
        f"One record has made {_ROUNDS_MAX} others that went round a circle of queries, the last one in topic {topic}: "
        "a query reads what comes of its own results. Give it a WHERE that ends it",
    )


def _raw(record: ProducedRecord) -> RawRecord:
    now_ms = int(time.time() * 1000)
    time_ms = now_ms if record.timestamp_ms is None else record.timestamp_ms
    return RawRecord(record.topic, record.key, record.value, time_ms)
