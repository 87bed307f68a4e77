"""Avro: what rows write and read, columns write and read."""

from __future__ import annotations

import datetime as dt
import json
import math
import sys
from collections.abc import Iterator
from typing import Any

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.budget import examples

from hayase.core.errors import SerializationError
from hayase.serde.avro_columns import _pyruhvro, _reading
from hayase.serde.avro_serde import AvroSerde
from hayase.serde.registry import SchemaRegistry
from hayase.testing import SchemaRegistryServer

FIRST, LAST = (dt.datetime.fromisoformat(day) for day in ("0001-01-02", "9999-12-30"))
MONEY = st.decimals("-9999.99", "9999.99", places=2, allow_nan=False)
INT = st.integers(-(2**31), 2**31 - 1)
LONG = st.integers(-(2**63), 2**63 - 1)
TEXT = st.text(st.characters(codec="utf-8"), max_size=5)


def utc(subtopology: int) -> st.SearchStrategy[dt.datetime]:
    aware = st.datetimes(FIRST, LAST).map(lambda at: at.replace(tzinfo=dt.UTC))
    return aware.map(lambda at: at.replace(microsecond=at.microsecond // subtopology * subtopology))


TYPES: dict[str, tuple[Any, st.SearchStrategy[Any]]] = {
    "boolean": ("boolean", st.booleans()),
    "int": ("int", INT),
    "long": ("long", LONG),
    "float": ("float", st.floats(width=32)),
    "double": ("double", st.floats()),
    "bytes": ("bytes", st.binary(max_size=5)),
    "string": ("string", TEXT),
    "enum": ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, st.sampled_from("AB")),
    "fixed": ({"type": "fixed", "name": "F", "size": 2}, st.binary(min_size=2, max_size=2)),
    "decimal": ({"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2}, MONEY),
    "fixed_decimal": (
        {"type": "fixed", "name": "D", "size": 5, "logicalType": "decimal", "precision": 6, "scale": 2},
        MONEY,
    ),
    "date": ({"type": "int", "logicalType": "date"}, st.dates()),
    "time_millis": (
        {"type": "int", "logicalType": "time-millis"},
        st.times().map(lambda t: t.replace(microsecond=5000)),
    ),
    "time_micros": ({"type": "long", "logicalType": "time-micros"}, st.times()),
    "millis": ({"type": "long", "logicalType": "timestamp-millis"}, utc(1000)),
    "micros": ({"type": "long", "logicalType": "timestamp-micros"}, utc(1)),
    "local": ({"type": "long", "logicalType": "local-timestamp-micros"}, st.datetimes(FIRST, LAST)),
    "uuid": ({"type": "string", "logicalType": "uuid"}, st.uuids().map(str)),
}


def composed(inner: tuple[Any, Any], number: int) -> st.SearchStrategy[tuple[Any, Any]]:
    kind, values = inner
    record = {
        "type": "record",
        "name": f"R{number}",
        "fields": [{"name": "x", "type": kind}, {"name": "y", "type": "int"}],
    }
    options = [inner, ({"type": "array", "items": kind}, st.lists(values, max_size=3))]
    options.append(({"type": "map", "values": kind}, st.dictionaries(TEXT, values, max_size=2)))
    options.append((record, st.fixed_dictionaries({"x": values, "y": INT})))
    if not isinstance(kind, list):
        options += [(["null", kind], st.none() | values), ([kind, "null"], st.none() | values)]
    return st.sampled_from(options)


@st.composite
def schemas(draw: st.DrawFn) -> tuple[Any, st.SearchStrategy[Any]]:
    fields, values = [], {}
    names = draw(st.lists(st.sampled_from(sorted(TYPES)), min_size=1, max_size=4, unique=True))
    for number, name in enumerate(names):
        once = draw(composed(TYPES[name], 2 * number))
        kind, made = draw(composed(once, 2 * number + 1))
        fields.append({"name": f"f{number}", "type": kind})
        values[f"f{number}"] = made
    return {"type": "record", "name": "T", "fields": fields}, st.fixed_dictionaries(values)


@pytest.fixture(scope="module")
def registry() -> Iterator[SchemaRegistry]:
    with SchemaRegistryServer() as server:
        yield SchemaRegistry(server.url)


def same(left: Any, right: Any) -> bool:
    """Equal; NaN equals NaN."""
    if isinstance(left, float) and isinstance(right, float):
        return left == right or (math.isnan(left) and math.isnan(right))
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(left[name], right[name]) for name in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    return type(left) is type(right) and left == right


def serde_of(schema: Any, registry: SchemaRegistry) -> AvroSerde:
    """A serde with a topic of its own."""
    return AvroSerde(schema, registry).for_topic(str(hash(json.dumps(schema))), "value", {})


fast = settings(
    deadline=None,
    max_examples=examples(25),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)


@fast
@given(schema=schemas(), data=st.data())
def test_columns_write_and_read_what_rows_do(registry: SchemaRegistry, schema: Any, data: st.DataObject) -> None:
    serde = serde_of(schema[0], registry)
    values = data.draw(st.lists(st.none() | schema[1], max_size=6))
    codec = serde.columns
    assert codec is not None
    written = [serde.serialize(value) for value in values]
    frame, null = codec.from_python(values)
    assert codec.encode(frame, null) == written
    decoded = codec.decode_list(written)
    assert decoded.bad == []
    assert decoded.frame.schema == pl.Schema(codec.schema.fields)
    assert decoded.null.to_list() == [value is None for value in values]
    assert same(codec.to_python(decoded.frame, decoded.null), [serde.deserialize(each) for each in written])


@fast
@given(schema=schemas(), data=st.data())
def test_columns_refuse_the_bytes_that_rows_refuse(registry: SchemaRegistry, schema: Any, data: st.DataObject) -> None:
    serde = serde_of(schema[0], registry)
    value = data.draw(schema[1])
    written = serde.serialize(value)
    assert written is not None
    damaged = data.draw(st.lists(st.integers(0, len(written)).map(lambda end: written[:end]), max_size=4))
    codec = serde.columns
    assert codec is not None
    decoded = codec.decode_list([written, *damaged])
    expected = []
    for index, each in enumerate([written, *damaged]):
        try:
            serde.deserialize(each)
        except SerializationError:
            expected.append(index)
    assert [index for index, _ in decoded.bad] == expected


@pytest.mark.parametrize(
    "name", ["boolean", "int", "long", "float", "double", "string", "enum", "date", "millis", "uuid"]
)
def test_common_types_have_the_fast_decoder(registry: SchemaRegistry, name: str) -> None:
    kind = TYPES[name][0]
    fields = [
        {"name": "a", "type": kind},
        {"name": "b", "type": ["null", {"type": "array", "items": TYPES["long"][0]}]},
    ]
    reader = AvroSerde({"type": "record", "name": "T", "fields": fields}, registry).reader
    assert reader is not None and _reading(reader, reader) is not None


@pytest.mark.parametrize("name", sorted(TYPES))
@given(data=st.data())
@fast
def test_a_value_that_is_no_record_has_one_column(registry: SchemaRegistry, name: str, data: st.DataObject) -> None:
    kind, values_of = TYPES[name]
    serde = serde_of(kind, registry)
    values = data.draw(st.lists(st.none() | values_of, max_size=4))
    codec = serde.columns
    assert codec is not None and codec.schema.bare
    written = [serde.serialize(value) for value in values]
    assert codec.encode(*codec.from_python(values)) == written
    decoded = codec.decode_list(written)
    assert same(codec.to_python(decoded.frame, decoded.null), [serde.deserialize(each) for each in written])


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        (["null", "int", "string"], "union of 2"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 60}, "60 digits"),
        (["null", "T"], "holds itself"),
    ],
)
def test_types_without_a_column_exist_in_rows_only(registry: SchemaRegistry, kind: Any, reason: str) -> None:
    serde = AvroSerde({"type": "record", "name": "T", "fields": [{"name": "f", "type": kind}]}, registry)
    assert serde.columns is None
    assert serde.reader is not None and reason in serde.reader.no_columns


WRONG = [{"f": 2**31}, {"f": "x"}, {"f": 1.5}, {"f": True}, {}, {"f": None}, "text"]


@pytest.mark.parametrize("value", WRONG)
def test_a_value_that_does_not_fit_is_refused_in_both_forms(registry: SchemaRegistry, value: Any) -> None:
    schema = {"type": "record", "name": "T", "fields": [{"name": "f", "type": "int"}]}
    serde = AvroSerde(schema, registry, subject_name_strategy="RecordNameStrategy")
    assert serde.columns is not None
    with pytest.raises(SerializationError, match="schema T"):
        serde.serialize(value)
    with pytest.raises(SerializationError, match="schema T"):
        serde.columns.from_python([value])


def test_a_column_with_a_null_or_a_symbol_that_is_not_allowed_is_refused(registry: SchemaRegistry) -> None:
    schema = {"type": "record", "name": "U", "fields": [{"name": "f", "type": TYPES["enum"][0]}]}
    codec = AvroSerde(schema, registry, subject_name_strategy="RecordNameStrategy").columns
    assert codec is not None
    for wrong in ("C", None):
        with pytest.raises(SerializationError):
            codec.encode(pl.DataFrame({"f": ["A", wrong]}, schema={"f": pl.String}))


def test_an_int_beyond_its_type_is_bad_in_both_forms(registry: SchemaRegistry) -> None:
    as_long, as_int = ({"type": "record", "name": "V", "fields": [{"name": "f", "type": t}]} for t in ("long", "int"))
    reader = AvroSerde(as_int, registry, subject_name_strategy="RecordNameStrategy")
    head, _ = reader.writing_by()
    payload = serde_of(as_long, registry).serialize({"f": 2**31})
    assert payload is not None and reader.columns is not None
    with pytest.raises(SerializationError, match="32 bits"):
        reader.deserialize(head + payload[5:])
    assert [index for index, _ in reader.columns.decode_list([head + payload[5:]]).bad] == [0]


def test_without_the_fast_package_columns_mean_the_same(registry: SchemaRegistry) -> None:
    schema = {"type": "record", "name": "W", "fields": [{"name": "f", "type": "int"}]}
    serde, values = serde_of(schema, registry), [{"f": 1}, None, {"f": 2}]
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "pyruhvro", None)
        _pyruhvro.cache_clear()
        codec = serde.columns
        assert codec is not None
        written = codec.encode(*codec.from_python(values))
        decoded = codec.decode_list(written)
        assert codec.to_python(decoded.frame, decoded.null) == values
    _pyruhvro.cache_clear()
    assert written == [serde.serialize(value) for value in values]
