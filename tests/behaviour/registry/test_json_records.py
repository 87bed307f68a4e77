"""JSON records over a registry."""

from __future__ import annotations

import json
import pickle
from dataclasses import dataclass

import pytest

from hayase.core.errors import ConfigError, SerializationError
from hayase.serde.avro_serde import AvroSerde
from hayase.serde.json_schema_serde import JsonSchemaSerde
from hayase.serde.registry import SchemaRegistry


@dataclass
class Order:
    id: int
    note: str | None = None


def test_an_instance_is_head_and_text_and_its_schema_is_registered(registry: SchemaRegistry, topic: str) -> None:
    serde = JsonSchemaSerde(Order, registry).for_topic(topic, "value", {})
    data = serde.serialize(Order(1, "x"))
    latest = registry.latest(f"{topic}-value")
    assert data == b"\0" + latest.id.to_bytes(4, "big") + b'{"id":1,"note":"x"}'
    assert (latest.schema.kind, json.loads(latest.schema.text)["title"]) == ("JSON", "Order")
    assert serde.deserialize(data) == Order(1, "x")
    assert JsonSchemaSerde(None, registry).deserialize(data) == {"id": 1, "note": "x"}


def test_columns_write_and_read_what_rows_do(registry: SchemaRegistry, topic: str) -> None:
    serde = pickle.loads(pickle.dumps(JsonSchemaSerde(Order, registry).for_topic(topic, "value", {})))
    codec = serde.columns
    values = [Order(1), None, Order(2, "é")]
    written = [serde.serialize(value) for value in values]
    assert codec.encode(*codec.from_python(values)) == written
    decoded = codec.decode_list(written)
    assert codec.to_python(decoded.frame, decoded.null) == values
    assert decoded.null.to_list() == [False, True, False]


def test_bad_records_are_bad_in_both_forms(registry: SchemaRegistry, topic: str) -> None:
    serde = JsonSchemaSerde(Order, registry).for_topic(topic, "value", {})
    good = serde.serialize(Order(1))
    avro = AvroSerde("string", registry).for_topic(f"{topic}-a", "value", {}).serialize("x")
    assert good is not None
    records = [good[:-1], good, b'{"id":1}', None, avro, b"\0\x0f\0\0\0{}"]
    codec = serde.columns
    assert codec is not None
    decoded = codec.decode_list(records)
    assert [index for index, _ in decoded.bad] == [0, 2, 4, 5]
    assert decoded.null.to_list() == [False, False, False, True, False, False]
    for index, error in decoded.bad:
        with pytest.raises(SerializationError) as found:
            serde.deserialize(records[index])
        assert str(found.value) == str(error)


TEXT = '{"$schema": "http://json-schema.org/draft-07/schema#", "type": "object", "title": "T"}'


def test_a_schema_as_text_takes_any_value_in_rows(registry: SchemaRegistry, topic: str) -> None:
    serde = JsonSchemaSerde(TEXT, registry).for_topic(topic, "value", {})
    assert serde.deserialize(serde.serialize({"a": [1]})) == {"a": [1]}
    assert serde.columns is None


@pytest.mark.parametrize("schema", ["{", "[]", "5"])
def test_text_that_is_no_schema_is_refused(schema: str) -> None:
    with pytest.raises(ConfigError, match="JSON Schema"):
        JsonSchemaSerde(schema)
