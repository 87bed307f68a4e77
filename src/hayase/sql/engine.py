"""The engine: statements change the catalog and start and stop queries."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from hayase.sql.analysis.planner_settings import is_true
from hayase.sql.ast import statements as ast
from hayase.sql.ast.queries import Emit, Query
from hayase.sql.catalog.catalog import Catalog
from hayase.sql.catalog.inferred import InferredColumns
from hayase.sql.errors import SqlError, StatementError
from hayase.sql.functions.registry import FunctionRegistry, default_registry
from hayase.sql.grammar.parser import ParsedStatement, parse_script
from hayase.sql.grammar.variables import Variables
from hayase.sql.settings import effective, is_on, warning_of
from hayase.sql.statements.asserts import assert_schema, assert_topic
from hayase.sql.statements.create_as import create_as
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

__all__ = ["PersistentQuery", "SqlEngine", "StatementResult", "TopicAdmin"]

_HANDLERS: dict[type[ast.Statement], Callable[[Any, Execution], StatementResult]] = {
    ast.CreateSource: create_source,
    ast.CreateAsSelect: create_as,
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
            if error.statement is None:
                error.statement = parsed.text
            raise

    def _change_session(self, statement: _OfSession) -> StatementResult:
        """Settings and variables; the parser has put in the values of variables already."""
        match statement:
            case ast.SetProperty(name, value):
                warning = warning_of(name)
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
        execution, result = self._executed(statement, parsed.text, settings)
        self._take(execution)
        return result

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
        self, statement: ast.Statement, text: str, settings: Mapping[str, object]
    ) -> tuple[Execution, StatementResult]:
        """What a statement would change, and its result."""
        handler = _HANDLERS.get(type(statement))
        if handler is None:
            refuse(statement)
        _check_enabled(statement, settings)
        execution = Execution(
            catalog=self.catalog.copy(),
            queries=dict(self.queries),
            next_number=self._next_number,
            settings=settings,
            functions=self.functions,
            topics=self._topics,
            registry=self._registry,
            variables=dict(self.variables),
            text=text,
            frozen=self.inferred,
            # never a setting of the session or the request: a sender of statements must not grant that
            trusts_scripts=is_on(self._settings, PYTHON_ENABLED),
        )
        return execution, handler(statement, execution)

    def _take(self, execution: Execution) -> None:
        """Make what the statement did count; raises StatementError if the schema registry refuses a schema."""
        for register in execution.to_register:
            register()
        for topic, partitions, replicas in execution.to_create:
            self._topics.create(topic, partitions, replicas)
        for topic in execution.to_delete:
            self._topics.delete(topic)
        self.catalog = execution.catalog
        self.queries = execution.queries
        self.functions = execution.functions
        self._next_number = execution.next_number


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
        if is_used and not is_true(settings, name):
            raise StatementError("NOT_ENABLED", f"{what}: that is off; set {name} to true to allow it")
