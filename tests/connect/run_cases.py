"""Carries out cases of `random_cases` with our transforms and converters, as `Recorder.java` does in Java."""

from __future__ import annotations

import base64
import importlib
import json
from typing import Any

from hayase.connect.contracts import Converter
from hayase.connect.converters import ALIASES as CONVERTERS
from hayase.connect.converters.json_converter import JsonConverter
from hayase.connect.model import ConnectHeader, ConnectRecord, SinkRecord, SourceRecord
from hayase.connect.schema import NO_VALUE, SchemaAndValue
from hayase.connect.transforms import ALIASES as TRANSFORMS
from hayase.core.errors import HayaseError

_JSON = JsonConverter()
_JSON.configure({"schemas.enable": "true", "replace.null.with.default": "false"})


def answer(case: dict[str, Any]) -> dict[str, Any]:
    """What comes of a case; `error` where it is refused."""
    module, _, name = {**TRANSFORMS, **CONVERTERS}[case["class"]].partition(":")
    made = getattr(importlib.import_module(module), name)()
    try:
        made.configure(case["config"])
        match case["kind"]:
            case "transform":
                record = made.apply(_record(case))
                return {"filtered": True} if record is None else _described_record(record)
            case "predicate":
                return {"matches": made.test(_record(case))}
            case "write":
                return _written(made, case)
        return _read(made, case)
    except HayaseError as error:
        return {"error": error.condition}


def _written(converter: Any, case: dict[str, Any]) -> dict[str, Any]:
    schema, value = _data(case["data"])
    if isinstance(converter, Converter):
        found = converter.from_connect_data("topic", (), schema, value)
    else:
        found = converter.from_connect_header("topic", "header", schema, value)
    return {"bytes": None if found is None else base64.b64encode(found).decode()}


def _read(converter: Any, case: dict[str, Any]) -> dict[str, Any]:
    data = None if case["bytes"] is None else base64.b64decode(case["bytes"])
    if isinstance(converter, Converter):
        return {"data": _described(converter.to_connect_data("topic", (), data))}
    return {"data": _described(converter.to_connect_header("topic", "header", data))}


def _data(given: Any) -> SchemaAndValue:
    return NO_VALUE if given is None else _JSON.to_connect_data("topic", (), json.dumps(given).encode())


def _described(data: SchemaAndValue) -> Any:
    found = _JSON.from_connect_data("topic", (), *data)
    return None if found is None else json.loads(found)


def _record(case: dict[str, Any]) -> ConnectRecord:
    given = case["record"]
    (key_schema, key), (value_schema, value) = _data(given["key"]), _data(given["value"])
    headers = []
    for name, header in given["headers"]:
        schema, content = _data(header)
        headers.append(ConnectHeader(name, content, schema))
    parts: dict[str, Any] = {
        "topic": given["topic"], "kafka_partition": 3, "key_schema": key_schema, "key": key,
        "value_schema": value_schema, "value": value, "timestamp_ms": given["timestamp"], "headers": tuple(headers),
    }  # fmt: skip
    if case["source"]:
        return SourceRecord(source_partition={}, source_offset={}, **parts)
    return SinkRecord(kafka_offset=42, **parts)


def _described_record(record: ConnectRecord) -> dict[str, Any]:
    return {
        "topic": record.topic,
        "partition": record.kafka_partition,
        "timestamp": record.timestamp_ms,
        "key": _described(SchemaAndValue(record.key_schema, record.key)),
        "value": _described(SchemaAndValue(record.value_schema, record.value)),
        "headers": [[each.key, _described(SchemaAndValue(each.schema, each.value))] for each in record.headers],
    }
