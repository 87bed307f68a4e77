"""What must hold when a case has run: sources, their schemas, and the topics of its queries."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

from tests.ksqldb.cases import Case
from tests.ksqldb.post_topics import internal_topics, wrong_topic

from hayase.sql.ast.statements import ColumnKind, CreateSource
from hayase.sql.catalog.sources import DataSource
from hayase.sql.engine import SqlEngine
from hayase.sql.formats.support import features
from hayase.sql.grammar.parser import parse_statement
from hayase.sql.registry.embedded import EmbeddedSchemaRegistry
from hayase.sql.statements.results import PersistentQuery
from hayase.sql.statements.topics import MemoryTopics


def broken_post_condition(
    case: Case,
    engine: SqlEngine,
    registry: EmbeddedSchemaRegistry,
    topics: MemoryTopics,
    queries: Collection[PersistentQuery],
) -> str | None:
    """Which condition does not hold; `None` if all do."""
    for expected in case.post.get("sources") or ():
        problem = _wrong_source(expected, engine)
        if problem is not None:
            return f"source {expected['name']}: {problem}"
    blacklist = (case.post.get("topics") or {}).get("blacklist")
    if blacklist is not None:
        names = [name for query in queries for name in internal_topics(query)]
        found = [name for name in names if re.search(blacklist, name)]
        if found:
            return f"the topics {found} must not be there"
    expected_topics = (case.post.get("topics") or {}).get("topics") or ()
    return _wrong_schema(case, engine) or wrong_topic(expected_topics, engine, registry, topics, queries)


def _wrong_source(expected: Mapping[str, Any], engine: SqlEngine) -> str | None:
    source = engine.catalog.find(expected["name"])
    if source is None:
        return "is not there"
    if source.kind.value != expected["type"].upper():
        return f"is a {source.kind.value}"
    schema = expected.get("schema")
    if schema is not None and _by_kind(_columns(schema)) != _by_kind(_columns_of(source)):
        return f"has the schema {source.schema_text}, expected {schema}"
    for side, format_ in (("key", source.key_format), ("value", source.value_format)):
        problem = _wrong_format(expected, side, source, format_.name)
        if problem is not None:
            return problem
    if expected.get("isSource") is not None and expected["isSource"] != source.is_source:
        return f"is_source is {source.is_source}"
    return None


def _wrong_format(expected: Mapping[str, Any], side: str, source: DataSource, name: str) -> str | None:
    wanted = expected.get(f"{side}Format")
    if side == "key" and wanted is not None:
        if wanted.get("format", name) != name:
            return f"key format {name}, expected {wanted['format']}"
        window = source.window
        actual = (None, None) if window is None else (window.kind.value, window.size_ms)
        size = wanted.get("windowSize")
        if actual != (wanted.get("windowType"), None if size is None else int(size)):
            return f"key window {actual}, expected {wanted}"
    elif wanted is not None and (wanted["format"] if isinstance(wanted, Mapping) else wanted) != name:
        return f"value format {name}, expected {wanted}"
    wanted_features = expected.get(f"{side}Features")
    if wanted_features is None:
        return None
    format_ = source.key_format if side == "key" else source.value_format
    columns = source.key if side == "key" else source.value
    actual_features = list(features(format_, side, len(columns)))  # type: ignore[arg-type]
    return None if sorted(actual_features) == sorted(wanted_features) else f"{side} features {actual_features}"


def _columns(schema: str) -> list[tuple[str, str, str]]:
    """Columns of a schema's text, with types in one spelling; KEY and PRIMARY KEY are the same."""
    kind = "TABLE" if "PRIMARY KEY" in schema.upper() else "STREAM"
    statement = parse_statement(f"CREATE {kind} S ({schema});").statement
    assert isinstance(statement, CreateSource) and statement.columns is not None
    return [
        (
            column.name,
            str(column.type),
            "KEY" if column.kind is ColumnKind.PRIMARY_KEY else column.kind.value + (column.header_key or ""),
        )
        for column in statement.columns
    ]


def _by_kind(columns: list[tuple[str, str, str]]) -> list[tuple[str, str, str]]:
    """Keys, values and headers, each in their order: how they are mixed does not count."""
    return sorted(columns, key=lambda column: {"KEY": 0, "VALUE": 1}.get(column[2], 2))


def _columns_of(source: DataSource) -> list[tuple[str, str, str]]:
    keys = {column.name for column in source.key}
    headers = {each.name: "HEADERS" if each.key is None else f"HEADER{each.key}" for each in source.headers}
    return [
        (name, str(type_), "KEY" if name in keys else headers.get(name, "VALUE"))
        for name, type_ in source.columns.items()
    ]


def _wrong_schema(case: Case, engine: SqlEngine) -> str | None:
    for expected in case.schemas or ():
        source = engine.catalog.find(expected["name"])
        if source is None:
            continue  # dropped by a later statement
        if _by_kind(_columns(expected["schema"])) != _by_kind(_columns_of(source)):
            return f"source {expected['name']} has the schema {source.schema_text}, expected {expected['schema']}"
    return None
