"""Protobuf: what rows write and read, columns write and read; what is refused, and with what words."""

from __future__ import annotations

import datetime as dt
import math
import pickle
from collections.abc import Iterator
from typing import Any

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.budget import examples

from hayase import Consumed, Produced, Serdes, StreamsBuilder, dead_letter, log_and_continue, log_and_fail
from hayase.core.errors import ConfigError, SerializationError
from hayase.serde.protobuf_schema import read_indexes, write_indexes
from hayase.serde.protobuf_serde import ProtobufSerde
from hayase.serde.registry import SchemaRegistry
from hayase.testing import SchemaRegistryServer, TopologyTestDriver

ALL = """
syntax = "proto3";
package every;
import "google/protobuf/timestamp.proto";
import "google/protobuf/duration.proto";
import "google/protobuf/wrappers.proto";
import "google/protobuf/any.proto";
message All {
  int32 i32 = 1; sint64 i64 = 2; uint32 u32 = 3; fixed64 u64 = 4; float f = 5; double d = 6; bool b = 7;
  string s = 8; bytes raw = 9; Kind kind = 10;
  optional int32 maybe = 11; repeated double many = 12; map<string, Inner> by_name = 13; map<int64, string> by_id = 14;
  Inner inner = 15; repeated Inner inners = 16; oneof either { string left = 17; Inner right = 18; }
  google.protobuf.Timestamp at = 19; google.protobuf.Duration took = 20; google.protobuf.StringValue wrapped = 21;
  repeated google.protobuf.Timestamp times = 22; google.protobuf.Any any = 23; repeated Kind kinds = 24;
  int64 from = 25;
  enum Kind { NONE = 0; SOME = 1; ALSO = 2; }
  message Inner { int64 a = 1; optional string b = 2; repeated int32 c = 3; }
}
message Tree { repeated Tree children = 1; }
message Nothing {}
"""
PROTO2 = """
syntax = "proto2";
message Old { required int64 id = 1; optional int32 size = 2 [default = 5]; optional int32 plain = 3; }
"""
JSON_LIKE = """
syntax = "proto3";
import "google/protobuf/struct.proto";
message Free { google.protobuf.Struct fields = 1; google.protobuf.ListValue items = 2; }
"""

TEXT = st.text(st.characters(codec="utf-8"), max_size=5)
INNER = st.fixed_dictionaries(
    {
        "a": st.integers(-(2**63), 2**63 - 1),
        "b": st.none() | TEXT,
        "c": st.lists(st.integers(-(2**31), 2**31 - 1), max_size=2),
    }
)
FIRST, LAST = (dt.datetime.fromisoformat(day) for day in ("0001-01-01", "9999-12-31"))
TIMES = st.datetimes(FIRST, LAST).map(lambda at: at.replace(tzinfo=dt.UTC))
KINDS = st.sampled_from(["NONE", "SOME", "ALSO", "7"])
BASE = {
    "i32": st.integers(-(2**31), 2**31 - 1),
    "i64": st.integers(-(2**63), 2**63 - 1),
    "u32": st.integers(0, 2**32 - 1),
    "u64": st.integers(0, 2**64 - 1),
    "f": st.floats(width=32),
    "d": st.floats(),
    "b": st.booleans(),
    "s": TEXT,
    "raw": st.binary(max_size=4),
    "kind": KINDS,
    "maybe": st.none() | st.integers(-(2**31), 2**31 - 1),
    "many": st.lists(st.floats(), max_size=3),
    "by_name": st.dictionaries(TEXT, INNER, max_size=2),
    "by_id": st.dictionaries(st.integers(-(2**63), 2**63 - 1), TEXT, max_size=2),
    "inner": st.none() | INNER,
    "inners": st.lists(INNER, max_size=2),
    "at": st.none() | TIMES,
    "took": st.none() | st.timedeltas(dt.timedelta(days=-999), dt.timedelta(days=999)),
    "wrapped": st.none() | TEXT,
    "times": st.lists(TIMES, max_size=2),
    "any": st.none() | st.fixed_dictionaries({"type_url": TEXT, "value": st.binary(max_size=3)}),
    "kinds": st.lists(KINDS, max_size=2),
    "from": st.integers(0, 9),
}
EITHER = st.sampled_from([(None, None), ("x", None), (None, {"a": 1, "b": None, "c": []})])


@st.composite
def rows(draw: st.DrawFn) -> dict[str, Any]:
    left, right = draw(EITHER)
    found = draw(st.fixed_dictionaries(BASE))
    names = [*list(found)[:16], "left", "right", *list(found)[16:]]
    return {name: {**found, "left": left, "right": right}[name] for name in names}


@pytest.fixture(scope="module")
def registry() -> Iterator[SchemaRegistry]:
    with SchemaRegistryServer() as server:
        yield SchemaRegistry(server.url)


@pytest.fixture(scope="module")
def every(registry: SchemaRegistry) -> ProtobufSerde:
    return ProtobufSerde(ALL, registry).for_topic("every", "value", {})


def same(left: Any, right: Any) -> bool:
    """Equal; NaN equals NaN."""
    if isinstance(left, float) and isinstance(right, float):
        return left == right or (math.isnan(left) and math.isnan(right))
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(left[name], right[name]) for name in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    return type(left) is type(right) and left == right


fast = settings(
    deadline=None,
    max_examples=examples(25),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)


@pytest.mark.long
@fast
@given(values=st.lists(st.none() | rows(), max_size=4))
def test_columns_write_and_read_what_rows_do(every: ProtobufSerde, values: list[Any]) -> None:
    codec = every.columns
    assert codec is not None
    written = [every.serialize(value) for value in values]
    assert same([every.deserialize(each) for each in written], values)
    assert codec.encode(*codec.from_python(values)) == written
    decoded = pickle.loads(pickle.dumps(codec)).decode_list(written)
    assert decoded.bad == []
    assert decoded.frame.schema == pl.Schema(codec.schema.fields)
    assert decoded.null.to_list() == [value is None for value in values]
    assert same(codec.to_python(decoded.frame, decoded.null), values)


@fast
@given(value=rows(), data=st.data())
def test_columns_refuse_the_bytes_that_rows_refuse(every: ProtobufSerde, value: Any, data: st.DataObject) -> None:
    written, codec = every.serialize(value), every.columns
    assert written is not None and codec is not None
    damaged = data.draw(st.lists(st.integers(0, len(written)).map(lambda end: written[:end]), max_size=4))
    expected = []
    for index, each in enumerate([written, *damaged]):
        try:
            every.deserialize(each)
        except SerializationError:
            expected.append(index)
    decoded = codec.decode_list([written, *damaged])
    assert [index for index, _ in decoded.bad] == expected


@given(indexes=st.lists(st.integers(0, 10_000), min_size=1, max_size=5))
def test_indexes_are_read_as_they_were_written(indexes: list[int]) -> None:
    data = write_indexes(indexes)
    assert read_indexes(b"x" + data + b"more", 1) == (tuple(indexes), 1 + len(data))


@pytest.mark.parametrize("data", [b"", b"\x02", b"\x01\x02", b"\x02\x01", b"\xff" * 9, b"\xff\x7f"])
def test_indexes_that_are_none_are_refused(data: bytes) -> None:
    with pytest.raises(ValueError):
        read_indexes(data, 0)


def test_only_the_fields_that_are_asked_for_become_columns(every: ProtobufSerde) -> None:
    codec = every.columns
    assert codec is not None
    decoded = codec.decode_list([every.serialize({"s": "x"}), None], frozenset({"s", "maybe"}))
    assert decoded.frame.to_dict(as_series=False) == {"s": ["x", None], "maybe": [None, None]}


def test_a_time_that_python_does_not_have_is_bad_in_both_forms(every: ProtobufSerde) -> None:
    good = every.serialize({"s": "x"})
    assert good is not None and every.columns is not None
    year_20000 = good + bytes.fromhex("9a01070880fef3cac710")
    too_long = good + bytes.fromhex("a2010808808095e789c604")
    for bad in (year_20000, too_long):
        with pytest.raises(SerializationError):
            every.deserialize(bad)
    decoded = every.columns.decode_list([good, year_20000, good, too_long])
    assert [index for index, _ in decoded.bad] == [1, 3]
    assert decoded.frame["s"].to_list() == ["x", None, "x", None]


@pytest.mark.parametrize(("message", "reason"), [("Tree", "holds itself"), ("Nothing", "no fields")])
def test_messages_without_a_column_exist_in_rows_only(registry: SchemaRegistry, message: str, reason: str) -> None:
    serde = ProtobufSerde(ALL, registry, message=message).for_topic("rows", "value", {})
    assert serde.columns is None
    assert serde.form is not None and reason in serde.form.no_columns
    value = {"children": [{"children": []}]} if message == "Tree" else {}
    assert serde.deserialize(serde.serialize(value)) == value


def test_free_json_exists_in_rows_only(registry: SchemaRegistry) -> None:
    serde = ProtobufSerde(JSON_LIKE, registry).for_topic("free", "value", {})
    value = {"fields": {"a": [1.5, None, {"b": True}]}, "items": ["x"]}
    assert serde.columns is None
    assert serde.deserialize(serde.serialize(value)) == value
    with pytest.raises(SerializationError, match="fields"):
        serde.serialize({"fields": {"a": object()}})


def test_proto2_has_required_fields_and_defaults(registry: SchemaRegistry) -> None:
    serde = ProtobufSerde(PROTO2, registry).for_topic("old", "value", {})
    assert serde.deserialize(serde.serialize({"id": 1})) == {"id": 1, "size": 5, "plain": None}
    with pytest.raises(SerializationError, match="id"):
        serde.serialize({"size": 1})
    head = serde.written_head()
    with pytest.raises(SerializationError, match="required fields are missing: id"):
        serde.deserialize(head + b"\x10\x01")
    assert serde.columns is not None
    assert [index for index, _ in serde.columns.decode_list([head + b"\x10\x01"]).bad] == [0]


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ({"i32": 2**31}, "i32|range"),
        ({"i32": "x"}, "i32|int"),
        ({"nmae": "x"}, "no field 'nmae'; there are i32"),
        ({"kind": "MANY"}, "kind: 'MANY' is none of NONE, SOME, ALSO"),
        ({"inner": {"a": "x"}}, "inner"),
        ({"inner": 3}, "inner: a dict is expected, not 3"),
        ({"many": 3}, "many: a list is expected"),
        ({"by_name": []}, "by_name: a dict is expected"),
        ({"at": FIRST}, "at: a datetime with a time zone"),
        ({"took": 5}, "took: a timedelta is expected"),
        ("text", "a dict is expected"),
    ],
)
def test_a_value_that_does_not_fit_is_refused_in_both_forms(every: ProtobufSerde, value: Any, reason: str) -> None:
    assert every.columns is not None
    for write in (every.serialize, lambda value: every.columns.from_python([value])):  # type: ignore[union-attr]
        with pytest.raises(SerializationError, match=reason) as found:
            write(value)
        assert "every.All" in found.value.message


def test_an_instance_of_another_class_is_refused(registry: SchemaRegistry) -> None:
    from google.protobuf.duration_pb2 import Duration
    from google.protobuf.timestamp_pb2 import Timestamp

    serde = ProtobufSerde(Timestamp, registry).for_topic("t", "value", {})
    with pytest.raises(SerializationError, match="instances of Timestamp"):
        serde.serialize(Duration(seconds=1))
    assert serde.deserialize(serde.serialize(Timestamp(seconds=1))) == Timestamp(seconds=1)


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ("message {", "the schema:1:"),
        ('syntax = "proto3"; import "gone.proto"; message A {}', "gone.proto"),
        ("AAAA", "base64"),
        ('syntax = "proto3";', "does not have a message; it has none"),
        (int, "class that protoc made"),
    ],
)
def test_what_is_no_schema_is_refused(schema: Any, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason) as found:
        ProtobufSerde(schema)
    assert found.value.condition == "INVALID_SCHEMA"


WORD = 'syntax = "proto3"; message Word { string text = 1; int32 n = 2; }'


@pytest.mark.long
@pytest.mark.parametrize("form", ["auto", "rows"])
@pytest.mark.parametrize("policy", [log_and_continue, log_and_fail, dead_letter])
def test_bad_bytes_go_to_the_failure_policy(registry: SchemaRegistry, form: str, policy: Any) -> None:
    builder = StreamsBuilder()
    words = builder.stream("in", Consumed.with_(Serdes.string(), Serdes.protobuf(WORD)))
    words.filter(pl.col("n") > 1).to("out", Produced.with_(Serdes.string(), Serdes.protobuf(WORD)))
    serde = ProtobufSerde(WORD, registry).for_topic("in", "value", {})
    config = {
        "schema.registry.url": registry.url, "processing.form": form, "deserialization.exception.handler": policy,
        "errors.dead.letter.queue.topic.name": "dead",
    }  # fmt: skip
    with TopologyTestDriver(builder.build(), config) as driver:
        source = driver.create_input_topic("in", Serdes.string(), Serdes.bytes())
        sink = driver.create_output_topic("out", Serdes.string(), serde)
        source.pipe_input("a", serde.serialize({"text": "x", "n": 2}))
        if policy is log_and_fail:
            with pytest.raises(SerializationError, match="the message Word"):
                source.pipe_input("b", serde.written_head() + b"\x0a\x09x")
            return
        source.pipe_input("b", serde.written_head() + b"\x0a\x09x")
        source.pipe_input("c", serde.serialize({"text": "y", "n": 3}))
        assert sink.read_key_values_to_list() == [("a", {"text": "x", "n": 2}), ("c", {"text": "y", "n": 3})]
        if policy is not log_and_continue:
            dead = driver.create_output_topic("dead", Serdes.string(), Serdes.bytes())
            assert [key for key, _ in dead.read_key_values_to_list()] == ["b"]
