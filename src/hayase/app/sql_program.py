"""A script of ksqlDB's SQL, run as a program: its persistent queries are the topologies of one shared runtime."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from types import TracebackType

from hayase.app.named_topology import NamedTopology
from hayase.app.report import ProgressReport
from hayase.app.reset import reset_application
from hayase.app.runtime_settings import is_of_topologies, own_config, topology_config
from hayase.app.sql_records import (
    FOLDER,
    NumberedJson,
    QueryRecord,
    cannot_go_on,
    check_unchanged_or_replaceable,
    remember,
    remember_start,
    settle_start,
)
from hayase.app.sql_settings import logged_query_settings, registry_of
from hayase.app.states import State
from hayase.app.streams_runtime import StreamsRuntime
from hayase.core.errors import CheckpointError, ConfigError, HayaseError
from hayase.log.config import log_config
from hayase.log.open import open_log
from hayase.log.protocol import Log
from hayase.sql.ast import statements as ast
from hayase.sql.ast.statement_text import statement_text
from hayase.sql.catalog.inferred import InferredColumns
from hayase.sql.engine import PersistentQuery, SqlEngine
from hayase.sql.errors import StatementError
from hayase.sql.functions.registry import FunctionRegistry
from hayase.sql.grammar.parser import ParsedStatement, parse_script
from hayase.sql.grammar.script_files import script_text
from hayase.sql.grammar.variables import Variables
from hayase.sql.registry.staged import StagedSchemaRegistry
from hayase.sql.settings import OF_STREAMS, check_configuration
from hayase.sql.statements.processing_log import processing_log_stream, processing_log_topic
from hayase.sql.statements.results import QueryKind
from hayase.storage.blobs import BlobStore
from hayase.storage.open import open_blobs

ALLOWED = (
    ast.CreateSource, ast.CreateAsSelect, ast.InsertInto, ast.CreateType, ast.CreateFunction, ast.SetProperty,
    ast.UnsetProperty, ast.DefineVariable, ast.UndefineVariable,
)  # fmt: skip
"""What a script that runs as a program may hold: what can be executed again at every start (headless mode)."""
_SQL_PREFIX = "ksql."
_REGISTRY_URL = "ksql.schema.registry.url"
_UNNAMEABLE = re.compile(r"[^A-Za-z0-9_.]")
_OF_STATEMENTS = ("PLAN_CHANGED", "STORE_SCHEMA_CHANGED")
"""Conditions of checkpoints that do not fit a changed statement."""


@dataclass
class _Topics:
    """The topics of the log, with those that statements create: made only when the whole script is right."""

    log: Log
    created: dict[str, tuple[int, int]] = field(default_factory=dict)

    def names(self) -> Collection[str]:
        """See `TopicAdmin.names`."""
        return {*self.log.topics(), *self.created}

    def partitions(self, topic: str) -> int | None:
        """See `TopicAdmin.partitions`."""
        if topic in self.created:
            return self.created[topic][0]
        info = self.log.describe([topic]).get(topic)
        return None if info is None else info.partitions

    def replicas(self, topic: str) -> int:
        """See `TopicAdmin.replicas`."""
        return self.created.get(topic, (1, 1))[1]

    def create(self, topic: str, partitions: int, replicas: int) -> None:
        """See `TopicAdmin.create`."""
        if self.partitions(topic) is None:
            self.created[topic] = partitions, replicas

    def delete(self, topic: str) -> None:
        """See `TopicAdmin.delete`."""
        self.created.pop(topic, None)

    def make_all(self) -> None:
        """Make what statements have created."""
        for topic, (partitions, _) in self.created.items():
            if not self.log.describe([topic]):
                self.log.create_topic(topic, partitions)
        self.created.clear()


class SqlProgram:
    """Runs a script (ksqlDB's headless mode): `start`, `run_to_end`, `close`, as a StreamsRuntime.

    Persistent queries keep their state by what they write, not by a number: a query that is added before others
    changes nothing for them. A query whose statement is gone is stopped; its state stays. One whose statement has
    changed goes on with its state where ksqlDB's rules of CREATE OR REPLACE allow that.

    Args:
        script: the statements: CREATE, CREATE … AS SELECT, INSERT INTO … SELECT, CREATE TYPE, CREATE FUNCTION, SET,
            UNSET, DEFINE, UNDEFINE.
        settings: of Hayase (`application.id`, `bootstrap.servers`, …) and of ksqlDB (`ksql.…`).
        variables: for `${name}`.
        functions: all functions; by default those of ksqlDB.

    Attributes:
        queries: by the name of their topology in the runtime.
        warnings: settings, of the start or of SET, that have no effect.

    Raises:
        ParseFailedError, StatementError: a statement is wrong, or the state of its query does not fit it any more
            (`CANNOT_REPLACE`); nothing has been created or started.
        ConfigError: a setting is wrong.
    """

    def __init__(
        self,
        script: str,
        settings: Mapping[str, object],
        *,
        variables: Variables | None = None,
        functions: FunctionRegistry | None = None,
    ) -> None:
        of_sql = {key: value for key, value in settings.items() if key.startswith(_SQL_PREFIX)}
        of_queries = {key: value for key, value in settings.items() if is_of_topologies(key)}
        of_runtime = {key: value for key, value in settings.items() if key not in of_sql and key not in of_queries}
        self._of_queries, self._of_runtime = of_queries, of_runtime
        self.warnings = check_configuration({**of_sql, **of_queries})
        statements = parse_script(script, variables)
        for parsed in statements:
            _check_allowed(parsed)
        self.runtime = StreamsRuntime(of_runtime, recall=False)
        self._log = open_log(log_config(self.runtime.config))
        try:
            self._topics = _Topics(self._log)
            url = of_sql.get(_REGISTRY_URL) or self.runtime.config.schema_registry.get("url")
            self._registry = StagedSchemaRegistry(registry_of(None if url is None else str(url), self.runtime.config))
            own = own_config(of_runtime)
            self._schemas = NumberedJson(open_blobs(own.checkpoint_dir, fsync=own.checkpoint_fsync), FOLDER)
            inferred = InferredColumns(self._schemas.get())
            self.engine = SqlEngine(
                _engine_settings(of_sql, of_queries), functions, self._registry, self._topics, inferred
            )
            self.queries: dict[str, PersistentQuery] = {}
            self._statements: dict[str, ParsedStatement] = {}
            self._settings: dict[str, dict[str, object]] = {}
            log_stream = processing_log_stream(self.engine.settings)
            for parsed in (*([] if log_stream is None else parse_script(log_stream)), *statements):
                self._execute(parsed)
            self._check_changes()
        except BaseException:
            self._log.close()
            raise

    def start(self) -> None:
        """Make the topics and schemas that are not there, and start all queries; they go on until `close`.

        Raises:
            HayaseError: as `StreamsRuntime.start`.
        """
        self._prepare()
        try:
            self.runtime.start()
        except BaseException:
            self._remember(failed=True)
            raise
        self._remember(failed=False)

    def run_to_end(self, timeout: timedelta | None = None) -> dict[str, ProgressReport]:
        """Process what is in the topics now, then stop. A query that reads what another one writes comes after it.

        Raises:
            HayaseError: as `StreamsRuntime.run_to_end`.
        """
        self._prepare()
        failed = True
        try:
            reports = self.runtime.run_to_end(timeout, after=self._after())
            failed = False
            return reports
        except HayaseError as error:
            named = self._of_statement(error)
            if named is error:
                raise
            raise named from error
        finally:
            self._remember(failed=failed)

    def reset(self) -> None:
        """Forget state and positions of all queries, before they start: as `hayase app reset` for each of them.

        Raises:
            LeaseHeldError: a query is running.
        """
        for name in self.queries:
            config = topology_config(self._of_runtime, name, self._settings[name], None)
            reset_application(config, self._log)

    def close(self) -> None:
        """Stop all queries between epochs."""
        self.runtime.close()
        self._log.close()

    def query(self, name: str) -> NamedTopology:
        """The topology of a query, by the name that it has in `queries`."""
        return self.runtime.topology(name)

    def statement(self, name: str) -> ParsedStatement:
        """The statement that made a query, by the name that it has in `queries`."""
        return self._statements[name]

    def __enter__(self) -> SqlProgram:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _execute(self, parsed: ParsedStatement) -> None:
        result = self.engine.execute(parsed)
        self.warnings += result.warnings
        for query_id in result.stopped:
            for name in [name for name, query in self.queries.items() if query.id == query_id]:
                del self.queries[name], self._settings[name], self._statements[name]
        for query in result.started:
            name = _name_of(query)
            known = self.queries.get(name)
            if known is not None and known.id != query.id:
                raise StatementError(
                    "QUERY_ID_NEEDED",
                    f"two statements insert into {query.sink}: give each of them a name of its own, which its state is "
                    "kept under: INSERT INTO … WITH (QUERY_ID='…') SELECT …",
                    location=parsed.location,
                    statement=parsed.text,
                )
            self.queries[name] = query
            self._statements[name] = parsed
            self._settings[name] = logged_query_settings(self.engine.settings, self._of_queries, self._topics)

    def _check_changes(self) -> None:
        """Compare the queries with those of the last run; raises StatementError `CANNOT_REPLACE`."""
        for name in self.queries:
            try:
                blobs, application_id = self._checkpoint(name)
                check_unchanged_or_replaceable(blobs, self._record(name), name, application_id)
            except StatementError as error:
                parsed = self._statements[name]
                raise StatementError(
                    error.condition, error.message, location=parsed.location, statement=parsed.text
                ) from error

    def _remember(self, *, failed: bool) -> None:
        """Keep the definitions of the queries that run; where something failed, of those that have begun an epoch."""
        for name, app in self.runtime.topologies.items():
            blobs = self._checkpoint(name)[0]
            if failed or app.error is not None or app.state is State.CREATED:
                settle_start(blobs)
            else:
                remember(blobs, self._record(name))

    def _record(self, name: str) -> QueryRecord:
        text = statement_text(self._statements[name].statement)
        return QueryRecord.of(self.queries[name], text, self.engine.catalog)

    def _checkpoint(self, name: str) -> tuple[BlobStore, str]:
        """The checkpoint of a query, and the `application.id` of its topology."""
        config = topology_config(self._of_runtime, name, self._settings[name], None)
        return open_blobs(config.checkpoint_dir, fsync=config.checkpoint_fsync), config.application_id

    def _of_statement(self, error: HayaseError) -> HayaseError:
        """An error of the runtime with the statement whose topology it is about; what it refused is one of that."""
        for name, app in self.runtime.topologies.items():
            if app.error is not error:
                continue
            parsed = self._statements[name]
            error.context = {"query": name, "line": parsed.location.line, **error.context}
            if isinstance(error, CheckpointError) and error.condition in _OF_STATEMENTS:
                found = cannot_go_on(
                    name, app.config.application_id, error.message.partition(". ")[0], "its topology has changed"
                )
                return StatementError(found.condition, found.message, location=parsed.location, statement=parsed.text)
        return error

    def _prepare(self) -> None:
        self._registry.settle()
        self._schemas.put(self.engine.inferred.to_json())
        self._topics.make_all()
        for name, query in self.queries.items():
            self.runtime.add_topology(name, query.topology, self._settings[name])
            remember_start(self._checkpoint(name)[0], self._record(name))

    def _after(self) -> dict[str, set[str]]:
        """Which queries each query comes after: those that write what it reads, the processing log included."""
        writers: dict[str, set[str]] = {}
        log = processing_log_topic(self.engine.settings)
        writers[log] = {name for name, query in self.queries.items() if log not in query.source_topics}
        for name, query in self.queries.items():
            if query.sink_topic is not None:
                writers.setdefault(query.sink_topic, set()).add(name)
        return {
            name: {writer for topic in query.source_topics for writer in writers.get(topic, set())} - {name}
            for name, query in self.queries.items()
        }


def _check_allowed(parsed: ParsedStatement) -> None:
    if not isinstance(parsed.statement, ALLOWED):
        raise StatementError(
            "NOT_IN_PROGRAM",
            f"{parsed.text.split(maxsplit=1)[0].upper()} … cannot be part of a script that runs as a program, because "
            "the script is executed again at every start. It may hold CREATE, CREATE … AS SELECT, INSERT INTO … "
            "SELECT, CREATE TYPE, CREATE FUNCTION, SET, UNSET, DEFINE and UNDEFINE",
            location=parsed.location,
            statement=parsed.text,
        )


def _name_of(query: PersistentQuery) -> str:
    """What a query's state is kept under: its kind and what it writes, or the id that it was given."""
    if query.kind is QueryKind.INSERT:
        generated = query.id.startswith("INSERTQUERY_")
        name = f"INSERT_{query.sink}" if generated else query.id
    else:
        name = query.id.rpartition("_")[0]
    return _UNNAMEABLE.sub(lambda found: f".{ord(found.group()):x}.", name)


def _engine_settings(of_sql: Mapping[str, object], of_queries: Mapping[str, object]) -> dict[str, object]:
    from_queries = {key: value for key, value in of_queries.items() if key in OF_STREAMS}
    if "statestore.cache.max.bytes" in from_queries:
        from_queries["cache.max.bytes.buffering"] = from_queries.pop("statestore.cache.max.bytes")
    return {**{key: value for key, value in of_sql.items() if key != _REGISTRY_URL}, **from_queries}


def check_script_file(path: Path) -> str:
    """The text of a script; raises ConfigError `SCRIPT_NOT_FOUND` or `SCRIPT_NOT_UTF8`."""
    try:
        return script_text(path)
    except OSError as error:
        raise ConfigError("SCRIPT_NOT_FOUND", f"{path} cannot be read as a script: {error}") from error
