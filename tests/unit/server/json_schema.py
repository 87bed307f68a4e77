"""A validator of the part of JSON Schema that the schemas of answers use; any other keyword is an error."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

_TYPES: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
    "array": (list,),
    "object": (dict,),
}
_KEYWORDS = {
    "$ref",
    "additionalProperties",
    "anyOf",
    "const",
    "enum",
    "items",
    "pattern",
    "properties",
    "required",
    "type",
}


def errors(value: Any, schema: Mapping[str, Any], document: Mapping[str, Any], path: str = "") -> Iterator[str]:
    """What is wrong with a value, each with its path.

    Args:
        value: from JSON.
        schema: a part of the document.
        document: with `$defs`.
        path: of the value.
    """
    assert not schema.keys() - _KEYWORDS, schema.keys() - _KEYWORDS
    if "$ref" in schema:
        yield from errors(value, document["$defs"][schema["$ref"].removeprefix("#/$defs/")], document, path)
    if "anyOf" in schema and all(any(errors(value, each, document)) for each in schema["anyOf"]):
        yield f"{path}: {value!r} is none of the allowed forms"
    if "const" in schema and value != schema["const"]:
        yield f"{path}: {value!r} is not {schema['const']!r}"
    if "enum" in schema and value not in schema["enum"]:
        yield f"{path}: {value!r} is none of {schema['enum']}"
    if "type" in schema and not _is_of(value, schema["type"]):
        yield f"{path}: {value!r:.80} is no {schema['type']}"
    elif isinstance(value, str) and not re.search(schema.get("pattern", ""), value):
        yield f"{path}: {value!r} does not match {schema['pattern']}"
    elif isinstance(value, list):
        for place, item in enumerate(value):
            yield from errors(item, schema.get("items", {}), document, f"{path}[{place}]")
    elif isinstance(value, dict):
        yield from _of_object(value, schema, document, path)


def _of_object(
    value: Mapping[str, Any], schema: Mapping[str, Any], document: Mapping[str, Any], path: str
) -> Iterator[str]:
    properties, others = schema.get("properties", {}), schema.get("additionalProperties", True)
    for name in schema.get("required", ()):
        if name not in value:
            yield f"{path}.{name} is missing"
    for name, item in value.items():
        if name in properties:
            yield from errors(item, properties[name], document, f"{path}.{name}")
        elif others is False:
            yield f"{path}.{name} is not known"
        elif others is not True:
            yield from errors(item, others, document, f"{path}.{name}")


def _is_of(value: Any, kinds: str | list[str]) -> bool:
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if isinstance(value, bool):
        return "boolean" in kinds
    return any(isinstance(value, _TYPES[kind]) for kind in kinds)
