"""Carrying out commands: checked, written to the command topic, then done; replayed at a start."""

from __future__ import annotations

import hashlib
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata

from hayase.app.sql_settings import failure_topics
from hayase.core.errors import HayaseError, LogError
from hayase.core.failpoints import reach
from hayase.serde.registry import SchemaRegistry
from hayase.server.commands.changed_functions import Held, Uses, resumed, uses_that_count
from hayase.server.commands.log import CommandLog
from hayase.server.commands.records import Command, DoomedTopic, Outcome, TopicSeen, damaged
from hayase.server.commands.replayed import replayed
from hayase.server.commands.statuses import CommandStatus, CommandStatuses, command_id
from hayase.server.errors import NOT_READY, RequestError
from hayase.server.hosts.protocol import QueryHost
from hayase.server.topics import LogTopics, NotedTopics, check_topics_there
from hayase.sql.analysis.plan_text import plan_text
from hayase.sql.ast.statement_text import statement_text
from hayase.sql.ast.statements import CreateSource, QueryAction, QueryControl
from hayase.sql.catalog.inferred import InferredColumns
from hayase.sql.engine import PersistentQuery, PreparedStatement, SqlEngine
from hayase.sql.formats.inference import subjects_of
from hayase.sql.functions.function_digests import function_digest
from hayase.sql.functions.uses import FunctionUse
from hayase.sql.grammar.parser import ParsedStatement
from hayase.sql.settings import effective
from hayase.sql.statements.results import StatementResult

_LOG = logging.getLogger("hayase.server.commands")
_PLAIN = (str, int, float, bool, type(None))
_SECRETS = ("password", "secret", "credentials", "jaas")
SettingsOfQuery = Callable[[Mapping[str, object]], Mapping[str, object]]


@dataclass(frozen=True)
class CommandResult:
    """What a command did.

    Attributes:
        id: `type/entity/action`.
        sequence: its number.
        status: how it ended.
        result: of its statement.
    """

    id: str
    sequence: int
    status: CommandStatus
    result: StatementResult


class CommandExecutor:
    """Executes statements that change something, one after the other. Thread-safe.

    Args:
        engine: whose catalog they change.
        log: the command topic.
        topics: those of the log.
        host: that runs the queries.
        registry: of schemas, if there is one.
        settings_of_query: settings of Hayase for a query, of those that count for its statement.
        on_fenced: called with what is wrong if another server has written to the command topic; must not wait.
    """

    def __init__(
        self,
        engine: SqlEngine,
        log: CommandLog,
        topics: LogTopics,
        host: QueryHost,
        registry: SchemaRegistry | None,
        settings_of_query: SettingsOfQuery,
        on_fenced: Callable[[str], None] = lambda why: None,
    ) -> None:
        self.engine = engine
        self.statuses = CommandStatuses()
        self.lock = threading.RLock()
        self._log = log
        self._topics = topics
        self._host = host
        self._registry = registry
        self._settings_of_query = settings_of_query
        self._on_fenced = on_fenced
        self._next_sequence = 0
        self._paused: set[str] = set()
        self._held: dict[str, Held] = {}
        self._settings: dict[str, Mapping[str, object]] = {}
        self._problem: str | None = None
        self._changed = threading.Condition(self.lock)
        for own in engine.functions.own():
            function_digest(own)  # now, while the files are those that were imported

    @property
    def last_sequence(self) -> int:
        """The number of the last command; -1 if there was none."""
        return self._next_sequence - 1

    @property
    def problem(self) -> str | None:
        """Why commands are refused; `None`: they are not."""
        return self._problem

    def settings_of(self, query_id: str) -> Mapping[str, object]:
        """The settings that count for a running query, by ksqlDB's names."""
        return self._settings.get(query_id, {})

    def wait_for(self, sequence: int, timeout_s: float) -> bool:
        """Wait until a command was carried out; whether it was."""
        with self._changed:
            return self._changed.wait_for(lambda: self.last_sequence >= sequence, timeout_s)

    def recover(self) -> None:
        """Replay the command topic and give its queries to the host. A damaged topic is no error, but a `problem`.

        Raises:
            HayaseError: the log cannot be reached.
        """
        with self.lock:
            try:
                self._replay()
            except LogError as error:
                if error.condition != "COMMANDS_DAMAGED":
                    raise
                self._problem = error.message
                _LOG.error("the server is DEGRADED: %s", error.message)
            for query in self.engine.queries.values():
                self._run(query)

    def execute(self, parsed: ParsedStatement, overrides: Mapping[str, object]) -> CommandResult:
        """Execute a statement that changes something.

        Args:
            parsed: the statement.
            overrides: settings for it alone.

        Raises:
            StatementError: it breaks a rule, or its effects were refused; nothing has changed.
            RequestError: the server carries out no commands.
            LogError: the command topic could not be written.
        """
        with self._changed:
            self.check_ready()
            noted = NotedTopics(self._topics)
            prepared = self._prepared(parsed, overrides, noted)
            self._check_topics(prepared, overrides)
            command = self._command(prepared, noted, overrides)
            self._append(command)
            reach("after_command", epoch=command.sequence)
            try:
                self._carry_out(command, prepared)
            except Exception as error:
                self._finish(command, self._failure(command, error))
                raise
            outcome = self._outcome(command, prepared)
            self._adopt(command, prepared)
            self._finish(command, outcome)
            for query_id in command.functions:
                self._held.pop(query_id, None)
                self._run(self.engine.query(query_id))
            for query in prepared.result.started:
                if query.id not in command.functions:
                    self._run(query)
            return CommandResult(command.id, command.sequence, _status(outcome), prepared.result)

    def check_ready(self) -> None:
        """Refuse commands of a server that carries out none; raises RequestError."""
        if self._problem is not None:
            raise RequestError(NOT_READY, "DEGRADED", f"The server is DEGRADED and changes nothing: {self._problem}")

    def give_up(self, why: str) -> None:
        """Carry out no further commands."""
        self._problem = why

    def close(self) -> None:
        """Let go of the command topic."""
        with self.lock:
            self._log.close()

    def _prepared(
        self, parsed: ParsedStatement, overrides: Mapping[str, object], topics: NotedTopics
    ) -> PreparedStatement:
        statement = parsed.statement
        if not isinstance(statement, QueryControl):
            return self.engine.prepare(parsed, overrides, topics=topics, inferred=InferredColumns())
        wanted = self._wanted(statement)
        if statement.action is QueryAction.TERMINATE:
            return self.engine.prepare_stop(parsed, wanted)
        prepared = self.engine.prepare_stop(parsed, ())
        done = "paused" if statement.action is QueryAction.PAUSE else "resumed"
        return PreparedStatement(parsed, StatementResult(f"Query {done}."), prepared.execution, prepared.first_number)

    def _wanted(self, statement: QueryControl) -> Sequence[str]:
        if statement.query_id is None:
            return list(self.engine.queries)
        return [self.engine.query(statement.query_id).id]

    def _check_topics(self, prepared: PreparedStatement, overrides: Mapping[str, object]) -> None:
        execution, statement = prepared.execution, prepared.parsed.statement
        if isinstance(statement, CreateSource):
            self._topics.check_readable(execution.catalog.sources[statement.name].topic)
        written = [name for name, _, _ in execution.to_create] + execution.to_delete
        written += [query.sink_topic for query in prepared.result.started if query.sink_topic is not None]
        for topic in written:
            self._topics.check_writable(topic)
        check_topics_there(prepared.result.started, self._topics, {name for name, _, _ in execution.to_create})
        if prepared.result.started:
            for setting, topic in failure_topics(effective(self.engine.settings, overrides)).items():
                self._topics.check_writable(topic, setting)

    def _command(self, prepared: PreparedStatement, noted: NotedTopics, overrides: Mapping[str, object]) -> Command:
        parsed, execution = prepared.parsed, prepared.execution
        text = parsed.text if "${" not in parsed.text else f"{statement_text(parsed.statement)};"
        settings = effective(self.engine.settings, overrides)
        statement = parsed.statement
        return Command(
            number=self._log.next_number,
            sequence=self._next_sequence,
            id=command_id(statement),
            statement=text,
            settings={name: value for name, value in settings.items() if _is_kept(name, value)},  # type: ignore[misc]
            topics={name: TopicSeen(*seen) for name, seen in noted.noted.items()},
            columns=execution.frozen.to_json(),
            first_number=prepared.first_number,
            plans={query.id: _digest(query) for query in prepared.result.started},
            functions=self._functions(prepared),
            queries=list(self._wanted(statement)) if isinstance(statement, QueryControl) else [],
            deletes=[self._doomed(topic) for topic in execution.to_delete],
            hayase=metadata.version("hayase"),
        )

    def _functions(self, prepared: PreparedStatement) -> dict[str, list[FunctionUse]]:
        statement = prepared.parsed.statement
        if isinstance(statement, QueryControl):
            is_one = statement.action is QueryAction.RESUME and statement.query_id is not None
            return resumed(self._held, self._wanted(statement)) if is_one else {}
        uses = prepared.execution.calls.uses()
        return {query.id: uses for query in prepared.result.started} if uses else {}

    def _doomed(self, topic: str) -> DoomedTopic:
        subjects: set[str] = set()
        for source in self.engine.catalog:
            if source.topic == topic:
                subjects.update(subjects_of(topic, {"key": source.key_format, "value": source.value_format}))
        return DoomedTopic(topic, self._topics.topic_id(topic), sorted(subjects))

    def _carry_out(self, command: Command, prepared: PreparedStatement) -> None:
        """The effects of a command outside of the catalog; doing them again does nothing more."""
        execution = prepared.execution
        for register in execution.to_register:
            register()
        reach("after_command_schemas", epoch=command.sequence)
        for topic, partitions, replicas in execution.to_create:
            self._topics.create(topic, partitions, replicas)
        reach("after_command_topics", epoch=command.sequence)
        for query in prepared.result.started:
            if query.id not in self.engine.queries:
                self._host.forget(query.id)
        for query_id in prepared.result.stopped:
            try:
                self._host.stop(query_id)
            except HayaseError as error:  # it is gone from the catalog all the same
                _LOG.error("query %s could not be ended in good order: %s", query_id, error)
        reach("after_command_queries", epoch=command.sequence)
        for doomed in command.deletes:
            if doomed.topic_id is not None and self._topics.topic_id(doomed.name) == doomed.topic_id:
                self._delete_subjects(doomed)  # before the topic, whose id says that this is still to be done
                self._topics.delete(doomed.name)
        reach("after_command_deletes", epoch=command.sequence)

    def _delete_subjects(self, doomed: DoomedTopic) -> None:
        if self._registry is None:
            return
        for subject in doomed.subjects:
            try:
                self._registry.delete(subject)
            except HayaseError as error:  # it is not there; or the topic goes all the same
                if error.condition != "SCHEMA_NOT_FOUND":
                    _LOG.warning("subject %s of the deleted topic %s stays: %s", subject, doomed.name, error)

    def _adopt(self, command: Command, prepared: PreparedStatement) -> None:
        """Make a command count in this process."""
        self.engine.adopt(prepared)
        for query in prepared.result.started:
            self._settings[query.id] = command.settings
            self._held.pop(query.id, None)
        for query_id in prepared.result.stopped:
            self._held.pop(query_id, None)
            self._paused.discard(query_id)
            self._settings.pop(query_id, None)
        statement = prepared.parsed.statement
        if isinstance(statement, QueryControl) and statement.action is not QueryAction.TERMINATE:
            for query_id in command.queries:
                if statement.action is QueryAction.PAUSE:
                    self._paused.add(query_id)
                    self._host.pause(query_id)
                else:
                    self._paused.discard(query_id)
                    self._host.resume(query_id)

    def _run(self, query: PersistentQuery) -> None:
        settings = self._settings_of_query(self._settings.get(query.id, {}))
        held = self._held.get(query.id)
        problem = None if held is None else held.problem
        self._host.run(query, settings, paused=query.id in self._paused, problem=problem)

    def _append(self, record: Command | Outcome) -> None:
        try:
            self._log.append(record)
        except HayaseError as error:
            if isinstance(record, Command) and not self._log.may_have(record, error):
                raise RequestError(NOT_READY, error.condition, error.message) from error
            fenced = isinstance(error, LogError) and error.condition == "FENCED"
            hint = "" if fenced else ". Whether the command was written is not known: start the server again"
            self._problem = f"{error.message}{hint}"
            if fenced:
                self._on_fenced(self._problem)
            raise RequestError(NOT_READY, error.condition, self._problem) from error

    def _finish(self, command: Command, outcome: Outcome) -> None:
        self._next_sequence = command.sequence + 1
        self.statuses.put(command.id, _status(outcome))
        self._changed.notify_all()
        self._append(outcome)
        reach("after_command_outcome", epoch=command.sequence)

    def _failure(self, command: Command, error: Exception) -> Outcome:
        message = error.message if isinstance(error, HayaseError) else f"{type(error).__name__}: {error}"
        return Outcome(self._log.next_number, command.sequence, True, message)

    def _outcome(self, command: Command, prepared: PreparedStatement) -> Outcome:
        started = prepared.result.started
        query_id = started[0].id if started else None
        return Outcome(self._log.next_number, command.sequence, False, prepared.result.message, query_id)

    def _replay(self) -> None:
        records = self._log.open()
        outcomes = {record.sequence: record for record in records if isinstance(record, Outcome)}
        failed = {sequence for sequence, outcome in outcomes.items() if outcome.failed}
        uses = uses_that_count(record for record in records if record.sequence not in failed)
        for command in records:
            if isinstance(command, Command):
                try:
                    self._replay_command(command, outcomes.get(command.sequence), uses.get(command.sequence, ()))
                except HayaseError as error:
                    raise damaged(f"command {command.sequence} cannot be replayed: {error.message}") from error

    def _replay_command(self, command: Command, outcome: Outcome | None, uses: Uses) -> None:
        self._next_sequence = command.sequence + 1
        if outcome is not None and outcome.failed:
            self.statuses.put(command.id, _status(outcome))
            return
        prepared, held = replayed(self.engine, command, uses)
        for query in prepared.result.started:
            if not held and command.plans.get(query.id) != _digest(query):
                _LOG.warning(
                    "query %s was planned by Hayase %s, and is planned in another way now: if it does not start, "
                    "drop it and create it again",
                    query.id,
                    command.hayase,
                )
        if outcome is None:
            try:
                self._carry_out(command, prepared)
            except Exception as error:
                _LOG.error("command %d, interrupted earlier, has failed: %s", command.sequence, error)
                self._finish(command, self._failure(command, error))
                return
        self._adopt(command, prepared)
        self._held.update(held)
        if outcome is None:
            self._finish(command, self._outcome(command, prepared))
        else:
            self.statuses.put(command.id, _status(outcome))


def _status(outcome: Outcome) -> CommandStatus:
    return CommandStatus("ERROR" if outcome.failed else "SUCCESS", outcome.message, outcome.query_id)


def _digest(query: PersistentQuery) -> str:
    return hashlib.sha256(f"{plan_text(query.plan)}\n{query.topology.describe()}".encode()).hexdigest()


def _is_kept(name: str, value: object) -> bool:
    return isinstance(value, _PLAIN) and not any(word in name.lower() for word in _SECRETS)
