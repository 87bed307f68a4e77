"""A registry whose changes wait until all of a script is right."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest

from hayase.core.errors import SchemaRegistryError
from hayase.serde.registry import RegistrySchema
from hayase.sql.registry.embedded import EmbeddedSchemaRegistry
from hayase.sql.registry.staged import StagedSchemaRegistry


def record(name: str, type_: str) -> RegistrySchema:
    return RegistrySchema(json.dumps({"type": "record", "name": "r", "fields": [{"name": name, "type": type_}]}))


def test_what_is_registered_counts_for_later_statements_and_for_others_once_it_is_settled() -> None:
    registry = EmbeddedSchemaRegistry()
    registry.register("old", record("a", "int"))
    staged = StagedSchemaRegistry(registry)
    staged.register("new", record("b", "string"))
    assert (staged.subjects(), registry.subjects()) == (["new", "old"], ["old"])
    assert (staged.latest("new").schema, staged.latest("old").id) == (record("b", "string"), 1)
    staged.settle()
    assert registry.latest("new") == staged.latest("new")
    assert staged.register("newer", record("a", "int")) == 1
    assert registry.subjects() == ["new", "newer", "old"]


def test_a_schema_that_would_be_refused_is_refused_at_once() -> None:
    registry = EmbeddedSchemaRegistry()
    registry.register("s", record("a", "int"))
    staged = StagedSchemaRegistry(registry)
    with pytest.raises(SchemaRegistryError, match=r"SCHEMA_INCOMPATIBLE.*a: int cannot be read as string"):
        staged.register("s", record("a", "string"))
    staged.settle()
    assert registry.versions("s") == [1]


def test_a_schema_that_is_there_keeps_its_id_and_makes_no_version() -> None:
    registry = EmbeddedSchemaRegistry()
    registry.register("s", record("a", "int"))
    registry.register("s", record("a", "long"))
    staged = StagedSchemaRegistry(registry)
    assert staged.register("s", record("a", "int")) == 1
    staged.settle()
    assert registry.versions("s") == [1, 2]


def test_other_processes_get_the_registry_itself(tmp_path: Path) -> None:
    registry = EmbeddedSchemaRegistry.in_folder(tmp_path)
    staged = StagedSchemaRegistry(registry)
    copied = pickle.loads(pickle.dumps(staged))
    assert type(copied) is EmbeddedSchemaRegistry
    assert copied == staged == registry
    assert hash(staged) == hash(registry)


def test_statements_that_do_not_fit_each_other_are_refused_before_any_is_registered() -> None:
    registry = EmbeddedSchemaRegistry()
    staged = StagedSchemaRegistry(registry)
    staged.register("b", record("a", "int"))
    staged.register("a", record("a", "int"))
    with pytest.raises(SchemaRegistryError, match=r"SCHEMA_INCOMPATIBLE.*an earlier statement for 'b'"):
        staged.register("b", record("a", "string"))
    staged.settle()
    assert [registry.latest(subject).id for subject in ("b", "a")] == [1, 1]


def test_what_could_not_be_registered_is_registered_by_the_next_settling(monkeypatch: pytest.MonkeyPatch) -> None:
    registry = EmbeddedSchemaRegistry()
    staged = StagedSchemaRegistry(registry)
    for name in ("b", "a"):
        staged.register(name, record(name, "int"))
    with monkeypatch.context() as away:
        away.setattr(registry, "register", _refuse)
        with pytest.raises(SchemaRegistryError):
            staged.settle()
    staged.settle()
    assert [registry.latest(subject).id for subject in ("b", "a")] == [1, 2]


def _refuse(*_: object, **__: object) -> int:
    raise SchemaRegistryError("REGISTRY_AWAY", "no answer")
