"""LIST, DESCRIBE and EXPLAIN: what is there, as rows under the names that ksqlDB's answers have."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from hayase.sql.analysis.plan_text import plan_text
from hayase.sql.ast.statements import Describe, DescribeFunction, ListStatement, SourceKind
from hayase.sql.catalog.catalog import require_source
from hayase.sql.catalog.sources import DataSource
from hayase.sql.errors import StatementError
from hayase.sql.settings import SETTINGS
from hayase.sql.statements.execution import Execution
from hayase.sql.statements.results import PersistentQuery, StatementResult

Row = Mapping[str, Any]


def list_statement(statement: ListStatement, execution: Execution) -> StatementResult:
    """All of a kind.

    Raises:
        StatementError: there is no such kind here.
    """
    found = _LISTS.get(statement.what)
    if found is None:
        raise StatementError("NOT_EXECUTABLE", f"LIST {statement.what} has no answer here")
    return StatementResult("", rows=tuple(found(execution)))


def describe(statement: Describe, execution: Execution) -> StatementResult:
    """A stream or table, or all of a kind.

    Raises:
        StatementError: there is none of that name.
    """
    if statement.all_of_kind:
        kind = SourceKind.STREAM if statement.name == "STREAMS" else SourceKind.TABLE
        sources = [source for source in execution.catalog if source.kind is kind]
    else:
        sources = [require_source(execution.catalog, statement.name)]
    return StatementResult("", rows=tuple(_described(source, execution) for source in sources))


def describe_function(statement: DescribeFunction, execution: Execution) -> StatementResult:
    """A function with its overloads; raises StatementError if there is none."""
    overloads = execution.functions.overloads(statement.name)
    row = {
        "name": statement.name.upper(),
        "type": overloads[0].kind.value,
        "description": overloads[0].description,
        "functions": [{"signature": each.text, "description": each.description} for each in overloads],
    }
    return StatementResult("", rows=(row,))


def explained(query: PersistentQuery) -> StatementResult:
    """A query: its steps, its topology, and what of that runs in columns."""
    from hayase.sql.statements.forms import forms_of  # the compiler is slow to import

    row = {
        "id": query.id,
        "statementText": query.statement,
        "sources": list(query.source_topics),
        "sinks": [] if query.sink is None else [query.sink],
        "executionPlan": plan_text(query.plan),
        "topology": str(query.topology.describe()),
        "forms": forms_of(query.topology),
    }
    return StatementResult("", rows=(row,))


def _sources(kind: SourceKind) -> Callable[[Execution], list[Row]]:
    def rows(execution: Execution) -> list[Row]:
        return [_listed(source) for source in execution.catalog if source.kind is kind]

    return rows


def _listed(source: DataSource) -> Row:
    return {
        "type": source.kind.value,
        "name": source.name,
        "topic": source.topic,
        "keyFormat": source.key_format.name,
        "valueFormat": source.value_format.name,
        "isWindowed": source.window is not None,
    }


def _described(source: DataSource, execution: Execution) -> Row:
    kinds = {column.name: "KEY" for column in source.key} | {header.name: "HEADER" for header in source.headers}
    fields = [
        {"name": name, "schema": str(type_), **({"type": kinds[name]} if name in kinds else {})}
        for name, type_ in source.columns.items()
    ]
    return {
        **_listed(source),
        "windowType": None if source.window is None else source.window.kind.value,
        "fields": fields,
        "timestamp": "" if source.timestamp is None else source.timestamp.name,
        "statement": source.statement,
        "readQueries": execution.catalog.readers(source.name),
        "writeQueries": execution.catalog.writers(source.name),
        "sourceConstraints": execution.catalog.derived(source.name),
    }


def _topics(execution: Execution) -> list[Row]:
    rows: list[Row] = []
    for name in sorted(execution.topics.names()):
        replicas = [execution.topics.replicas(name)] * (execution.topics.partitions(name) or 0)
        rows.append({"name": name, "replicaInfo": replicas})
    return rows


def _queries(execution: Execution) -> list[Row]:
    return [
        {
            "id": query.id,
            "queryString": query.statement,
            "sinks": [] if query.sink is None else [query.sink],
            "sinkKafkaTopics": [] if query.sink_topic is None else [query.sink_topic],
            "queryType": "PERSISTENT",
        }
        for query in execution.queries.values()
    ]


def _functions(execution: Execution) -> list[Row]:
    registry = execution.functions
    return [{"name": name, "type": registry.overloads(name)[0].kind.value} for name in registry.names()]


def _properties(execution: Execution) -> list[Row]:
    return [
        {
            "name": name,
            "value": execution.settings.get(name),
            "default": setting.default,
            "use": setting.use.value,
            "meaning": setting.meaning,
            "editable": setting.is_editable,
        }
        for name, setting in sorted(SETTINGS.items())
    ]


def _types(execution: Execution) -> list[Row]:
    return [{"name": name, "schema": str(type_)} for name, type_ in sorted(execution.catalog.types.items())]


def _variables(execution: Execution) -> list[Row]:
    return [{"name": name, "value": value} for name, value in execution.variables.items()]


def _none(execution: Execution) -> list[Row]:
    return []


_LISTS: dict[str, Callable[[Execution], list[Row]]] = {
    "STREAMS": _sources(SourceKind.STREAM),
    "TABLES": _sources(SourceKind.TABLE),
    "TOPICS": _topics,
    "ALL TOPICS": _topics,
    "QUERIES": _queries,
    "FUNCTIONS": _functions,
    "PROPERTIES": _properties,
    "TYPES": _types,
    "VARIABLES": _variables,
    "CONNECTORS": _none,
    "SOURCE CONNECTORS": _none,
    "SINK CONNECTORS": _none,
    "CONNECTOR PLUGINS": _none,
}
