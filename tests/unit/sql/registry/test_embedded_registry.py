"""The embedded schema registry: ids, versions, deletes, compatibility, and several processes in one folder."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest

from hayase.core.errors import ConfigError, SchemaRegistryError
from hayase.serde.avro_serde import AvroSerde
from hayase.serde.registry import Kind, RegistrySchema, SchemaReference
from hayase.sql.registry import EmbeddedSchemaRegistry
from hayase.sql.registry.embedded import _IN_MEMORY


def record(**fields: Any) -> RegistrySchema:
    """An Avro record; a tuple is a type with its default."""
    made = [
        {"name": name, "type": given[0], "default": given[1]}
        if isinstance(given, tuple)
        else {"name": name, "type": given}
        for name, given in fields.items()
    ]
    return RegistrySchema(json.dumps({"type": "record", "name": "r", "fields": made}))


def enum(*symbols: str) -> dict[str, Any]:
    return {"type": "enum", "name": "e", "symbols": symbols}


def proto(body: str) -> RegistrySchema:
    return RegistrySchema(f'syntax = "proto3"; {body}', "PROTOBUF")


PART = (SchemaReference("r", "part", 1),)


def properties(*required: str, **types: str) -> RegistrySchema:
    made = {name: {"type": type_} for name, type_ in types.items()}
    return RegistrySchema(json.dumps({"type": "object", "properties": made, "required": list(required)}), "JSON")


@pytest.fixture(params=["memory", "folder"])
def registry(request: pytest.FixtureRequest, tmp_path: Path) -> EmbeddedSchemaRegistry:
    return EmbeddedSchemaRegistry() if request.param == "memory" else EmbeddedSchemaRegistry.in_folder(tmp_path)


def test_equal_schemas_have_one_id_and_every_subject_its_versions(registry: EmbeddedSchemaRegistry) -> None:
    first, second = record(a="int"), record(a="int", b=("int", 0))
    spaced = RegistrySchema(first.text.replace(",", " , "))
    assert [registry.register("s", each) for each in (first, second, spaced)] == [1, 2, 1]
    assert registry.register("other", first) == 1
    assert (registry.versions("s"), registry.versions("other")) == ([1, 2], [1])
    assert registry.latest("s").id == registry.version("s", 2).id == registry.lookup("s", second).id == 2
    assert registry.subjects() == ["other", "s"]


def test_what_is_not_there_is_not_found(registry: EmbeddedSchemaRegistry) -> None:
    registry.register("s", record(a="int"))
    for missing in (
        lambda: registry.latest("t"),
        lambda: registry.version("s", 2),
        lambda: registry.schema(9),
        lambda: registry.lookup("s", record(b="int")),
        lambda: registry.delete("t"),
    ):
        with pytest.raises(SchemaRegistryError, match="SCHEMA_NOT_FOUND"):
            missing()


def test_a_deleted_subject_can_still_be_read_by_id(registry: EmbeddedSchemaRegistry) -> None:
    registry.register("s", record(a="int"))
    registry.delete("s")
    assert registry.subjects() == []
    assert registry.schema(1) == record(a="int")
    assert registry.register("s", record(a="int")) == 1
    assert registry.versions("s") == [2]


def test_a_purged_subject_is_gone(registry: EmbeddedSchemaRegistry) -> None:
    registry.register("s", record(a="int"))
    registry.delete("s", permanent=True)
    with pytest.raises(SchemaRegistryError, match="SCHEMA_NOT_FOUND"):
        registry.schema(1)


def test_the_id_of_a_purged_schema_is_never_given_to_another_one(registry: EmbeddedSchemaRegistry) -> None:
    first, second = record(a="int"), record(b="string")
    registry.register("s", first)
    registry.delete("s", permanent=True)
    assert registry.register("t", second) == 2
    assert registry.register("u", first) == registry.register("v", first) == 3
    assert (registry.schema(2), registry.schema(3)) == (second, first)


def test_what_other_schemas_refer_to_cannot_be_deleted(registry: EmbeddedSchemaRegistry) -> None:
    registry.register("part", record(a="int"))
    registry.register("whole", RegistrySchema(record(p="r").text.replace('"name": "r"', '"name": "w"'), "AVRO", PART))
    with pytest.raises(SchemaRegistryError, match=r"SCHEMA_REFERENCED.*schemas of whole refer to 'part'"):
        registry.delete("part")
    registry.delete("whole")
    with pytest.raises(SchemaRegistryError, match="SCHEMA_REFERENCED"):
        registry.delete("part", permanent=True)
    registry.delete("whole", permanent=True)
    registry.delete("part", permanent=True)
    assert registry.subjects() == []


def test_a_schema_keeps_the_id_of_another_registry(registry: EmbeddedSchemaRegistry) -> None:
    assert registry.register_with_id("s", record(a="int"), 100) == 100
    assert registry.register("s", record(a="int", b=("int", 0))) == 101
    with pytest.raises(SchemaRegistryError, match="another schema has the id 100"):
        registry.register_with_id("s", record(c="int"), 100)


@pytest.mark.parametrize(
    ("schema", "kind"), [('{"type": "record"}', "AVRO"), ("{", "JSON"), ('{"type": "nothing"}', "AVRO")]
)
def test_what_is_no_schema_is_refused(schema: str, kind: Kind, registry: EmbeddedSchemaRegistry) -> None:
    with pytest.raises(SchemaRegistryError, match="INVALID_SCHEMA"):
        registry.register("s", RegistrySchema(schema, kind))


@pytest.mark.long
@pytest.mark.parametrize(
    ("old", "new"),
    [
        (record(a="int"), record(a="long", b=(["null", "int"], None))),
        (record(a="int", b="string"), record(a=["null", "int"])),
        (record(a=enum("X")), record(a=enum("X", "Y"))),
        (proto("message M {int32 a = 1; string b = 2;}"), proto("message M {int64 a = 1; bytes b = 2; int32 c = 3;}")),
        (proto("message M {int32 a = 1; string b = 2;}"), proto("message M {int32 a = 1;}")),
        (properties(a="integer"), properties(a="number", b="string")),
    ],
)
def test_readers_of_the_new_schema_can_read_the_old_one(
    old: RegistrySchema, new: RegistrySchema, registry: EmbeddedSchemaRegistry
) -> None:
    registry.register("s", old)
    assert registry.is_compatible("s", new)
    registry.register("s", new)


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (record(a="int"), record(a="string"), "a: int cannot be read as string"),
        (record(a="long"), record(a="int"), "a: long cannot be read as int"),
        (record(a="int"), record(a="int", b="int"), "b is new and has no default"),
        (record(a=["null", "int"]), record(a="int"), "a: null cannot be read as int"),
        (proto("message M {int32 a = 1;}"), proto("message M {string a = 1;}"), "cannot be read as text or bytes"),
        (proto("message M {int32 a = 1;}"), proto("message N {int32 a = 1;}"), "message M is gone"),
        (properties(a="integer"), properties(a="string"), "'a' was integer, is to be string"),
        (properties(a="integer"), properties("b", a="integer", b="integer"), "'b' is new"),
        (record(a="int"), properties(a="integer"), "kind JSON cannot follow one of kind AVRO"),
    ],
)
def test_an_incompatible_schema_is_refused(
    old: RegistrySchema, new: RegistrySchema, reason: str, registry: EmbeddedSchemaRegistry
) -> None:
    registry.register("s", old)
    assert not registry.is_compatible("s", new)
    with pytest.raises(SchemaRegistryError, match=reason):
        registry.register("s", new)
    registry.set_compatibility("NONE", "s")
    assert registry.register("s", new) == 2


def test_levels_say_which_direction_and_how_many_versions_count(registry: EmbeddedSchemaRegistry) -> None:
    assert registry.compatibility() == "BACKWARD"
    with pytest.raises(SchemaRegistryError, match="no compatibility level 'SIDEWAYS'"):
        registry.set_compatibility("SIDEWAYS")
    registry.set_compatibility("FORWARD", "s")
    assert registry.compatibility("s") == "FORWARD"
    registry.register("s", record(a="int"))
    registry.register("s", record(a="int", b="int"))
    with pytest.raises(SchemaRegistryError, match="b is new and has no default"):
        registry.register("s", record(a="int", c="int"))
    registry.set_compatibility("BACKWARD_TRANSITIVE", "t")
    registry.register("t", record(a=("int", 0)))
    registry.register("t", record(b=("string", "")))
    with pytest.raises(SchemaRegistryError, match="a: int cannot be read as string"):
        registry.register("t", record(a=("string", ""), b=("string", "")))


def test_references_are_followed(registry: EmbeddedSchemaRegistry) -> None:
    registry.register("point", RegistrySchema('{"type": "record", "name": "shop.Point", "fields": []}'))
    references = (SchemaReference("shop.Point", "point", 1),)
    schema = RegistrySchema(record(at="shop.Point").text, "AVRO", references)
    assert registry.register("s", schema) == 2
    with pytest.raises(SchemaRegistryError, match="INVALID_SCHEMA"):
        registry.register("s", record(at="shop.Point"))


def test_serdes_work_with_it(registry: EmbeddedSchemaRegistry) -> None:
    serde = AvroSerde("string", registry).for_topic("words", "key", {})
    assert serde.deserialize(serde.serialize("hi")) == "hi"
    assert registry.subjects() == ["words-key"]


def test_processes_of_one_folder_see_each_others_changes(tmp_path: Path) -> None:
    one, two = EmbeddedSchemaRegistry.in_folder(tmp_path), EmbeddedSchemaRegistry.in_folder(tmp_path)
    assert one == two
    assert one.register("s", record(a="int")) == 1
    assert two.register("t", record(b="int")) == 2
    two.set_compatibility("NONE")
    assert one.subjects() == ["s", "t"]
    assert one.compatibility() == "NONE"
    copy = pickle.loads(pickle.dumps(one))
    assert copy.schema(2) == record(b="int")


def test_one_in_memory_can_be_pickled_within_its_process_only() -> None:
    registry = EmbeddedSchemaRegistry()
    data = pickle.dumps(registry)
    assert pickle.loads(data) is registry
    del _IN_MEMORY[registry._number]
    with pytest.raises(ConfigError, match="in one process only"):
        pickle.loads(data)
