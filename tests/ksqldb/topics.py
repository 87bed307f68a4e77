"""The topics and schemas that a case has before its statements run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tests.ksqldb.cases import Case
from tests.ksqldb.codecs import json_text

from hayase.serde.registry import RegistrySchema, SchemaReference
from hayase.sql.ast.expressions import Expression
from hayase.sql.ast.statements import CreateSource
from hayase.sql.grammar.parser import ParsedStatement

if TYPE_CHECKING:
    from tests.ksqldb.driver import Session

PARTITIONS = 4
_KINDS = {"AVRO": "AVRO", "PROTOBUF": "PROTOBUF", "JSON": "JSON", "JSON_SR": "JSON", None: "AVRO"}


def prepare_topics(case: Case, statements: Sequence[ParsedStatement], session: Session) -> None:
    """Create the topics of a case, and register the schemas that it gives for them."""
    given = {topic["name"]: topic for topic in case.topics}
    declared = dict(_declared(statements))
    named = [record.topic for record in (*case.inputs, *case.outputs)]
    for topic in dict.fromkeys([*given, *declared, *named]):
        counts = [each.get("partitions") for each in (given.get(topic), declared.get(topic)) if each]
        partitions = next((count for count in counts if count is not None), PARTITIONS)
        session.topics.create(topic, int(partitions), int((given.get(topic) or {}).get("replicas") or 1))
    for topic in case.topics:
        for side in ("key", "value"):
            if topic.get(f"{side}Schema") is not None:
                _register(topic, side, session)


def _declared(statements: Sequence[ParsedStatement]) -> Iterable[tuple[str, Mapping[str, Any]]]:
    for parsed in statements:
        statement = parsed.statement
        if isinstance(statement, CreateSource) and statement.columns is not None:
            properties = {name.upper(): _literal(value) for name, value in statement.properties}
            if properties.get("KAFKA_TOPIC"):
                yield str(properties["KAFKA_TOPIC"]), {"partitions": properties.get("PARTITIONS")}


def _literal(expression: Expression) -> Any:
    return getattr(expression, "value", None)


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
