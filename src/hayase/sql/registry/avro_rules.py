"""Whether Avro values of one schema can be read by another one: Avro's rules of resolution."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

_PROMOTED = {
    "int": {"long", "float", "double"},
    "long": {"float", "double"},
    "float": {"double"},
    "string": {"bytes"},
    "bytes": {"string"},
}
"""Written type → others that it can be read as."""


def problems(written: Any, reading: Any) -> Iterator[str]:
    """What keeps values of `written` from being read by `reading`; nothing: all can be read.

    Args:
        written: a schema as AvroSchema.parsed has it: full names, defined at their first mention.
        reading: another one.
    """
    yield from _Resolution(written, reading).problems(written, reading, "")


class _Resolution:
    def __init__(self, written: Any, reading: Any) -> None:
        self._written: dict[str, Any] = {}
        self._reading: dict[str, Any] = {}
        _collect(written, self._written)
        _collect(reading, self._reading)
        self._seen: set[tuple[str, str]] = set()

    def problems(self, written: Any, reading: Any, path: str) -> Iterator[str]:
        if isinstance(written, list):
            for branch in written:
                yield from self.problems(branch, reading, path)
            return
        if isinstance(reading, list):
            tried = [next(self.problems(written, branch, path), None) for branch in reading]
            if None not in tried:
                yield f"{path or 'the value'}: {_named(written)} is none of {', '.join(map(_named, reading))}"
            return
        written = self._written.get(written, written) if isinstance(written, str) else written
        reading = self._reading.get(reading, reading) if isinstance(reading, str) else reading
        kinds = _kind(written), _kind(reading)
        if kinds[0] != kinds[1]:
            if kinds[1] not in _PROMOTED.get(kinds[0], ()):
                yield f"{path or 'the value'}: {kinds[0]} cannot be read as {kinds[1]}"
            return
        match kinds[0]:
            case "record":
                yield from self._record(written, reading, path)
            case "array":
                yield from self.problems(written["items"], reading["items"], f"{path}[]")
            case "map":
                yield from self.problems(written["values"], reading["values"], f"{path}[]")
            case "enum":
                missing = sorted(set(written["symbols"]) - set(reading["symbols"]))
                if missing and "default" not in reading:
                    yield f"{path or 'the value'}: symbols are gone: {', '.join(missing)}"
            case "fixed":
                if written["size"] != reading["size"]:
                    yield f"{path or 'the value'}: fixed of {written['size']} bytes is now of {reading['size']}"
        yield from _decimal(written, reading, path)

    def _record(self, written: Any, reading: Any, path: str) -> Iterator[str]:
        pair = (written["name"], reading["name"])
        if pair in self._seen:
            return
        self._seen.add(pair)
        if path and _short(written["name"]) != _short(reading["name"]):
            yield f"{path}: record {written['name']} is now {reading['name']}"
        before = {field["name"]: field for field in written["fields"]}
        for field in reading["fields"]:
            names = [field["name"], *field.get("aliases", ())]
            old = next((before[name] for name in names if name in before), None)
            inner = f"{path}.{field['name']}" if path else field["name"]
            if old is not None:
                yield from self.problems(old["type"], field["type"], inner)
            elif "default" not in field:
                yield f"field {inner} is new and has no default"


def _decimal(written: Any, reading: Any, path: str) -> Iterator[str]:
    if not isinstance(written, dict) or not isinstance(reading, dict):
        return
    if written.get("logicalType") == reading.get("logicalType") == "decimal":
        before, after = ((each["precision"], each.get("scale", 0)) for each in (written, reading))
        if before != after:
            yield f"{path or 'the value'}: decimal{before} cannot be read as decimal{after}"


def _kind(schema: Any) -> str:
    if isinstance(schema, dict):
        return _kind(schema["type"]) if isinstance(schema["type"], dict) else str(schema["type"])
    return str(schema)


def _named(schema: Any) -> str:
    return str(schema.get("name", schema["type"])) if isinstance(schema, dict) else str(schema)


def _short(name: str) -> str:
    return name.rpartition(".")[2]


def _collect(schema: Any, named: dict[str, Any]) -> None:
    if isinstance(schema, list):
        for branch in schema:
            _collect(branch, named)
    elif isinstance(schema, dict):
        if "name" in schema and schema.get("type") in ("record", "enum", "fixed"):
            named[schema["name"]] = schema
        for inner in ("type", "items", "values"):
            if isinstance(schema.get(inner), dict | list):
                _collect(schema[inner], named)
        for field in schema.get("fields", ()):
            _collect(field["type"], named)
