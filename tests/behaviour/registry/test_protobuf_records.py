"""Protobuf records over a registry: what one serde writes, another reads."""

from __future__ import annotations

import datetime as dt
import pickle
from typing import Any

import pytest
from tests.unit.serde.protos import MONEY, SHOP, generated

from hayase.core.errors import ConfigError, SchemaRegistryError, SerializationError
from hayase.serde.avro_serde import AvroSerde
from hayase.serde.protobuf_serde import ProtobufSerde
from hayase.serde.registry import RegistrySchema, SchemaReference, SchemaRegistry

AT = dt.datetime(2024, 5, 6, 7, 8, 9, 123456, dt.UTC)
WORD = 'syntax = "proto3"; package w; message Word { string text = 1; int32 n = 2; }'
WIDER = WORD.replace("int32 n = 2;", "int32 n = 2; repeated string more = 3; optional int64 seen = 4;")
TWO = 'syntax = "proto3"; message A { int32 a = 1; } message B { map<string, A> m = 1; message C { int32 c = 1; } }'


def both_forms(serde: ProtobufSerde, data: bytes) -> Any:
    """The value, read in rows and found the same in columns."""
    value, codec = serde.deserialize(data), serde.columns
    assert codec is not None
    decoded = codec.decode_list([data])
    assert decoded.bad == []
    assert codec.to_python(decoded.frame) == [value]
    return value


def written(schema: Any, registry: SchemaRegistry, topic: str, value: Any, **options: Any) -> bytes:
    data = ProtobufSerde(schema, registry, **options).for_topic(topic, "value", {}).serialize(value)
    assert data is not None
    return data


def test_a_record_is_magic_byte_id_indexes_and_message(registry: SchemaRegistry, topic: str) -> None:
    data = written(WORD, registry, topic, {"text": "hi", "n": 3})
    number = registry.latest(f"{topic}-value").id
    assert data == b"\0" + number.to_bytes(4, "big") + b"\0\x0a\x02hi\x10\x03"


@pytest.mark.parametrize(("message", "indexes"), [("A", b"\0"), ("B", b"\x02\x02"), ("B.C", b"\x04\x02\x00")])
def test_the_indexes_name_the_message(registry: SchemaRegistry, topic: str, message: str, indexes: bytes) -> None:
    data = written(TWO, registry, topic, {}, message=message)
    assert data[5:] == indexes
    expected = {"A": {"a": 0}, "B": {"m": {}}, "B.C": {"c": 0}}
    assert ProtobufSerde(None, registry).deserialize(data) == expected[message]


def test_instances_of_a_class_are_written_and_read(registry: SchemaRegistry, topic: str) -> None:
    shop = generated()
    order = shop.Order(id=7, kind=1, tags=["a", "b"], price={"cents": 5})
    order.at.FromDatetime(AT)
    serde = ProtobufSerde(shop.Order, registry).for_topic(topic, "value", {})
    data = serde.serialize(order)
    assert data is not None and serde.deserialize(data) == order
    assert serde.columns is None
    row = {"id": 7, "note": None, "at": AT, "kind": "PEN", "price": {"cents": 5}, "tags": ["a", "b"]}
    assert both_forms(ProtobufSerde(shop.Order.DESCRIPTOR, registry), data) == row
    assert ProtobufSerde(None, registry).deserialize(data) == row  # the registry has all that the file imports
    assert registry.versions(f"{topic}-value") == [1]


def test_a_dict_is_written_as_the_class_would(registry: SchemaRegistry, topic: str) -> None:
    shop = generated()
    row = {"id": 1, "note": "", "at": AT, "kind": "PEN", "price": None, "tags": []}
    as_dict = written(shop.Order.DESCRIPTOR, registry, topic, row)
    order = shop.Order(id=1, note="", kind=1)
    order.at.FromDatetime(AT)
    assert as_dict == written(shop.Order, registry, topic, order)


def test_a_file_may_import_others_of_the_registry(registry: SchemaRegistry, topic: str) -> None:
    registry.register(f"{topic}-m", RegistrySchema(MONEY, "PROTOBUF"))
    reference = SchemaReference("hayase_money.proto", f"{topic}-m", 1)
    serde = ProtobufSerde(SHOP, registry, message="Order", references=[reference]).for_topic(topic, "value", {})
    data = serde.serialize({"id": 1, "price": {"cents": 3}})
    assert data is not None and both_forms(serde, data)["price"] == {"cents": 3}
    assert ProtobufSerde(None, registry).deserialize(data)["price"] == {"cents": 3}


def test_an_older_and_a_newer_reader_get_their_own_fields(registry: SchemaRegistry, topic: str) -> None:
    new = written(WIDER, registry, f"{topic}-new", {"text": "a", "n": 1, "more": ["x"], "seen": 0})
    assert both_forms(ProtobufSerde(WORD, registry), new) == {"text": "a", "n": 1}
    old = written(WORD, registry, f"{topic}-old", {"text": "a", "n": 1})
    assert both_forms(ProtobufSerde(WIDER, registry), old) == {"text": "a", "n": 1, "more": [], "seen": None}


def test_fields_that_a_class_does_not_know_stay_in_the_instance(registry: SchemaRegistry, topic: str) -> None:
    money = generated().Order.DESCRIPTOR.fields_by_name["price"].message_type._concrete_class
    more = MONEY.replace("cents = 1;", "cents = 1; string currency = 9;")
    data = written(more, registry, topic, {"cents": 1, "currency": "EUR"})
    serde = ProtobufSerde(money, registry).for_topic(f"{topic}-copy", "value", {})
    copied = serde.serialize(serde.deserialize(data))
    assert copied is not None
    assert ProtobufSerde(more, registry).deserialize(copied) == {"cents": 1, "currency": "EUR"}


def test_a_serde_without_schema_writes_by_the_latest_version(registry: SchemaRegistry, topic: str) -> None:
    registry.register(f"{topic}-value", RegistrySchema(TWO, "PROTOBUF"))
    serde = ProtobufSerde(None, registry, message="B").for_topic(topic, "value", {})
    assert serde.deserialize(serde.serialize({"m": {"k": {"a": 1}}})) == {"m": {"k": {"a": 1}}}


def test_the_latest_version_gives_id_and_indexes(registry: SchemaRegistry, topic: str) -> None:
    moved = WORD.replace("message Word", "message First { int32 x = 1; } message Word")
    number = registry.register(f"{topic}-value", RegistrySchema(moved, "PROTOBUF"))
    data = written(WORD, registry, topic, {"text": "a"}, use_latest_version=True)
    assert data[:7] == b"\0" + number.to_bytes(4, "big") + b"\x02\x02"
    with pytest.raises(ConfigError, match=r"does not have the message 'w.Gone'; it has w.First, w.Word"):
        written(WORD.replace("Word", "Gone"), registry, topic, {"text": "a"}, use_latest_version=True)


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        ("TopicNameStrategy", "{topic}-value"),
        ("RecordNameStrategy", "{record}"),
        ("TopicRecordNameStrategy", "{topic}-{record}"),
    ],
)
def test_subjects_are_named_by_the_strategy(registry: SchemaRegistry, topic: str, strategy: str, expected: str) -> None:
    package = f"p{topic.replace('-', '_')}"
    schema = f'syntax = "proto3"; package {package}; message A {{}} message B {{}}'
    serde = ProtobufSerde(schema, registry, message="B")
    serde.for_topic(topic, "value", {"value.subject.name.strategy": strategy}).serialize({})
    assert expected.format(topic=topic, record=f"{package}.B") in registry.subjects()


def test_without_registration_a_schema_must_be_there(registry: SchemaRegistry, topic: str) -> None:
    serde = ProtobufSerde(WORD, registry, auto_register_schemas=False).for_topic(topic, "value", {})
    with pytest.raises(SchemaRegistryError) as found:
        serde.serialize({})
    assert found.value.condition == "SCHEMA_NOT_FOUND"
    registry.register(f"{topic}-value", RegistrySchema(WORD, "PROTOBUF"))
    assert serde.serialize({}) is not None


def test_bad_records_are_bad_in_both_forms(registry: SchemaRegistry, topic: str) -> None:
    serde = ProtobufSerde(WORD, registry).for_topic(topic, "value", {})
    good = written(WORD, registry, topic, {"text": "hi"})
    avro = AvroSerde("string", registry).for_topic(f"{topic}-a", "value", {}).serialize("x")
    no_text = good[:-2] + b"\xff\xff"
    records = [good[:-1], good, b"hi", None, avro, b"\0\x0f\0\0\0\0", good[:5], good[:5] + b"\x03", no_text]
    codec = serde.columns
    assert codec is not None
    decoded = codec.decode_list(records)
    assert [index for index, _ in decoded.bad] == [0, 2, 4, 5, 6, 7, 8]
    assert decoded.null.to_list() == [index == 3 for index in range(len(records))]
    for index, error in decoded.bad:
        with pytest.raises(SerializationError) as found:
            serde.deserialize(records[index])
        assert str(found.value) == str(error)


def test_an_index_that_the_schema_does_not_have_is_bad(registry: SchemaRegistry, topic: str) -> None:
    data = written(TWO, registry, topic, {"a": 1})
    with pytest.raises(SerializationError, match=r"no message with the indexes \[7\]"):
        ProtobufSerde(None, registry).deserialize(data[:5] + b"\x02\x0e" + data[6:])


def test_a_pickled_serde_reads_and_writes_the_same(registry: SchemaRegistry, topic: str) -> None:
    shop = generated()
    row = {"id": 1, "note": None, "at": None, "kind": "BOOK", "price": None, "tags": []}
    for schema, value in ((shop.Order, shop.Order(id=1)), (shop.Order.DESCRIPTOR, row)):
        serde = ProtobufSerde(schema, registry).for_topic(topic, "value", {})
        data = serde.serialize(value)
        again = pickle.loads(pickle.dumps(serde))
        assert again == serde
        assert (again.serialize(value), again.deserialize(data)) == (data, value)
