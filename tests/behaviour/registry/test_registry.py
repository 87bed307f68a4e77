"""What a registry answers."""

from __future__ import annotations

import json

import pytest

from hayase.core.errors import SchemaRegistryError
from hayase.serde.registry import RegistrySchema, SchemaReference, SchemaRegistry


def record(topic: str, *fields: str, **more: object) -> RegistrySchema:
    """A schema of int fields, made different from other tests' by its namespace."""
    made = [{"name": name, "type": "int"} for name in fields] + [{"name": n, **d} for n, d in more.items()]  # type: ignore[dict-item]
    name = topic.replace("-", "_")
    return RegistrySchema(json.dumps({"type": "record", "name": "R", "namespace": name, "fields": made}))


def test_what_is_registered_is_found_by_id_version_and_schema(registry: SchemaRegistry, topic: str) -> None:
    subject, first = f"{topic}-value", record(topic, "a")
    number = registry.register(subject, first)
    assert registry.register(subject, first) == number
    assert json.loads(registry.schema(number).text) == json.loads(first.text)
    assert registry.versions(subject) == [1]
    assert registry.lookup(subject, first).id == number
    assert subject in registry.subjects()


def test_the_latest_version_is_the_one_registered_last(registry: SchemaRegistry, topic: str) -> None:
    first, second = record(topic, "a"), record(topic, "a", b={"type": "int", "default": 0})
    registry.register(topic, first)
    number = registry.register(topic, second)
    latest = registry.latest(topic)
    assert (latest.id, latest.version) == (number, 2)
    assert registry.version(topic, 1).id != number


def test_the_same_schema_has_the_same_id_in_every_subject(registry: SchemaRegistry, topic: str) -> None:
    schema = record(topic, "a")
    assert registry.register(f"{topic}-key", schema) == registry.register(f"{topic}-value", schema)


def test_references_come_back_with_the_schema(registry: SchemaRegistry, topic: str) -> None:
    used = record(topic, "a")
    name = json.loads(used.text)["namespace"] + ".R"
    registry.register(f"{topic}-r", used)
    schema = RegistrySchema(
        json.dumps({"type": "record", "name": f"{topic.replace('-', '_')}.S", "fields": [{"name": "r", "type": name}]}),
        references=(SchemaReference(name, f"{topic}-r", 1),),
    )
    assert registry.schema(registry.register(f"{topic}-s", schema)).references == schema.references


def test_the_compatibility_level_of_a_subject_can_be_set(registry: SchemaRegistry, topic: str) -> None:
    registry.register(topic, record(topic, "a"))
    registry.set_compatibility("FULL", topic)
    assert registry.compatibility(topic) == "FULL"


def test_a_deleted_subject_is_gone(registry: SchemaRegistry, topic: str) -> None:
    registry.register(topic, record(topic, "a"))
    registry.delete(topic)
    assert topic not in registry.subjects()


@pytest.mark.parametrize(
    "ask", [lambda r: r.schema(987654321), lambda r: r.latest("nobody"), lambda r: r.versions("nobody")]
)
def test_what_is_not_there_is_an_error_that_says_so(registry: SchemaRegistry, ask: object) -> None:
    with pytest.raises(SchemaRegistryError, match=registry.url) as found:
        ask(registry)  # type: ignore[operator]
    assert found.value.condition == "SCHEMA_NOT_FOUND"


@pytest.mark.kafka
def test_a_schema_that_breaks_the_level_is_refused(apicurio_url: str, topic: str) -> None:
    registry = SchemaRegistry(apicurio_url)
    registry.register(topic, record(topic, "a"))
    registry.set_compatibility("BACKWARD", topic)
    breaking = record(topic, "a", "b")
    assert not registry.is_compatible(topic, breaking)
    with pytest.raises(SchemaRegistryError) as found:
        registry.register(topic, breaking)
    assert found.value.condition == "SCHEMA_INCOMPATIBLE"
