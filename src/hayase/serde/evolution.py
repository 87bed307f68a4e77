"""Whether values that were written under one schema can be read under another."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol, runtime_checkable

from hayase.core.objects import JsonObject
from hayase.serde import bare, numbers
from hayase.serde.json_serde import JsonSerde
from hayase.serde.protocol import Serde
from hayase.serde.uuid_serde import UuidSerde

Description = JsonObject
"""How a serde writes: `serde`, its name; for JSON `schema`, a JSON Schema.

For built-in aggregates `fields`, in the order in which
they are stored, with `name`, `function` and its options. Can be written as JSON."""

AGGREGATE = "AggregateSerde"
"""The `serde` of built-in aggregates."""


@runtime_checkable
class Describing(Protocol):
    """A serde that says itself how it writes."""

    def description(self) -> Description:
        """How it writes."""
        ...


_PLAIN: tuple[type[Serde], ...] = (
    *(bare.StringSerde, bare.BytesSerde, numbers.LongSerde, numbers.IntegerSerde, numbers.ShortSerde),
    *(numbers.DoubleSerde, numbers.FloatSerde, numbers.BooleanSerde, UuidSerde),
)
_READ_AS_WELL = {
    "BytesSerde": {each.__name__ for each in _PLAIN} | {"JsonSerde"},
    "StringSerde": {"UuidSerde", "JsonSerde"},
}
"""Serde → others whose bytes it reads too."""
_MEANING = ("type", "format", "pattern", "enum", "const", "minimum", "maximum", "additionalProperties")


def described(serde: Serde) -> Description | None:
    """How a serde writes; `None` if that is unknown, or is written with each value, as by a schema registry."""
    if isinstance(serde, JsonSerde):
        schema = serde.json_schema()
        return {"serde": "JsonSerde"} if schema is None else {"serde": "JsonSerde", "schema": schema}
    if isinstance(serde, Describing):
        return serde.description()
    return {"serde": type(serde).__name__} if type(serde) in _PLAIN else None


def decoder(description: Description) -> Serde:
    """A serde that reads what was written so, without the types of the program that wrote it.

    JSON as dicts, lists, text and numbers.
    """
    if description["serde"] == "JsonSerde":
        return JsonSerde()
    return next(each for each in _PLAIN if each.__name__ == description["serde"])()


def unreadable(old: Description, new: Description, *, key: bool = False) -> str | None:
    """Why values that `old` wrote cannot all be read by `new`; `None`: they can, as far as is known.

    Keys have to be found again as well: JSON can be read as text, but a text has other bytes as JSON.
    """
    if old["serde"] != new["serde"]:
        if old["serde"] in _READ_AS_WELL.get(new["serde"], ()) and not (key and old["serde"] == "JsonSerde"):
            return None
        return f"they were written by {old['serde']} and are to be read by {new['serde']}"
    if old["serde"] == AGGREGATE:
        return next(_other_fields(old["fields"], new["fields"]), None)
    if "schema" not in old or "schema" not in new:
        return None
    return next(_misfits(_Node(old["schema"], old["schema"]), _Node(new["schema"], new["schema"]), "", 0), None)


def shown(description: Description) -> str:
    """A description in few words."""
    if description["serde"] == AGGREGATE:
        fields = ", ".join(f"{field['name']}={_function(field)}" for field in description["fields"])
        return f"agg({fields})"
    if "schema" not in description:
        return str(description["serde"])
    return _shown(_Node(description["schema"], description["schema"]), 0)


def _other_fields(old: list[Description], new: list[Description]) -> Iterator[str]:
    """What keeps an aggregate from going on with what another one stored."""
    before, after = ({field["name"]: field for field in fields} for fields in (old, new))
    for name, field in after.items():
        if name in before and before[name] != field:
            yield f"field {name!r} was {_function(before[name])}, is to be {_function(field)}"
    yield from (f"field {name!r} is gone" for name in before if name not in after)
    yield from (
        f"field {name!r} is new, and what it would have been is not known" for name in after if name not in before
    )
    if list(before) != list(after):
        yield (
            f"its fields were in the order {', '.join(before)}, in which they are stored, and are to be in the order "
            f"{', '.join(after)}"
        )


def _function(field: Description) -> str:
    options = [
        "" if field.get("size") is None else f"{field['size']}",
        "" if field.get("ignore_nulls", True) else "with nulls",
    ]
    given = ", ".join(filter(None, options))
    return f"{field['function']}({given})" if given else str(field["function"])


class _Node:
    """A part of a JSON Schema, references resolved."""

    def __init__(self, schema: JsonObject, root: JsonObject) -> None:
        while "$ref" in schema:
            schema = root["$defs"][schema["$ref"].rpartition("/")[2]]
        self.schema, self._root = schema, root

    def at(self, part: JsonObject) -> _Node:
        return _Node(part, self._root)

    @property
    def alternatives(self) -> list[_Node]:
        return (
            [each for part in self.schema["anyOf"] for each in self.at(part).alternatives]
            if "anyOf" in self.schema
            else [self]
        )

    @property
    def kind(self) -> str | None:
        return self.schema.get("type")


_DEEPEST = 20
"""Types that hold themselves are compared so far down."""


def _misfits(old: _Node, new: _Node, field: str, depth: int) -> Iterator[str]:
    """What is wrong, first things first; nothing if all that `old` describes is what `new` describes."""
    if depth > _DEEPEST:
        return
    targets = new.alternatives
    for alternative in old.alternatives:
        reasons_of_targets = [list(_one_misfit(alternative, target, field, depth)) for target in targets]
        if all(reasons_of_targets):
            yield min(reasons_of_targets, key=lambda reasons: "is to be" in reasons[0])[0]


def _one_misfit(old: _Node, new: _Node, field: str, depth: int) -> Iterator[str]:
    if not new.schema or not old.schema:  # any value, or it is not known which
        return
    what = f"field {field!r}" if field else "the value"
    if old.kind == new.kind == "object":
        yield from _misfits_of_fields(old, new, field, depth)
    elif old.kind == new.kind == "array":
        if "items" in old.schema and "items" in new.schema:
            yield from _misfits(old.at(old.schema["items"]), new.at(new.schema["items"]), f"{field}[]", depth + 1)
    elif old.kind == "integer" and new.kind == "number":
        return
    elif old.kind == new.kind == "integer":
        low, high = (_bound(new, name) for name in ("minimum", "maximum"))
        if not (low <= _bound(old, "minimum") and _bound(old, "maximum") <= high):
            yield f"{what} was {_shown(old, 0)}, is to be {_shown(new, 0)}"
    elif any(old.schema.get(name) != new.schema.get(name) for name in _MEANING if name in new.schema):
        yield f"{what} was {_shown(old, 0)}, is to be {_shown(new, 0)}"


def _bound(node: _Node, name: str) -> float:
    unlimited = float("-inf") if name == "minimum" else float("inf")
    return float(node.schema.get(name, unlimited))


def _misfits_of_fields(old: _Node, new: _Node, field: str, depth: int) -> Iterator[str]:
    before, after = old.schema.get("properties", {}), new.schema.get("properties", {})
    for name, part in after.items():
        path = f"{field}.{name}" if field else name
        if name in before:
            yield from _misfits(old.at(before[name]), new.at(part), path, depth + 1)
        elif name in new.schema.get("required", ()):
            yield f"field {path!r} is new and has no default"
    if new.schema.get("additionalProperties") is False and (gone := sorted(before.keys() - after.keys())):
        yield f"field {gone[0]!r} is gone, and the type forbids fields it does not have"


def _shown(node: _Node, depth: int) -> str:
    if depth > 2:
        return "…"
    options = node.alternatives
    if len(options) > 1:
        return " | ".join(dict.fromkeys(_shown(each, depth) for each in options))
    schema = node.schema
    if node.kind == "object" and "properties" in schema:
        required = schema.get("required", ())
        parts = (
            f"{name}{'' if name in required else '?'}: {_shown(node.at(part), depth + 1)}"
            for name, part in schema["properties"].items()
        )
        return "{" + ", ".join(parts) + "}"
    if node.kind == "array" and "items" in schema:
        return f"[{_shown(node.at(schema['items']), depth + 1)}]"
    limits = [schema[name] for name in ("minimum", "maximum") if name in schema]
    described = str(schema.get("format") or node.kind or "any")
    return described if not limits or limits == [-(2**63), 2**63 - 1] else f"{described} {limits[0]}…{limits[-1]}"
