"""The Avro converter writes and reads what Apicurio Registry's did, except for listed deviations."""

from __future__ import annotations

import base64
import json
import lzma
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.connect.test_recorded_cases import rounded

from hayase.connect.converters.avro_converter import AvroConverter
from hayase.connect.converters.json_converter import JsonConverter
from hayase.core.errors import HayaseError
from hayase.serde.registry import RegistrySchema, SchemaRegistry
from hayase.testing.schema_registry import SchemaRegistryServer

HERE = Path(__file__).parent
DEVIATIONS: dict[str, Any] = tomllib.loads((HERE / "avro_deviations.toml").read_text("utf-8"))
_HEADER = 5
"""Bytes before a value: the magic byte and the id of its schema."""


@pytest.fixture(scope="module")
def registry_url() -> Iterator[str]:
    with SchemaRegistryServer() as server:
        yield server.url


def recorded() -> list[tuple[dict[str, Any], dict[str, Any]]]:
    return [tuple(pair) for pair in json.loads(lzma.decompress((HERE / "recorded_avro.json.xz").read_bytes()))]


def full_names(schema: Any, namespace: str = "") -> Any:
    """An Avro schema whose names hold their namespaces, wherever these were given."""
    if isinstance(schema, list):
        return [full_names(each, namespace) for each in schema]
    if not isinstance(schema, dict):
        return schema
    namespace = schema.get("namespace", namespace)
    found = {name: full_names(each, namespace) for name, each in schema.items() if name != "namespace"}
    if schema.get("type") == "record" and "." not in schema["name"]:
        found["name"] = f"{namespace}.{schema['name']}"
    return found


def comparable(answer: dict[str, Any]) -> Any:
    """An answer as it compares: Java writes more digits of small floats."""
    return {"schema": full_names(answer["schema"]), "bytes": answer["bytes"], "read": rounded(answer["read"])}


class Recorder:
    """Does with our converter what `AvroRecorder.java` does."""

    def __init__(self, url: str) -> None:
        self._url, self._registry = url, SchemaRegistry(url)
        self._json = JsonConverter()
        self._json.configure({"schemas.enable": "true", "replace.null.with.default": "false"})

    def converter(self, *, meta: bool) -> AvroConverter:
        made = AvroConverter()
        made.configure({"schema.registry.url": self._url, "connect.meta.data": str(meta).lower()}, is_key=False)
        return made

    def written(self, case: dict[str, Any], topic: str) -> tuple[Any, bytes]:
        """The schema that our converter registers, and what it writes behind the header."""
        schema, value = self._json.to_connect_data("t", (), json.dumps(case["data"]).encode())
        data = self.converter(meta=case["meta"]).from_connect_data(topic, (), schema, value)
        assert data is not None
        found = self._registry.schema(int.from_bytes(data[1:_HEADER], "big"))
        return json.loads(found.text), data[_HEADER:]

    def read(self, schema: Any, data: bytes, topic: str) -> Any:
        """What our converter reads of what another one has written, as JSON with its schema."""
        number = self._registry.register(f"{topic}-value", RegistrySchema(json.dumps(schema), "AVRO"))
        header = b"\0" + number.to_bytes(4, "big")
        written = self._json.from_connect_data(
            "t", (), *self.converter(meta=True).to_connect_data(topic, (), header + data)
        )
        return None if written is None else json.loads(written)


@pytest.mark.long
def test_what_is_written_and_read_is_what_the_converter_in_java_wrote_and_read(registry_url: str) -> None:
    recorder, different = Recorder(registry_url), dict[int, Any]()
    for number, (case, wanted) in enumerate(recorded()):
        try:
            schema, data = recorder.written(case, f"written-{number}")
            read = recorder.read(wanted["schema"], base64.b64decode(wanted["bytes"]), f"read-{number}")
        except HayaseError as error:
            different[number] = (case, wanted, str(error))
            continue
        found = {"schema": schema, "bytes": base64.b64encode(data).decode(), "read": read}
        if comparable(found) != comparable(wanted):
            different[number] = (case, wanted, found)
    listed = {number for each in DEVIATIONS.values() for number in each["cases"]}
    assert {number: each for number, each in different.items() if number not in listed} == {}
    assert listed - different.keys() == set(), "a deviation is gone"
