"""What a server answers to statements, as tables."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_LISTS: Mapping[str, tuple[str, Sequence[tuple[str, str]]]] = {
    "streams": (
        "streams",
        (("Stream Name", "name"), ("Kafka Topic", "topic"), ("Key Format", "keyFormat"),
         ("Value Format", "valueFormat"), ("Windowed", "isWindowed")),
    ),
    "tables": (
        "tables",
        (("Table Name", "name"), ("Kafka Topic", "topic"), ("Key Format", "keyFormat"),
         ("Value Format", "valueFormat"), ("Windowed", "isWindowed")),
    ),
    "queries": (
        "queries",
        (("Query ID", "id"), ("Query Type", "queryType"), ("Status", "statusCount"), ("Sinks", "sinks"),
         ("Query String", "queryString")),
    ),
    "kafka_topics": ("topics", (("Kafka Topic", "name"), ("Partitions", "replicaInfo"))),
    "kafka_topics_extended": (
        "topics",
        (("Kafka Topic", "name"), ("Partitions", "replicaInfo"), ("Consumers", "consumerCount"),
         ("Consumer Groups", "consumerGroupCount")),
    ),
    "function_names": ("functions", (("Function Name", "name"), ("Category", "category"), ("Type", "type"))),
    "properties": ("properties", (("Property", "name"), ("Value", "value"), ("Level", "level"))),
    "connector_list": (
        "connectors",
        (("Connector Name", "name"), ("Type", "type"), ("Class", "className"), ("Status", "state")),
    ),
    "connector_plugins_list": (
        "connectorsPlugins", (("Class", "className"), ("Type", "type"), ("Version", "version")),
    ),
    "variables": ("variables", (("Variable Name", "name"), ("Value", "value"))),
}  # fmt: skip
_COUNTS = ("replicaInfo",)


@dataclass(frozen=True)
class Table:
    """A table of text.

    Attributes:
        columns: heads.
        rows: cells.
        title: above it; empty: none.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    title: str = ""

    def lines(self) -> list[str]:
        """The table, aligned; a cell of several lines has only its first one widened."""
        cells = [[cell.replace("\n", " ") for cell in row] for row in self.rows]
        widths = [max(map(len, column)) for column in zip(self.columns, *cells, strict=True)]
        lines = [self.title] if self.title else []
        lines.append(_line(self.columns, widths))
        lines.append("-+-".join("-" * width for width in widths))
        return [*lines, *(_line(row, widths) for row in cells)]


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    return " | ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()


def answer_lines(answer: Mapping[str, Any]) -> list[str]:
    """What a person is shown of an answer."""
    kind = str(answer.get("@type", ""))
    lines = _shown(kind, answer)
    for warning in answer.get("warnings") or ():
        lines.append(f"WARNING: {warning.get('message', warning) if isinstance(warning, Mapping) else warning}")
    return lines


def _shown(kind: str, answer: Mapping[str, Any]) -> list[str]:
    if kind == "currentStatus":
        return [str(answer.get("commandStatus", {}).get("message", ""))]
    if kind in _LISTS:
        member, columns = _LISTS[kind]
        rows = [[_cell(name, item.get(name)) for _, name in columns] for item in answer.get(member) or ()]
        return Table([head for head, _ in columns], rows).lines()
    if kind == "sourceDescription":
        return _source(answer["sourceDescription"])
    if kind == "source_descriptions":
        return [line for each in answer.get("sourceDescriptions") or () for line in (*_source(each), "")]
    if kind in ("queryDescription", "query_descriptions"):
        each = [answer["queryDescription"]] if kind == "queryDescription" else answer.get("queryDescriptions") or ()
        return [line for query in each for line in (*_query(query), "")]
    if kind == "type_list":
        rows = [[name, type_text(schema)] for name, schema in (answer.get("types") or {}).items()]
        return Table(["Type Name", "Schema"], rows).lines()
    if kind == "describe_function":
        return _function(answer)
    if kind == "warning_entity":
        return [str(answer.get("message", ""))]
    if kind == "connector_info":
        return [f"Created connector {(answer.get('info') or {}).get('name')}"]
    if kind == "drop_connector":
        return [f'Dropped connector "{answer.get("connectorName")}"']
    if kind == "connector_description":
        return _connector(answer)
    return json.dumps({key: value for key, value in answer.items() if key != "@type"}, indent=2).splitlines()


def _cell(name: str, value: Any) -> str:
    if name in _COUNTS and isinstance(value, Sequence):
        return str(len(value))
    if isinstance(value, Mapping):
        return ", ".join(f"{key}:{item}" for key, item in value.items())
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return "" if value is None else str(value)


def _source(source: Mapping[str, Any]) -> list[str]:
    lines = [f"Name                 : {source.get('name')}"]
    if source.get("extended"):
        details = {
            "Type": "type",
            "Key format": "keyFormat",
            "Value format": "valueFormat",
            "Kafka topic": "topic",
            "Partitions": "partitions",
            "Timestamp field": "timestamp",
            "Windowed": "windowType",
            "Statement": "statement",
        }
        lines += [f"{head:<21}: {source.get(name) or ''}" for head, name in details.items()]
    lines += _fields(source.get("fields") or ())
    for title, name in (("Queries that read from this", "readQueries"), ("Queries that write to this", "writeQueries")):
        queries = source.get(name) or ()
        if queries:
            lines += ["", f"{title}:"]
            lines += [f"{query.get('id')} ({query.get('state')}): {query.get('queryString')}" for query in queries]
    for name in ("statistics", "errorStats"):
        if source.get("extended") and source.get(name):
            lines += ["", str(source[name])]
    return lines


def _fields(fields: Sequence[Mapping[str, Any]]) -> list[str]:
    rows = []
    for field in fields:
        suffix = {"KEY": "(key)", "HEADER": "(header)"}.get(str(field.get("type")), "")
        rows.append([str(field.get("name")), f"{type_text(field.get('schema') or {})} {suffix}".rstrip()])
    return Table(["Field", "Type"], rows).lines()


def _query(query: Mapping[str, Any]) -> list[str]:
    lines = [
        f"ID                   : {query.get('id') or ''}",
        f"Query Type           : {query.get('queryType') or ''}",
        f"Status               : {query.get('state') or ''}",
        f"SQL                  : {query.get('statementText') or ''}",
        *_fields(query.get("fields") or ()),
        f"Sources              : {', '.join(query.get('sources') or ())}",
        f"Sinks                : {', '.join(query.get('sinks') or ())}",
    ]
    lines += [
        f"Error                : {error.get('type')}: {error.get('errorMessage')}"
        for error in query.get("queryErrors") or ()
    ]
    for title, name in (("Execution plan", "executionPlan"), ("Processing topology", "topology")):
        if query.get(name):
            lines += ["", title, "-" * len(title), str(query[name])]
    return lines


def _connector(answer: Mapping[str, Any]) -> list[str]:
    status = answer.get("status") or {}
    connector = status.get("connector") or {}
    lines = [
        f"Name                 : {status.get('name')}",
        f"Class                : {answer.get('connectorClass')}",
        f"Type                 : {status.get('type')}",
        f"State                : {connector.get('state')}",
        f"WorkerId             : {connector.get('worker_id')}",
    ]
    if connector.get("trace"):
        lines.append(f"Trace                : {connector['trace']}")
    tasks = [
        ["" if task.get(name) is None else str(task[name]) for name in ("id", "state", "trace")]
        for task in status.get("tasks") or ()
    ]
    if tasks:
        lines += ["", *Table(["Task ID", "State", "Error Trace"], tasks).lines()]
    sources = [[str(each.get(name)) for name in ("name", "topic", "type")] for each in answer.get("sources") or ()]
    if sources:
        lines += ["", *Table(["Source Name", "Kafka Topic", "Type"], sources).lines()]
    topics = [[str(topic)] for topic in answer.get("topics") or ()]
    return [*lines, "", *Table(["Related Topic"], topics).lines()] if topics else lines


def _function(answer: Mapping[str, Any]) -> list[str]:
    lines = [
        f"Name        : {answer.get('name')}",
        f"Overview    : {answer.get('description') or ''}",
        f"Type        : {answer.get('type')}",
        "Variations  :",
    ]
    for each in answer.get("functions") or ():
        arguments = ", ".join(str(type_) for type_ in each.get("argumentTypes") or ())
        lines.append(f"    {answer.get('name')}({arguments}) -> {each.get('returnType')}")
    return lines


def type_text(schema: Mapping[str, Any]) -> str:
    """A SchemaInfo as SQL.

    Example:
        >>> type_text({"type": "ARRAY", "memberSchema": {"type": "STRING"}})
        'ARRAY<VARCHAR(STRING)>'
    """
    kind, member = str(schema.get("type")), schema.get("memberSchema") or {}
    match kind:
        case "STRING":
            return "VARCHAR(STRING)"
        case "ARRAY":
            return f"ARRAY<{type_text(member)}>"
        case "MAP":
            return f"MAP<STRING, {type_text(member)}>"
        case "STRUCT":
            fields = (f"{field['name']} {type_text(field['schema'])}" for field in schema.get("fields") or ())
            return f"STRUCT<{', '.join(fields)}>"
        case "DECIMAL":
            parameters = schema.get("parameters") or {}
            return f"DECIMAL({parameters.get('precision')}, {parameters.get('scale')})"
    return kind
