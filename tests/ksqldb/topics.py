"""The topics and schemas that a case has before its statements run."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tests.ksqldb.cases import Case
from tests.ksqldb.codecs import json_text

from hayase.core.errors import HayaseError, SchemaRegistryError
from hayase.serde.registry import RegistrySchema, SchemaReference
from hayase.sql.ast.statements import CreateSource, CreateType
from hayase.sql.engine import SqlEngine
from hayase.sql.functions.java.hash_order import text_hash
from hayase.sql.grammar.parser import ParsedStatement
from hayase.sql.registry.embedded import EmbeddedSchemaRegistry
from hayase.sql.statements.topics import MemoryTopics

if TYPE_CHECKING:
    from tests.ksqldb.driver import Session

PARTITIONS = 4
_KINDS = {"AVRO": "AVRO", "PROTOBUF": "PROTOBUF", "JSON": "JSON", "JSON_SR": "JSON", None: "AVRO"}
_SMALLEST_TABLE = 16


def prepare_topics(case: Case, statements: Sequence[ParsedStatement], session: Session) -> None:
    """Create the topics of a case, and register their schemas: those it gives, else those of the columns."""
    given = {topic["name"]: topic for topic in case.topics}
    declared = dict(_declared(statements))
    named = [record.topic for record in (*case.inputs, *case.outputs)]
    topics = list(dict.fromkeys([*given, *declared, *named]))
    for topic in topics:
        counts = [each.get("partitions") for each in (given.get(topic), declared.get(topic)) if each]
        partitions = next((count for count in counts if count is not None), PARTITIONS)
        session.topics.create(topic, int(partitions), int((given.get(topic) or {}).get("replicas") or 1))
    session.registry.set_compatibility("NONE")
    generated = _generated(statements, session)
    for topic in _in_hash_order(topics):
        for side in ("key", "value"):
            if (given.get(topic) or {}).get(f"{side}Schema") is not None:
                _register(given[topic], side, session)
            elif f"{topic}-{side}" in generated:
                session.registry.register(f"{topic}-{side}", generated[f"{topic}-{side}"])


def _declared(statements: Sequence[ParsedStatement]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for parsed in statements:
        statement = parsed.statement
        if isinstance(statement, CreateSource) and statement.columns is not None:
            properties = {name.upper(): getattr(value, "value", None) for name, value in statement.properties}
            if properties.get("KAFKA_TOPIC"):
                yield str(properties["KAFKA_TOPIC"]), {"partitions": properties.get("PARTITIONS")}


def _generated(statements: Sequence[ParsedStatement], session: Session) -> Mapping[str, RegistrySchema]:
    """The schemas that the columns of CREATE statements make, by subject."""
    registry = EmbeddedSchemaRegistry()
    registry.set_compatibility("NONE")
    engine = SqlEngine(session.engine.settings, session.engine.functions, registry, MemoryTopics({}, PARTITIONS))
    for parsed in statements:
        if isinstance(parsed.statement, CreateType) or (
            isinstance(parsed.statement, CreateSource) and parsed.statement.columns is not None
        ):
            with contextlib.suppress(HayaseError):  # the case itself says whether that is right
                engine.execute(parsed)
    schemas = {}
    for subject in registry.subjects():
        with contextlib.suppress(SchemaRegistryError):
            schemas[subject] = registry.latest(subject).schema
    return schemas


def _in_hash_order(topics: Sequence[str]) -> list[str]:
    """Topics as a Java HashMap of default size iterates them: the ids of schemas follow that order."""
    table = _SMALLEST_TABLE
    while len(topics) > table * 3 // 4:
        table *= 2
    codes = {topic: text_hash(topic) for topic in topics}
    return sorted(topics, key=lambda topic: (codes[topic] ^ codes[topic] >> 16) & table - 1)


def _register(topic: Mapping[str, Any], side: str, session: Session) -> None:
    references = []
    for each in topic.get(f"{side}SchemaReferences") or ():
        session.registry.register(each["name"], RegistrySchema(schema_text(each["schema"]), _KINDS[each.get("format")]))
        references.append(SchemaReference(each["name"], each["name"], 1))
    schema = RegistrySchema(schema_text(topic[f"{side}Schema"]), _KINDS[topic.get(f"{side}Format")], tuple(references))
    subject = f"{topic['name']}-{side}"
    schema_id = topic.get(f"{side}SchemaId")
    if schema_id is None:
        session.registry.register(subject, schema)
    else:
        session.registry.register_with_id(subject, schema, schema_id)


def schema_text(schema: Any) -> str:
    """A schema as the registry takes it."""
    return schema if isinstance(schema, str) and not _is_name(schema) else json_text(schema)


def _is_name(schema: str) -> bool:
    """Whether a text is Avro's name of a type, which is JSON in quotes, and no .proto file."""
    return "=" not in schema and "{" not in schema
