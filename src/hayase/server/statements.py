"""Requests of statements: what `POST /ksql` does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from hayase.core.errors import HayaseError
from hayase.server.commands.executor import CommandResult
from hayase.server.connectors.statements import (
    check_connector,
    create_connector,
    describe_connector,
    drop_connector,
    shown_text,
)
from hayase.server.context import ServerContext
from hayase.server.entities.lists import Listing, function_entity, list_entity
from hayase.server.entities.queries import explained_select, query_description
from hayase.server.entities.sources import listed_sources, source_description
from hayase.server.errors import ASSERTION_FAILED, CATCH_UP_TIMEOUT, RequestError
from hayase.server.overrides import check_override, checked_overrides
from hayase.server.security.users import Role, check_role
from hayase.server.topics import PlannedTopics, check_topics_there
from hayase.server.warm_up import import_planning
from hayase.sql.ast import statements as ast
from hayase.sql.catalog.catalog import require_source
from hayase.sql.engine import SqlEngine
from hayase.sql.errors import SqlError, StatementError
from hayase.sql.grammar.parser import ParsedStatement, parse_script
from hayase.sql.grammar.variables import Variables
from hayase.sql.settings import check_setting, plain_setting_name

_COMMANDS = (
    ast.CreateSource, ast.CreateAsSelect, ast.InsertInto, ast.DropSource, ast.AlterSource, ast.CreateType,
    ast.DropType, ast.CreateFunction, ast.DropFunction, ast.QueryControl,
)  # fmt: skip
_CONNECTORS = (ast.CreateConnector, ast.DropConnector)
_QUERIES = (ast.SelectQuery, ast.PrintTopic)
_PLANNED = (ast.CreateAsSelect, ast.InsertInto, ast.Explain)
_SUBSTITUTION = "ksql.variable.substitution.enable"
Entity = dict[str, object]


class StatementFailedError(HayaseError):
    """A statement of a request that failed.

    Attributes:
        cause: why.
        statement: its text.
        entities: the answers of the statements before it.
    """

    def __init__(self, cause: HayaseError, statement: str, entities: Sequence[Entity]) -> None:
        super().__init__(cause.condition, cause.message)
        self.cause = cause
        self.statement = statement
        self.entities = list(entities)


@dataclass
class StatementRequest:
    """What a client sends.

    Attributes:
        text: the statements.
        properties: settings for them.
        variables: for `${name}`.
        command_sequence: a command that has to be carried out before; `None`: none.
        role: of the user who sent it.
    """

    text: str
    properties: Mapping[str, object] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)
    command_sequence: int | None = None
    role: Role = Role.ADMIN


@dataclass
class _Session:
    """Settings and variables, as the statements of one request change them."""

    overrides: dict[str, object]
    variables: Variables


class StatementService:
    """Executes the statements of requests. Thread-safe.

    Args:
        context: of the server.
    """

    def __init__(self, context: ServerContext) -> None:
        self._context = context

    def execute(self, request: StatementRequest) -> list[Entity]:
        """Execute all statements of a request, each checked together with all before it first.

        Raises:
            ParseFailedError: a part of the text is no statement; nothing was executed.
            StatementFailedError: a statement cannot be executed; those before it are.
            RequestError: the request itself cannot be served.
        """
        context = self._context
        overrides = checked_overrides(request.properties, context.settings)
        self._wait_for(request.command_sequence)
        replaces = str({**context.engine.settings, **overrides}.get(_SUBSTITUTION, "true")).lower() == "true"
        variables = Variables(dict(request.variables) if replaces else {})
        statements = parse_script(request.text, Variables(dict(variables)))
        if any(_is_planned(parsed.statement) for parsed in statements):
            import_planning()
        for parsed in statements:
            if isinstance(parsed.statement, _QUERIES):
                raise StatementFailedError(_is_a_query(parsed), parsed.text, [])
            if isinstance(parsed.statement, (*_COMMANDS, ast.InsertValues)):
                runs_python = isinstance(parsed.statement, ast.CreateFunction)
                check_role(request.role, Role.ADMIN if runs_python else Role.WRITE)
            elif isinstance(parsed.statement, _CONNECTORS):
                check_role(request.role, Role.ADMIN)  # a connector reads and writes whatever its worker can
        if len(statements) > 1:
            self._check_all(statements, _Session(dict(overrides), Variables(dict(variables))))
        return self._execute_all(statements, _Session(overrides, variables))

    def _wait_for(self, sequence: int | None) -> None:
        if sequence is None or sequence < 0:
            return
        timeout_s = self._context.settings.response_timeout_ms / 1000
        if not self._context.commands.wait_for(sequence, timeout_s):
            raise RequestError(
                CATCH_UP_TIMEOUT,
                "CATCH_UP_TIMEOUT",
                f"Timed out while waiting for a previous command to execute. command sequence number: {sequence}",
            )

    def _execute_all(self, statements: Sequence[ParsedStatement], session: _Session) -> list[Entity]:
        entities: list[Entity] = []
        for parsed in statements:
            try:
                entity = self._execute(parsed, session)
            except HayaseError as error:
                raise _failed(error, parsed, entities) from error
            if entity is not None:
                text = shown_text(parsed.statement, parsed.text)
                entities.append({"statementText": text, "warnings": [], **entity})
        return entities

    def _execute(self, parsed: ParsedStatement, session: _Session) -> Entity | None:
        statement, context = parsed.statement, self._context
        if isinstance(statement, ast.QueryControl):
            push_query = context.push_queries.find(statement.query_id)
            if push_query is not None:
                return self._end_push_query(statement, push_query)
        if isinstance(statement, _COMMANDS):
            nothing = _nothing_to_do(statement, context.engine)
            if nothing is not None:
                return {"@type": "warning_entity", "message": nothing}
            return _current_status(context.commands.execute(parsed, session.overrides))
        if isinstance(statement, ast.InsertValues):
            context.inserts.write(context.engine.prepare(parsed, session.overrides).result.records)
            return None
        if _changes_session(statement, session, context):
            return None
        return self._answer(parsed, session)

    def _answer(self, parsed: ParsedStatement, session: _Session) -> Entity:
        """Statements that change nothing in the catalog."""
        statement, context = parsed.statement, self._context
        match statement:
            case ast.ListStatement():
                settings = context.statement_settings(session.overrides)
                listing = Listing(context, settings, session.overrides, session.variables, statement.extended)
                return list_entity(statement, listing)
            case ast.Describe(name, extended, all_of_kind):
                if not all_of_kind:
                    source = require_source(context.engine.catalog, name)
                    described = source_description(context, source, extended=extended)
                    return {"@type": "sourceDescription", "sourceDescription": described}
                kind = ast.SourceKind.STREAM if name == "STREAMS" else ast.SourceKind.TABLE
                sources = listed_sources(context, kind)
                descriptions = [source_description(context, source, extended=extended) for source in sources]
                return {"@type": "source_descriptions", "sourceDescriptions": descriptions}
            case ast.DescribeFunction(name):
                return function_entity(context, name)
            case ast.Explain():
                return {"@type": "queryDescription", "queryDescription": self._explained(parsed, statement, session)}
            case ast.CreateConnector():
                return create_connector(statement, context.connect)
            case ast.DropConnector():
                return drop_connector(statement, context.connect)
            case ast.DescribeConnector(name):
                return describe_connector(context, name)
            case ast.AssertTopic(name):
                self._assert(parsed, session)
                return {"@type": "assert_topic", "topicName": name, "exists": statement.exists}
            case ast.AssertSchema(subject, schema_id):
                self._assert(parsed, session)
                return {"@type": "assert_schema", "subject": subject, "id": schema_id, "exists": statement.exists}
        context.engine.prepare(parsed, session.overrides)  # refuses it, with the reason
        raise StatementError("NOT_EXECUTABLE", f"{type(statement).__name__} cannot be executed here")

    def _assert(self, parsed: ParsedStatement, session: _Session) -> None:
        try:
            self._context.engine.prepare(parsed, session.overrides)
        except StatementError as error:
            if error.condition == "ASSERTION_FAILED":
                raise RequestError(ASSERTION_FAILED, error.condition, error.message) from error
            raise

    def _explained(self, parsed: ParsedStatement, statement: ast.Explain, session: _Session) -> Entity:
        context = self._context
        if statement.statement is None:
            return query_description(context, context.engine.query(statement.query_id or ""))
        settings = context.statement_settings(session.overrides)
        if isinstance(statement.statement, ast.SelectQuery):
            return explained_select(context, statement.statement.query, parsed.text, settings)
        inner = ParsedStatement(parsed.text, statement.statement, parsed.location)
        prepared = context.engine.prepare(inner, session.overrides)
        if not prepared.result.started:
            raise StatementError("NOT_EXPLAINABLE", "EXPLAIN takes a statement that starts a query, or a query's id")
        return query_description(context, prepared.result.started[0], prepared.execution.catalog, runs=False)

    def _end_push_query(self, statement: ast.QueryControl, query_id: str) -> Entity:
        if statement.action is not ast.QueryAction.TERMINATE:
            raise StatementError("NOT_EXECUTABLE", "Push queries cannot be paused or resumed; TERMINATE ends them")
        ended = self._context.push_queries.close(query_id)
        return {"@type": "terminate_query", "queryId": query_id, "wasTerminated": ended}

    def _check_all(self, statements: Sequence[ParsedStatement], session: _Session) -> None:
        """Check all statements before the first is executed, each as if those before it had been."""
        topics = PlannedTopics(self._context.topics)
        engine = self._context.engine.copy(topics)
        for parsed in statements:
            try:
                self._check(parsed, engine, topics, session)
            except HayaseError as error:
                raise _failed(error, parsed, []) from error

    def _check(self, parsed: ParsedStatement, engine: SqlEngine, topics: PlannedTopics, session: _Session) -> None:
        statement = parsed.statement
        if isinstance(statement, ast.QueryControl):
            if statement.query_id is not None and self._context.push_queries.find(statement.query_id) is None:
                query_id = engine.query(statement.query_id).id
                if statement.action is ast.QueryAction.TERMINATE:
                    engine.adopt(engine.prepare_stop(parsed, [query_id]))
            elif statement.query_id is None and statement.action is ast.QueryAction.TERMINATE:
                engine.adopt(engine.prepare_stop(parsed, list(engine.queries)))
        elif isinstance(statement, (*_COMMANDS, ast.InsertValues)):
            prepared = engine.prepare(parsed, session.overrides)
            engine.adopt(prepared)
            for topic, partitions, replicas in prepared.execution.to_create:
                topics.create(topic, partitions, replicas)
            for topic in prepared.execution.to_delete:
                topics.delete(topic)
            check_topics_there(prepared.result.started, topics)
        elif isinstance(statement, ast.Describe) and not statement.all_of_kind:
            require_source(engine.catalog, statement.name)
        elif isinstance(statement, ast.CreateConnector):
            check_connector(statement, self._context.connect)
        else:
            _changes_session(statement, session, self._context)


def _is_planned(statement: ast.Statement) -> bool:
    """Whether a statement makes a topology."""
    return isinstance(statement, _PLANNED) or (isinstance(statement, ast.CreateSource) and statement.is_source)


def _failed(error: HayaseError, parsed: ParsedStatement, entities: Sequence[Entity]) -> StatementFailedError:
    text = shown_text(parsed.statement, parsed.text)
    if text != parsed.text and isinstance(error, SqlError):
        error.statement = text
    return StatementFailedError(error, text, entities)


def _is_a_query(parsed: ParsedStatement) -> SqlError:
    word = "PRINT" if isinstance(parsed.statement, ast.PrintTopic) else "SELECT"
    return StatementError(
        "IS_A_QUERY",
        f"{word} gives rows: send it to /query, or SELECT to /query-stream. /ksql takes all other statements",
        statement=parsed.text,
    )


def _changes_session(statement: ast.Statement, session: _Session, context: ServerContext) -> bool:
    """SET, UNSET, DEFINE and UNDEFINE: they count for the statements behind them in the request."""
    match statement:
        case ast.SetProperty(name, value):
            check_setting(name, value, statement.location)
            check_override(name, context.settings)
            session.overrides[plain_setting_name(name)] = value
        case ast.UnsetProperty(name):
            session.overrides.pop(plain_setting_name(name), None)
        case ast.DefineVariable(name, value):
            session.variables[name] = value
        case ast.UndefineVariable(name):
            session.variables.pop(name, None)
        case _:
            return False
    return True


def _nothing_to_do(statement: ast.Statement, engine: SqlEngine) -> str | None:
    """Why IF [NOT] EXISTS makes a statement do nothing; `None`: it does something."""
    match statement:
        case ast.CreateSource() | ast.CreateAsSelect():
            there = engine.catalog.find(statement.name)
            if there is not None and statement.if_not_exists and not statement.or_replace:
                kind, known = statement.kind.value.lower(), there.kind.value.lower()
                return f"Cannot add {kind} `{statement.name}`: A {known} with the same name already exists."
        case ast.DropSource(_, name, True) if engine.catalog.find(name) is None:
            return f"Source `{name}` does not exist."
        case ast.CreateType(name, _, True) if name in engine.catalog.types:
            return f"{name} is already registered with type {engine.catalog.types[name]}"
        case ast.CreateFunction(name) if statement.if_not_exists and engine.functions.kind(name) is not None:
            return f"Function {name} already exists."
        case ast.DropFunction(name, True) if engine.functions.kind(name) is None:
            return f"Function {name} does not exist."
        case ast.DropType(name, True) if name not in engine.catalog.types:
            return f"Type '{name}' does not exist"
    return None


def _current_status(done: CommandResult) -> Entity:
    return {
        "@type": "currentStatus",
        "commandId": done.id,
        "commandStatus": dict(done.status.entity),
        "commandSequenceNumber": done.sequence,
        "warnings": [{"message": text} for text in done.result.warnings],
    }
