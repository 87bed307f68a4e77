"""Converters: values to bytes of topics and back."""

from __future__ import annotations

import datetime as dt
import importlib
import json
from decimal import Decimal
from typing import Any

import pytest

from hayase.connect.converters import ALIASES
from hayase.connect.converters.json_converter import JsonConverter
from hayase.connect.exceptions import DataError
from hayase.connect.schema import (
    BOOLEAN_SCHEMA,
    BYTES_SCHEMA,
    DATE_SCHEMA,
    FLOAT32_SCHEMA,
    FLOAT64_SCHEMA,
    INT8_SCHEMA,
    INT32_SCHEMA,
    INT64_SCHEMA,
    OPTIONAL_INT32_SCHEMA,
    OPTIONAL_STRING_SCHEMA,
    STRING_SCHEMA,
    TIME_SCHEMA,
    TIMESTAMP_SCHEMA,
    ConnectSchema,
    array_schema,
    decimal_schema,
    map_schema,
    struct_schema,
)
from hayase.connect.values import parse_string, value_text


def load(name: str) -> Any:
    module, _, cls = ALIASES[name].partition(":")
    return getattr(importlib.import_module(module), cls)()


EVERYTHING = struct_schema(
    {
        "flag": BOOLEAN_SCHEMA,
        "small": INT8_SCHEMA,
        "big": INT64_SCHEMA,
        "single": FLOAT32_SCHEMA,
        "double": FLOAT64_SCHEMA,
        "text": OPTIONAL_STRING_SCHEMA,
        "raw": BYTES_SCHEMA,
        "price": decimal_schema(2),
        "day": DATE_SCHEMA,
        "time": TIME_SCHEMA,
        "at": TIMESTAMP_SCHEMA,
        "tags": array_schema(STRING_SCHEMA),
        "counts": map_schema(STRING_SCHEMA, INT32_SCHEMA),
        "numbers": map_schema(INT32_SCHEMA, STRING_SCHEMA),
    },
    name="shop.Everything",
    version=2,
)
VALUE = {
    "flag": True,
    "small": -8,
    "big": 2**62,
    "single": 0.5,
    "double": 1e300,
    "text": None,
    "raw": b"\0\xff",
    "price": Decimal("-12.50"),
    "day": dt.date(2024, 2, 29),
    "time": dt.time(1, 2, 3, 4000),
    "at": dt.datetime(2024, 2, 29, 1, 2, 3, 4000, tzinfo=dt.UTC),
    "tags": ["a", "b"],
    "counts": {"a": 1},
    "numbers": {1: "a"},
}


def json_converter(**config: str) -> JsonConverter:
    converter = JsonConverter()
    converter.configure({key.replace("_", "."): value for key, value in config.items()}, is_key=False)
    return converter


def write(converter: Any, schema: ConnectSchema | None, value: object) -> Any:
    data = converter.from_connect_data("t", (), schema, value)
    return None if data is None else json.loads(data)


class TestJson:
    def test_a_value_with_its_schema_comes_back_the_same(self) -> None:
        converter = json_converter()
        schema, value = converter.to_connect_data("t", (), converter.from_connect_data("t", (), EVERYTHING, VALUE))
        assert (schema, value) == (EVERYTHING, VALUE)

    def test_the_envelope_is_that_of_kafka(self) -> None:
        schema = struct_schema({"id": INT32_SCHEMA, "price": decimal_schema(2, optional=True)}, name="shop.Order")
        assert write(json_converter(), schema, {"id": 1, "price": Decimal("2.55")}) == {
            "schema": {
                "type": "struct",
                "fields": [
                    {"type": "int32", "optional": False, "field": "id"},
                    {
                        "type": "bytes",
                        "optional": True,
                        "name": "org.apache.kafka.connect.data.Decimal",
                        "version": 1,
                        "parameters": {"scale": "2"},
                        "field": "price",
                    },
                ],
                "optional": False,
                "name": "shop.Order",
            },
            "payload": {"id": 1, "price": "AP8="},
        }

    def test_floats_are_called_float_and_double(self) -> None:
        described = write(json_converter(), FLOAT32_SCHEMA, 1.100000023841858)
        assert described == {"schema": {"type": "float", "optional": False}, "payload": 1.1}
        assert write(json_converter(), FLOAT64_SCHEMA, 1.5)["schema"]["type"] == "double"

    def test_numbers_that_json_does_not_have_are_texts(self) -> None:
        converter = json_converter(schemas_enable="false")
        assert write(converter, FLOAT64_SCHEMA, float("-inf")) == "-Infinity"
        assert write(converter, None, {"x": float("nan")}) == {"x": "NaN"}

    def test_decimals_are_numbers_where_that_is_asked_for(self) -> None:
        converter = json_converter(schemas_enable="false", decimal_format="NUMERIC")
        assert converter.from_connect_data("t", (), decimal_schema(2), Decimal("10.20")) == b"10.20"

    def test_decimals_are_read_from_numbers_without_losing_digits(self) -> None:
        data = (
            b'{"schema":{"type":"bytes","optional":false,"name":"org.apache.kafka.connect.data.Decimal","version":1,'
            b'"parameters":{"scale":"20"}},"payload":0.12345678901234567891}'
        )
        assert json_converter().to_connect_data("t", (), data).value == Decimal("0.12345678901234567891")

    def test_a_default_stands_for_null_unless_it_is_switched_off(self) -> None:
        schema = struct_schema({"n": OPTIONAL_INT32_SCHEMA.with_default(5)})
        assert write(json_converter(schemas_enable="false"), schema, {"n": None}) == {"n": 5}
        plain = json_converter(schemas_enable="false", replace_null_with_default="false")
        assert write(plain, schema, {"n": None}) == {"n": None}

    def test_null_without_a_schema_is_a_tombstone(self) -> None:
        assert json_converter().from_connect_data("t", (), None, None) is None
        assert json_converter().to_connect_data("t", (), None) == (None, None)

    def test_without_schemas_json_is_what_it_is(self) -> None:
        converter = json_converter(schemas_enable="false")
        assert converter.to_connect_data("t", (), b'{"a":[1,2.5,null]}') == (None, {"a": [1, 2.5, None]})

    def test_a_schema_in_the_configuration_is_used_for_reading(self) -> None:
        converter = json_converter(schema_content='{"type":"struct","fields":[{"type":"int8","field":"a"}]}')
        assert converter.to_connect_data("t", (), b'{"a":300}').value == {"a": 44}

    @pytest.mark.parametrize("data", [b"{}", b'{"schema":null}', b'{"schema":null,"payload":1,"more":2}', b"5", b"[1"])
    def test_what_is_no_envelope_is_refused(self, data: bytes) -> None:
        with pytest.raises(DataError):
            json_converter().to_connect_data("t", (), data)

    def test_a_value_that_does_not_fit_names_its_field(self) -> None:
        schema = struct_schema({"id": INT32_SCHEMA, "in": struct_schema({"n": INT8_SCHEMA})})
        with pytest.raises(DataError) as raised:
            json_converter().from_connect_data("t", (), schema, {"id": 1, "in": {"n": 200}})
        assert raised.value.context["field"] == "n"

    def test_null_for_a_required_field_is_refused(self) -> None:
        with pytest.raises(DataError, match="null value for field that is required"):
            json_converter().from_connect_data("t", (), struct_schema({"id": INT32_SCHEMA}), {})


@pytest.mark.parametrize(
    ("name", "value", "data"),
    [
        ("converters.ShortConverter", 7, "0007"),
        ("converters.IntegerConverter", -1, "ffffffff"),
        ("converters.LongConverter", 1, "0000000000000001"),
        ("converters.FloatConverter", 1.5, "3fc00000"),
        ("converters.DoubleConverter", 1.5, "3ff8000000000000"),
        ("converters.BooleanConverter", True, "01"),
        ("converters.ByteArrayConverter", b"\x01\x02", "0102"),
        ("storage.StringConverter", "é", "c3a9"),
    ],
)
def test_other_converters_have_the_formats_of_kafkas_serializers(name: str, value: object, data: str) -> None:
    converter = load(f"org.apache.kafka.connect.{name}")
    converter.configure({}, is_key=True)
    written = converter.from_connect_data("t", (), None, value)
    assert written is not None and written.hex() == data
    assert converter.to_connect_data("t", (), written).value == value
    assert converter.from_connect_data("t", (), None, None) is None


@pytest.mark.parametrize("name", ["ShortConverter", "IntegerConverter", "LongConverter", "FloatConverter"])
def test_bytes_of_another_length_are_refused(name: str) -> None:
    with pytest.raises(DataError):
        load(f"org.apache.kafka.connect.converters.{name}").to_connect_data("t", (), b"123")


def test_a_value_of_another_schema_is_refused() -> None:
    with pytest.raises(DataError, match="Invalid schema type"):
        load("org.apache.kafka.connect.converters.IntegerConverter").from_connect_data("t", (), STRING_SCHEMA, "x")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", ""),
        ("null", None),
        ("true", True),
        ("true}", "true}"),
        ("300", 300),
        ("1.5", 1.5),
        ("+7", 7),
        (".5", ".5"),
        ("1 apple", "1 apple"),
        ("[1, 2.5]", [1.0, 2.5]),
        ("[1, null]", "[1, null]"),
        ("[]", []),
        ('{"a": 1, "b": [true]}', {"a": 1, "b": [True]}),
        ("{a: 1}", "{a: 1}"),
        ('{"a": 1, "b": 2}', {"a": 1, "b": 2}),
        ("2024-02-29", dt.date(2024, 2, 29)),
        ("2024-02-30", "2024-02-30"),
        ("01:02:03.004Z", dt.time(1, 2, 3, 4000)),
        ("2024-02-29T01:02:03.004Z", dt.datetime(2024, 2, 29, 1, 2, 3, 4000, tzinfo=dt.UTC)),
        ('["2024-02-29"]', [dt.date(2024, 2, 29)]),
        ("[[[", "[[["),
    ],
)
def test_the_text_of_a_header_means(text: str, value: object) -> None:
    assert parse_string(text).value == value


def test_values_become_text_that_means_them() -> None:
    assert value_text(EVERYTHING.field("at").schema, VALUE["at"]) == "2024-02-29T01:02:03.004Z"  # type: ignore[union-attr]  # it is there
    assert value_text(None, {"a": ['x"y', 1.0, b"ab"]}) == '{"a":["x\\"y",1.0,"YWI="]}'
    assert value_text(FLOAT32_SCHEMA, 1.100000023841858) == "1.1"
    assert value_text(struct_schema({"a": INT32_SCHEMA, "b": OPTIONAL_STRING_SCHEMA}), {"a": 1}) == '{"a":1,"b":null}'


def test_a_header_that_is_no_text_stays_bytes() -> None:
    converter = load("org.apache.kafka.connect.storage.SimpleHeaderConverter")
    assert converter.to_connect_header("t", "h", b"\xff").value == b"\xff"
