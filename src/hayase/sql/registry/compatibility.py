"""Which schemas may follow which under a compatibility level."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from hayase.core.errors import SchemaRegistryError
from hayase.serde import evolution
from hayase.serde.avro_schema import AvroSchema, inlined, load
from hayase.serde.registry import RegistrySchema, SchemaReference
from hayase.sql.formats.protobuf_columns import compiled_schema
from hayase.sql.registry import avro_rules, protobuf_rules

LEVELS = ("BACKWARD", "BACKWARD_TRANSITIVE", "FORWARD", "FORWARD_TRANSITIVE", "FULL", "FULL_TRANSITIVE", "NONE")
"""All levels."""

Fetch = Callable[[SchemaReference], RegistrySchema]
"""Gets a schema that another one refers to."""


def check_level(level: str) -> str:
    """The level in capitals; raises SchemaRegistryError `INVALID_SCHEMA` if there is none of that name."""
    if level.upper() not in LEVELS:
        raise SchemaRegistryError(
            "INVALID_SCHEMA", f"there is no compatibility level {level!r}; allowed are {', '.join(LEVELS)}"
        )
    return level.upper()


def problems(level: str, before: Sequence[RegistrySchema], schema: RegistrySchema, fetch: Fetch) -> Iterator[str]:
    """What keeps a schema from following others; nothing: it may.

    Args:
        level: one of LEVELS.
        before: the versions that are there, oldest first.
        schema: the new one.
        fetch: gets what they refer to.
    """
    if level == "NONE":
        return
    compared = before if level.endswith("_TRANSITIVE") else before[-1:]
    for old in reversed(compared):
        if old.kind != schema.kind:
            yield f"a schema of kind {schema.kind} cannot follow one of kind {old.kind}"
            continue
        if level.startswith(("BACKWARD", "FULL")):
            yield from unreadable(old, schema, fetch)
        if level.startswith(("FORWARD", "FULL")):
            yield from unreadable(schema, old, fetch)


def unreadable(written: RegistrySchema, reading: RegistrySchema, fetch: Fetch) -> Iterator[str]:
    """What keeps values of one schema from being read by another one of the same kind."""
    match written.kind:
        case "AVRO":
            yield from avro_rules.problems(parsed_avro(written, fetch).parsed, parsed_avro(reading, fetch).parsed)
        case "PROTOBUF":
            yield from protobuf_rules.problems(compiled_schema(written, fetch), compiled_schema(reading, fetch))
        case "JSON":
            before, after = ({"serde": "JsonSerde", "schema": _any_of(json.loads(s.text))} for s in (written, reading))
            reason = evolution.unreadable(before, after)
            if reason is not None:
                yield reason


def parsed_avro(schema: RegistrySchema, fetch: Fetch) -> AvroSchema:
    """An Avro schema with what it refers to; raises ConfigError `INVALID_SCHEMA`."""
    named: dict[str, Any] = {}
    pending = list(schema.references)
    while pending:
        reference = pending.pop()
        if reference.name not in named:
            used = fetch(reference)
            named[reference.name] = load(used.text)
            pending += used.references
    return AvroSchema(inlined(load(schema.text), named))


def _any_of(schema: Any) -> Any:
    """A JSON Schema with `anyOf` for `oneOf`, which means the same here."""
    if isinstance(schema, list):
        return [_any_of(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {"anyOf" if key == "oneOf" else key: _any_of(part) for key, part in schema.items()}
