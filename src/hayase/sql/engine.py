"""The engine: statements change the catalog and start and stop queries."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hayase.sql.ast import statements as ast
from hayase.sql.ast.queries import Emit, Query
from hayase.sql.catalog.catalog import Catalog
from hayase.sql.catalog.inferred import InferredColumns
from hayase.sql.errors import SqlError, StatementError
from hayase.sql.functions.registry import FunctionRegistry, default_registry
from hayase.sql.functions.uses import FunctionCalls
from hayase.sql.grammar.limits import nesting_errors
from hayase.sql.grammar.parser import ParsedStatement, parse_script
from hayase.sql.grammar.variables import Variables
from hayase.sql.settings import effective, is_on, warning_of
from hayase.sql.statements.asserts import assert_schema, assert_topic
from hayase.sql.statements.create_source import create_source
from hayase.sql.statements.drop_alter import alter_source, drop_source
from hayase.sql.statements.execution import Execution
from hayase.sql.statements.functions import PYTHON_ENABLED, create_function, drop_function
from hayase.sql.statements.insert import insert_into, insert_values
from hayase.sql.statements.refused import refuse
from hayase.sql.statements.results import PersistentQuery, StatementResult
from hayase.sql.statements.show import describe, describe_function, explained, list_statement
from hayase.sql.statements.topics import MemoryTopics, TopicAdmin
from hayase.sql.statements.types import create_type, drop_type

__all__ = ["PersistentQuery", "PreparedStatement", "SqlEngine", "StatementResult", "TopicAdmin"]


def _create_as(statement: ast.CreateAsSelect, execution: Execution) -> StatementResult:
    from hayase.sql.statements.create_as import create_as  # planning is slow to import

    return create_as(statement, execution)


_HANDLERS: dict[type[ast.Statement], Callable[[Any, Execution], StatementResult]] = {
    ast.CreateSource: create_source,
    ast.CreateAsSelect: _create_as,
    ast.InsertInto: insert_into,
    ast.InsertValues: insert_values,
    ast.DropSource: drop_source,
    ast.AlterSource: alter_source,
    ast.CreateType: create_type,
    ast.DropType: drop_type,
    ast.CreateFunction: create_function,
    ast.DropFunction: drop_function,
    ast.ListStatement: list_statement,
    ast.Describe: describe,
    ast.DescribeFunction: describe_function,
    ast.AssertTopic: assert_topic,
    ast.AssertSchema: assert_schema,
}
_OfSession = ast.SetProperty | ast.UnsetProperty | ast.DefineVariable | ast.UndefineVariable
_OF_SESSION = (ast.SetProperty, ast.UnsetProperty, ast.DefineVariable, ast.UndefineVariable)


@dataclass(frozen=True)
class PreparedStatement:
    """A statement that was checked and has changed nothing yet.

    Attributes:
        parsed: the statement.
        result: what it will have done.
        execution: with the catalog and the queries as they are behind it, and with its effects on topics and schemas.
        first_number: the number that the first new query gets.
    """

    parsed: ParsedStatement
    result: StatementResult
    execution: Execution
    first_number: int


class SqlEngine:
    """Executes statements one after the other; one that fails changes nothing.

    Args:
        settings: of ksqlDB, by name.
        functions: all functions; by default those of ksqlDB.
        schema_registry: for formats that need one.
        topics: those that exist; by default any, with one partition.
        inferred: columns that the schema registry gave the same statements before.

    Example:
        >>> engine = SqlEngine()
        >>> results = engine.script('''
        ...     CREATE STREAM orders (id INT KEY, cents INT) WITH (kafka_topic='orders', value_format='JSON');
        ...     CREATE STREAM large AS SELECT * FROM orders WHERE cents > 1000;
        ... ''')
        >>> [result.message for result in results]
        ['Stream created', 'Created query with ID CSAS_LARGE_0']
    """

    def __init__(
        self,
        settings: Mapping[str, object] | None = None,
        functions: FunctionRegistry | None = None,
        schema_registry: Any = None,
        topics: TopicAdmin | None = None,
        inferred: InferredColumns | None = None,
    ) -> None:
        self.catalog = Catalog()
        self.queries: dict[str, PersistentQuery] = {}
        self.functions = default_registry() if functions is None else functions
        self.variables = Variables()
        self.inferred = InferredColumns() if inferred is None else inferred
        self._settings = dict(settings or {})
        self._session: dict[str, object] = {}
        self._registry = schema_registry
        self._topics = MemoryTopics(partitions_by_default=1) if topics is None else topics
        self._next_number = 0

    @property
    def settings(self) -> dict[str, object]:
        """The settings that count now: those of the engine, and those of SET over them."""
        return effective(self._settings, self._session)

    def script(self, text: str, variables: Variables | None = None) -> list[StatementResult]:
        """Execute all statements of a text, which is parsed as a whole before.

        Args:
            text: of the statements.
            variables: for `${name}`, changed by DEFINE and UNDEFINE; by default those of scripts before.

        Raises:
            ParseFailedError: some text is no statement; nothing is executed.
            StatementError: a statement cannot be executed; those before it are.
        """
        known = Variables(dict(self.variables)) if variables is None else variables
        return [self.execute(statement) for statement in parse_script(text, known)]

    def execute(self, parsed: ParsedStatement, overrides: Mapping[str, object] | None = None) -> StatementResult:
        """Execute one statement.

        Args:
            parsed: the statement.
            overrides: settings for it alone.

        Raises:
            StatementError: it cannot be executed; nothing has changed.
        """
        statement = parsed.statement
        try:
            if isinstance(statement, _OF_SESSION):
                return self._change_session(statement)
            return self._run(parsed, effective(self._settings, self._session, overrides or {}))
        except SqlError as error:
            _complete(error, parsed)
            raise

    def prepare(
        self,
        parsed: ParsedStatement,
        overrides: Mapping[str, object] | None = None,
        *,
        topics: TopicAdmin | None = None,
        inferred: InferredColumns | None = None,
        is_replayed: bool = False,
        first_number: int | None = None,
        functions: FunctionRegistry | None = None,
    ) -> PreparedStatement:
        """Check a statement without changing anything: `adopt` makes it count, its effects are the caller's.

        Args:
            parsed: the statement; not SET, UNSET, DEFINE, UNDEFINE or EXPLAIN.
            overrides: settings for it alone.
            topics: those that it sees instead of those of the engine.
            inferred: columns that an earlier execution took from the schema registry, which is not asked for them.
            is_replayed: the statement was checked when it was executed first.
            first_number: of the first new query; default: the next one.
            functions: that it calls instead of those of the engine; `adopt` does not take them over.

        Raises:
            StatementError: it cannot be executed.
        """
        number = self._next_number if first_number is None else first_number
        settings = effective(self._settings, self._session, overrides or {})
        try:
            execution, result = self._executed(
                parsed.statement,
                parsed.text,
                settings,
                topics=topics,
                inferred=inferred,
                is_replayed=is_replayed,
                number=number,
                functions=functions,
            )
        except SqlError as error:
            _complete(error, parsed)
            raise
        if functions is not None:
            execution.functions = self.functions
        return PreparedStatement(parsed, result, execution, number)

    def prepare_stop(self, parsed: ParsedStatement, query_ids: Sequence[str]) -> PreparedStatement:
        """As `prepare`, for a statement that ends queries (TERMINATE).

        Raises:
            StatementError: `UNKNOWN_QUERY`.
        """
        execution = self._execution(parsed.text, self.settings)
        for query_id in query_ids:
            self.query(query_id)
            execution.stop_query(query_id)
        result = StatementResult("Query terminated.", stopped=tuple(query_ids))
        return PreparedStatement(parsed, result, execution, self._next_number)

    def query(self, query_id: str) -> PersistentQuery:
        """A persistent query by its id; raises StatementError `UNKNOWN_QUERY`."""
        found = self.queries.get(query_id) or self.queries.get(query_id.upper())
        if found is None:
            raise StatementError("UNKNOWN_QUERY", f"Unknown queryId: {query_id}")
        return found

    def adopt(self, prepared: PreparedStatement) -> None:
        """Make what a statement changes in the catalog count; its effects on topics and schemas are the caller's."""
        execution = prepared.execution
        self.catalog = execution.catalog
        self.queries = execution.queries
        self.functions = execution.functions.of_session
        self._next_number = execution.next_number

    def copy(self, topics: TopicAdmin) -> SqlEngine:
        """An engine with the same catalog, in which statements change nothing in this one."""
        settings = effective(self._settings, self._session)
        copied = SqlEngine(settings, self.functions, self._registry, topics, self.inferred)
        copied.catalog = self.catalog.copy()
        copied.queries = dict(self.queries)
        copied._next_number = self._next_number
        return copied

    def _change_session(self, statement: _OfSession) -> StatementResult:
        """Settings and variables; the parser has put in the values of variables already."""
        match statement:
            case ast.SetProperty(name, value):
                warning = warning_of(name, value, statement.location)
                self._session[name] = value
                message = f"Successfully changed local property {name} to '{value}'."
                return StatementResult(message, warnings=() if warning is None else (warning,))
            case ast.UnsetProperty(name):
                self._session.pop(name, None)
                return StatementResult(f"Successfully unset local property {name}")
            case ast.DefineVariable(name, value):
                self.variables[name] = value
            case ast.UndefineVariable(name):
                self.variables.pop(name, None)
        return StatementResult("")

    def _run(self, parsed: ParsedStatement, settings: Mapping[str, object]) -> StatementResult:
        statement = parsed.statement
        if isinstance(statement, ast.Explain):
            return self._explain(statement, parsed, settings)
        prepared = self.prepare(parsed, settings)
        self._take(prepared.execution)
        self.adopt(prepared)
        return prepared.result

    def _explain(
        self, statement: ast.Explain, parsed: ParsedStatement, settings: Mapping[str, object]
    ) -> StatementResult:
        """A query that runs, or the one that a statement would start."""
        if statement.statement is None:
            query = self.queries.get(statement.query_id or "")
            if query is None:
                raise StatementError("UNKNOWN_QUERY", f"Query with id:{statement.query_id} does not exist")
            return explained(query)
        _, result = self._executed(statement.statement, parsed.text, settings)
        if not result.started:
            raise StatementError("NOT_EXPLAINABLE", "EXPLAIN takes a statement that starts a query, or a query's id")
        return explained(result.started[0])

    def _executed(
        self,
        statement: ast.Statement,
        text: str,
        settings: Mapping[str, object],
        *,
        topics: TopicAdmin | None = None,
        inferred: InferredColumns | None = None,
        is_replayed: bool = False,
        number: int | None = None,
        functions: FunctionRegistry | None = None,
    ) -> tuple[Execution, StatementResult]:
        """What a statement would change, and its result."""
        handler = _HANDLERS.get(type(statement))
        if handler is None:
            refuse(statement)
        _check_enabled(statement, settings)
        execution = self._execution(
            text,
            settings,
            topics=topics,
            inferred=inferred,
            is_replayed=is_replayed,
            number=number,
            functions=functions,
        )
        with nesting_errors():
            return execution, handler(statement, execution)

    def _execution(
        self,
        text: str,
        settings: Mapping[str, object],
        *,
        topics: TopicAdmin | None = None,
        inferred: InferredColumns | None = None,
        is_replayed: bool = False,
        number: int | None = None,
        functions: FunctionRegistry | None = None,
    ) -> Execution:
        calls = FunctionCalls()
        return Execution(
            catalog=self.catalog.copy(),
            queries=dict(self.queries),
            next_number=self._next_number if number is None else number,
            settings=settings,
            functions=(self.functions if functions is None else functions).of_statement(calls.note),
            calls=calls,
            topics=self._topics if topics is None else topics,
            registry=self._registry,
            variables=dict(self.variables),
            text=text,
            frozen=self.inferred if inferred is None else inferred,
            is_replayed=is_replayed,
            # never a setting of the session or the request: a sender of statements must not grant that
            trusts_scripts=is_on(self._settings, PYTHON_ENABLED),
        )

    def _take(self, execution: Execution) -> None:
        """Carry out the effects of a statement; raises StatementError if the schema registry refuses a schema."""
        for register in execution.to_register:
            register()
        for topic, partitions, replicas in execution.to_create:
            self._topics.create(topic, partitions, replicas)
        for topic in execution.to_delete:
            self._topics.delete(topic)


def _complete(error: SqlError, parsed: ParsedStatement) -> None:
    """Every error says which statement it is about, and where that, or the part that is wrong, begins."""
    error.statement = error.statement or parsed.text
    error.locate(parsed.location)


def _check_enabled(statement: ast.Statement, settings: Mapping[str, object]) -> None:
    """Refuse what a setting has switched off; raises StatementError."""
    query = getattr(statement, "query", None)
    columns = getattr(statement, "columns", None) or ()
    headers = isinstance(statement, ast.CreateSource) and any(
        column.kind in (ast.ColumnKind.HEADERS, ast.ColumnKind.HEADER) for column in columns
    )
    used = {
        "ksql.create.or.replace.enabled": ("CREATE OR REPLACE", getattr(statement, "or_replace", False)),
        "ksql.insert.into.values.enabled": ("INSERT INTO … VALUES", isinstance(statement, ast.InsertValues)),
        "ksql.headers.columns.enabled": ("Columns of headers", headers),
        "ksql.suppress.enabled": ("EMIT FINAL", isinstance(query, Query) and query.emit is Emit.FINAL),
    }
    for name, (what, is_used) in used.items():
        if is_used and not is_on(settings, name):
            raise StatementError("NOT_ENABLED", f"{what}: that is off; set {name} to true to allow it")
