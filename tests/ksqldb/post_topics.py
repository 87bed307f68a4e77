"""The topics that must be there when a case has run: formats, schemas, partitions, and how often rows change their key.

ksqlDB's names of topics between steps are those of its own plan, and so are their formats. Of these only the number
counts here: a query must not partition its rows again less often than ksqlDB's plan.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Literal

from tests.ksqldb.codecs import json_text

from hayase.core.errors import SchemaRegistryError
from hayase.sql.catalog.sources import DataSource
from hayase.sql.engine import SqlEngine
from hayase.sql.formats.support import features
from hayase.sql.registry.embedded import EmbeddedSchemaRegistry
from hayase.sql.statements.results import PersistentQuery
from hayase.sql.statements.topics import MemoryTopics

SIDES: tuple[Literal["key", "value"], ...] = ("key", "value")


def wrong_topic(
    expected: Iterable[Mapping[str, Any]],
    engine: SqlEngine,
    registry: EmbeddedSchemaRegistry,
    topics: MemoryTopics,
    queries: Collection[PersistentQuery],
) -> str | None:
    """What is wrong with the topics; `None` if nothing is."""
    repartitions, sinks = 0, {query.sink_topic for query in queries}
    for topic in expected:
        source = next((each for each in engine.catalog if each.topic == topic["name"]), None)
        if source is not None:
            # ksqlDB's tests give every sink four partitions, whatever its source has.
            counts = None if source.topic in sinks else topics
            problem = _wrong(topic, source, registry, counts)
            if problem is not None:
                return f"topic {topic['name']}: {problem}"
        repartitions += topic["name"].endswith("-repartition")
    own = {name for query in queries for name in internal_topics(query) if name.endswith("-repartition")}
    if len(own) < repartitions:
        return f"{len(own)} repartition topics, expected {repartitions}"
    return None


def internal_topics(query: PersistentQuery) -> list[str]:
    """The topics between the steps of a query."""
    return re.findall(r"[^\s\[\]]+-(?:repartition|changelog)\b", str(query.topology.describe()))


def _wrong(
    expected: Mapping[str, Any], source: DataSource, registry: EmbeddedSchemaRegistry, topics: MemoryTopics | None
) -> str | None:
    for side in SIDES:
        wanted = {name: part for name, part in (expected.get(f"{side}Format") or {}).items() if part}
        actual = _format(source, side)
        if wanted and actual != wanted:
            return f"{side} format {actual}, expected {wanted}"
        schema = expected.get(f"{side}Schema")
        if schema is not None:
            problem = _wrong_schema(schema, f"{source.topic}-{side}", registry)
            if problem is not None:
                return problem
    partitions = expected.get("partitions")
    if topics is not None and partitions is not None and topics.partitions(source.topic) != partitions:
        return f"{topics.partitions(source.topic)} partitions, expected {partitions}"
    return None


def _format(source: DataSource, side: Literal["key", "value"]) -> dict[str, Any]:
    format_, columns = (source.key_format, source.key) if side == "key" else (source.value_format, source.value)
    parts = {
        "format": format_.name,
        "properties": dict(format_.properties),
        "features": list(features(format_, side, len(columns))),
    }
    if side == "key" and source.window is not None:
        parts["windowInfo"] = {"type": source.window.kind.value}
        if source.window.size_ms is not None:
            parts["windowInfo"]["size"] = source.window.size_ms / 1000
    return {name: part for name, part in parts.items() if part}


def _wrong_schema(expected: Any, subject: str, registry: EmbeddedSchemaRegistry) -> str | None:
    try:
        actual = registry.latest(subject).schema.text
    except SchemaRegistryError as error:
        return str(error)
    if isinstance(expected, str) and "{" in expected:
        equal = "".join(actual.split()) == "".join(expected.split())
    else:
        equal = json.loads(actual) == json.loads(json_text(expected))
    return None if equal else f"schema {actual}, expected {json_text(expected)}"
