"""Statements back as SQL text, without a semicolon; parsing the text gives an equal tree again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hayase.sql.ast.expressions import Expression
from hayase.sql.ast.statements import (
    AlterSource,
    AlterSystem,
    AssertNullValues,
    AssertSchema,
    AssertSource,
    AssertTopic,
    AssertValues,
    ColumnDefinition,
    ColumnKind,
    CreateAsSelect,
    CreateConnector,
    CreateFunction,
    CreateSource,
    CreateType,
    DefineVariable,
    Describe,
    DescribeConnector,
    DescribeFunction,
    DropConnector,
    DropFunction,
    DropSource,
    DropType,
    Explain,
    InsertInto,
    InsertValues,
    ListStatement,
    PrintTopic,
    Properties,
    QueryControl,
    RunScript,
    SelectQuery,
    SetProperty,
    Statement,
    UndefineVariable,
    UnsetProperty,
)
from hayase.sql.ast.text import duration_text, expression_text, query_text, string_text
from hayase.sql.ast.words import name_text


def statement_text(statement: Statement) -> str:
    """A statement as SQL."""
    match statement:
        case SelectQuery(query):
            return query_text(query)
        case CreateSource() | CreateAsSelect() | CreateType() | CreateConnector():
            return _create_text(statement)
        case InsertInto(target, query, properties):
            return f"INSERT INTO {name_text(target)}{_with(properties)} {query_text(query)}"
        case InsertValues(target, columns, values):
            return f"INSERT INTO {name_text(target)}{_names(columns)} VALUES {_values(values)}"
        case DropSource(kind, name, if_exists, delete_topic):
            end = " DELETE TOPIC" if delete_topic else ""
            return f"DROP {kind.value}{_if_exists(if_exists)} {name_text(name)}{end}"
        case AlterSource(kind, name, columns):
            added = ", ".join(f"ADD COLUMN {column_text(column)}" for column in columns)
            return f"ALTER {kind.value} {name_text(name)} {added}"
        case CreateFunction(name, parameters, returns, body, or_replace, if_not_exists):
            listed = ", ".join(f"{name_text(each)} {type_}" for each, type_ in parameters)
            absent = " IF NOT EXISTS" if if_not_exists else ""
            created = f"CREATE {_or_replace(or_replace)}FUNCTION{absent} {name_text(name)}"
            return f"{created} ({listed}) RETURNS {returns} LANGUAGE PYTHON AS {string_text(body)}"
        case DropFunction(name, if_exists):
            return f"DROP FUNCTION{_if_exists(if_exists)} {name_text(name)}"
        case DropType(name, if_exists):
            return f"DROP TYPE{_if_exists(if_exists)} {name_text(name)}"
        case DropConnector(name, if_exists):
            return f"DROP CONNECTOR{_if_exists(if_exists)} {name_text(name)}"
        case AssertTopic() | AssertSchema() | AssertValues() | AssertNullValues() | AssertSource():
            return _assert_text(statement)
    return _session_text(statement)


def _create_text(statement: CreateSource | CreateAsSelect | CreateType | CreateConnector) -> str:
    absent = " IF NOT EXISTS" if statement.if_not_exists else ""
    name = name_text(statement.name)
    match statement:
        case CreateSource(kind, _, columns, properties, or_replace, is_source):
            source = "SOURCE " if is_source else ""
            begin = f"CREATE {_or_replace(or_replace)}{source}{kind.value}{absent} {name}"
            return f"{begin}{_elements(columns)}{_with(properties)}"
        case CreateAsSelect(kind, _, query, properties, or_replace):
            return (
                f"CREATE {_or_replace(or_replace)}{kind.value}{absent} {name}{_with(properties)} AS {query_text(query)}"
            )
        case CreateType(_, type_):
            return f"CREATE TYPE{absent} {name} AS {type_}"
    return f"CREATE {statement.kind} CONNECTOR{absent} {name}{_with(statement.properties)}"


def _assert_text(statement: AssertTopic | AssertSchema | AssertValues | AssertNullValues | AssertSource) -> str:
    match statement:
        case AssertTopic(name, properties, exists, timeout_ms):
            return f"ASSERT {_not_exists(exists)}TOPIC {_exact(name)}{_with(properties)}{_timeout(timeout_ms)}"
        case AssertSchema(subject, id_, exists, timeout_ms):
            subject_text = "" if subject is None else f" SUBJECT {string_text(subject)}"
            id_text = "" if id_ is None else f" ID {id_}"
            return f"ASSERT {_not_exists(exists)}SCHEMA{subject_text}{id_text}{_timeout(timeout_ms)}"
        case AssertValues(source, columns, values):
            return f"ASSERT VALUES {name_text(source)}{_names(columns)} VALUES {_values(values)}"
        case AssertNullValues(source, columns, key):
            return f"ASSERT NULL VALUES {name_text(source)}{_names(columns)} KEY {_values(key)}"
    elements, properties_text = _elements(statement.columns), _with(statement.properties)
    return f"ASSERT {statement.kind.value} {name_text(statement.name)}{elements}{properties_text}"


def _session_text(statement: Statement) -> str:
    match statement:
        case SetProperty(name, value):
            return f"SET {string_text(name)}={string_text(value)}"
        case UnsetProperty(name):
            return f"UNSET {string_text(name)}"
        case AlterSystem(name, value):
            return f"ALTER SYSTEM {string_text(name)}={string_text(value)}"
        case DefineVariable(name, value):
            return f"DEFINE {name}={string_text(value)}"
        case UndefineVariable(name):
            return f"UNDEFINE {name}"
        case QueryControl(action, query_id):
            return f"{action.value} {'ALL' if query_id is None else name_text(query_id)}"
        case ListStatement(what, extended):
            return f"LIST {what}{_extended(extended)}"
        case Describe(name, extended, all_of_kind):
            return f"DESCRIBE {name if all_of_kind else name_text(name)}{_extended(extended)}"
        case DescribeFunction(name):
            return f"DESCRIBE FUNCTION {name_text(name)}"
        case DescribeConnector(name):
            return f"DESCRIBE CONNECTOR {name_text(name)}"
        case Explain(explained, query_id):
            return f"EXPLAIN {name_text(query_id or '') if explained is None else statement_text(explained)}"
        case PrintTopic():
            return _print_text(statement)
        case RunScript(path):
            return f"RUN SCRIPT {string_text(path)}"
    raise TypeError(f"{type(statement).__name__} is no statement of SQL")


def _print_text(statement: PrintTopic) -> str:
    start = " FROM BEGINNING" if statement.from_beginning else ""
    interval = "" if statement.interval is None else f" INTERVAL {statement.interval}"
    limit = "" if statement.limit is None else f" LIMIT {statement.limit}"
    return f"PRINT {string_text(statement.topic)}{start}{interval}{limit}"


def column_text(column: ColumnDefinition) -> str:
    """A column of a CREATE statement as SQL."""
    end = "" if column.kind is ColumnKind.VALUE else f" {column.kind.value}"
    key = f"({string_text(column.header_key or '')})" if column.kind is ColumnKind.HEADER else ""
    return f"{name_text(column.name)} {column.type}{end}{key}"


def _elements(columns: Sequence[ColumnDefinition] | None) -> str:
    return "" if columns is None else f" ({', '.join(map(column_text, columns))})"


def _with(properties: Properties) -> str:
    if not properties:
        return ""
    pairs = (f"{_property_name(name)}={expression_text(value)}" for name, value in properties)
    return f" WITH ({', '.join(pairs)})"


def _property_name(name: str) -> str:
    return name if name_text(name) == name else string_text(name)


def _names(names: Iterable[str] | None) -> str:
    return "" if names is None else f" ({', '.join(map(name_text, names))})"


def _values(values: Iterable[Expression]) -> str:
    return f"({', '.join(map(expression_text, values))})"


def _exact(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _timeout(timeout_ms: int | None) -> str:
    return "" if timeout_ms is None else f" TIMEOUT {duration_text(timeout_ms)}"


def _or_replace(or_replace: bool) -> str:
    return "OR REPLACE " if or_replace else ""


def _if_exists(if_exists: bool) -> str:
    return " IF EXISTS" if if_exists else ""


def _not_exists(exists: bool) -> str:
    return "" if exists else "NOT EXISTS "


def _extended(extended: bool) -> str:
    return " EXTENDED" if extended else ""
