"""What each format reads and refuses, and the exact bytes that it writes."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import pytest

from hayase.core.errors import ConfigError, SerializationError
from hayase.sql.formats.columns import Column
from hayase.sql.formats.delimited_text import joined, split
from hayase.sql.formats.format_info import DELIMITER, FormatInfo
from hayase.sql.formats.serdes import key_serde, value_serde
from hayase.sql.types import sql_types as sql

MONEY = sql.DecimalType(4, 2)


def read_json(type_: sql.SqlType, text: str) -> Any:
    """What a column V of the type gets of the JSON text of its field."""
    serde = value_serde(FormatInfo("JSON"), [Column("V", type_)])
    row = serde.deserialize(b'{"V":' + text.encode() + b"}")
    assert row is not None
    return row["V"]


def write_json(type_: sql.SqlType, value: Any) -> str:
    """The JSON text of a value, of a column that is not wrapped."""
    data = value_serde(FormatInfo("JSON", wrap=False), [Column("V", type_)]).serialize({"V": value})
    assert data is not None
    return data.decode()


@pytest.mark.parametrize(
    ("type_", "text", "value"),
    [
        (sql.INTEGER, "12", 12),
        (sql.INTEGER, '"12"', 12),
        (sql.INTEGER, '"+12"', 12),
        (sql.INTEGER, "12.9", 12),
        (sql.INTEGER, "2147483648", -2147483648),
        (sql.BIGINT, "1e3", 1000),
        (sql.DOUBLE, "1", 1.0),
        (sql.DOUBLE, '" 1.5 "', 1.5),
        (sql.DOUBLE, '"NaN"', math.nan),
        (sql.DOUBLE, '"-Infinity"', -math.inf),
        (sql.DOUBLE, "1e400", math.inf),
        (sql.BOOLEAN, "true", True),
        (sql.STRING, "true", "true"),
        (sql.STRING, "1.50", "1.50"),
        (sql.STRING, "12345678901234567890", "12345678901234567890"),
        (sql.STRING, '["a", 1, null, [2]]', "[a, 1, null, [2]]"),
        (sql.STRING, '{"b": 1.50, "a": null}', '{"b":1.50,"a":null}'),
        (MONEY, "1.5", Decimal("1.50")),
        (MONEY, '"1.50"', Decimal("1.50")),
        (MONEY, "1.500", Decimal("1.50")),
        (MONEY, "12", Decimal("12.00")),
        (sql.DATE, "-3", -3),
        (sql.TIMESTAMP, '"1700000000000"', 1700000000000),
        (sql.BYTES, '"AQI="', b"\x01\x02"),
        (sql.ArrayType(sql.STRING), '[1, null, "x"]', ["1", None, "x"]),
        (sql.MapType(sql.STRING, sql.INTEGER), '{"a": "1", "b": null}', {"a": 1, "b": None}),
        (sql.StructType((("F", sql.INTEGER), ("G", sql.INTEGER))), '{"f": 1}', {"F": 1, "G": None}),
        (sql.INTEGER, "null", None),
    ],
)
def test_json_is_read_as(type_: sql.SqlType, text: str, value: Any) -> None:
    assert repr(read_json(type_, text)) == repr(value)


@pytest.mark.parametrize(
    ("type_", "text"),
    [
        (sql.INTEGER, "true"),
        (sql.INTEGER, '"1.5"'),
        (sql.INTEGER, '"2147483648"'),
        (sql.INTEGER, '" 1"'),
        (sql.INTEGER, '"1_0"'),
        (sql.BIGINT, "1e999999"),
        (sql.DOUBLE, '"x"'),
        (sql.DOUBLE, "[]"),
        (sql.BOOLEAN, '"true"'),
        (sql.BOOLEAN, "1"),
        (MONEY, "100"),
        (MONEY, "1.234"),
        (MONEY, '"1,5"'),
        (sql.BYTES, "1"),
        (sql.BYTES, '"?"'),
        (sql.ArrayType(sql.INTEGER), "{}"),
        (sql.MapType(sql.STRING, sql.INTEGER), "[]"),
        (sql.StructType((("F", sql.INTEGER),)), "[]"),
        (sql.INTEGER, "12"[:1] + "x"),
    ],
)
def test_json_is_refused_as_a_bad_record(type_: sql.SqlType, text: str) -> None:
    with pytest.raises(SerializationError, match="Unable to deserialize"):
        read_json(type_, text)


def test_a_json_field_of_exactly_the_name_goes_before_the_upper_cased_one() -> None:
    serde = value_serde(FormatInfo("JSON"), [Column("AB", sql.INTEGER), Column("cd", sql.INTEGER)])
    assert serde.deserialize(b'{"ab": 1, "AB": 2, "CD": 3}') == {"AB": 2, "cd": None}
    assert serde.deserialize(b'{"Ab": 1, "cd": 3}') == {"AB": 1, "cd": 3}


@pytest.mark.parametrize(
    ("type_", "value", "text"),
    [
        (sql.DOUBLE, 1.0, "1.0"),
        (sql.DOUBLE, 1e10, "1.0E10"),
        (sql.DOUBLE, 1.5e-7, "1.5E-7"),
        (sql.DOUBLE, math.nan, '"NaN"'),
        (sql.DOUBLE, -math.inf, '"-Infinity"'),
        (sql.DecimalType(20, 10), Decimal("1E-10"), "0.0000000001"),
        (MONEY, Decimal("1.50"), "1.50"),
        (sql.BYTES, b"\x01\x02", '"AQI="'),
        (sql.MapType(sql.STRING, sql.INTEGER), {None: 1}, '{"null":1}'),
        (sql.StructType((("B", sql.INTEGER), ("A", sql.DOUBLE))), {"A": 2.0, "B": None}, '{"B":null,"A":2.0}'),
    ],
)
def test_json_is_written_as(type_: sql.SqlType, value: Any, text: str) -> None:
    assert write_json(type_, value) == text


def test_an_only_value_column_is_wrapped_unless_asked_otherwise() -> None:
    columns = [Column("V", sql.INTEGER)]
    wrapped, bare = (value_serde(FormatInfo("JSON", wrap=wrap), columns) for wrap in (None, False))
    assert wrapped.serialize({"V": 1}) == b'{"V":1}'
    assert bare.serialize({"V": 1}) == b"1"
    assert bare.deserialize(b"1") == {"V": 1}
    assert wrapped.serialize({"V": None}) == b'{"V":null}'
    assert bare.serialize({"V": None}) is None


def test_several_key_columns_are_an_object_and_one_is_bare() -> None:
    one, two = Column("A", sql.INTEGER), Column("B", sql.STRING)
    assert key_serde(FormatInfo("JSON"), [one]).serialize(1) == b"1"
    assert key_serde(FormatInfo("JSON"), [one, two]).serialize({"A": 1, "B": "x"}) == b'{"A":1,"B":"x"}'
    assert key_serde(FormatInfo("JSON"), [one, two]).deserialize(b'{"b":"x"}') == {"A": None, "B": "x"}


def test_without_key_columns_keys_are_null_whatever_is_there() -> None:
    for name in ("KAFKA", "NONE", "JSON"):
        serde = key_serde(FormatInfo(name), [])
        assert serde.deserialize(b"anything") is None
        assert serde.serialize(None) is None


def test_the_text_null_is_no_row() -> None:
    assert value_serde(FormatInfo("JSON"), [Column("V", sql.INTEGER)]).deserialize(b"null") is None


@pytest.mark.parametrize(
    ("columns", "line"),
    [
        (["a", None, "b"], "a,,b"),
        (["", ""], '"",'),
        ([None, "x"], ",x"),
        (['say "hi"', "a,b"], '"say ""hi""","a,b"'),
        (["x", "two\nlines"], 'x,"two\nlines"'),
        (["-1", "-1"], '"-1",-1'),
        (["x", "#y", " z", "w "], 'x,"#y"," z","w "'),
    ],
)
def test_columns_are_quoted_where_they_have_to_be(columns: list[str | None], line: str) -> None:
    assert joined(columns, ",") == line
    assert split(line, ",") == [text or "" for text in columns]


@pytest.mark.parametrize("line", ["", "\n\n", '"open', '"a"b,c'])
def test_what_is_no_line_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match=r"no line|not closed|between"):
        split(line, ",")


def test_only_the_first_line_counts() -> None:
    assert split("\r\na,b\r\nc,d", ",") == ["a", "b"]


@pytest.mark.parametrize(("delimiter", "line"), [("SPACE", b"1 x"), ("TAB", b"1\tx"), ("|", b"1|x"), (None, b"1,x")])
def test_delimiters(delimiter: str | None, line: bytes) -> None:
    properties = () if delimiter is None else ((DELIMITER, delimiter),)
    serde = value_serde(FormatInfo("DELIMITED", properties), [Column("A", sql.INTEGER), Column("B", sql.STRING)])
    assert serde.serialize({"A": 1, "B": "x"}) == line
    assert serde.deserialize(line) == {"A": 1, "B": "x"}


@pytest.mark.parametrize("line", [b"1", b"1,x,y", b"x,x", b"\xff,x"])
def test_a_line_that_does_not_fit_the_columns_is_a_bad_record(line: bytes) -> None:
    serde = value_serde(FormatInfo("DELIMITED"), [Column("A", sql.INTEGER), Column("B", sql.STRING)])
    with pytest.raises(SerializationError, match="DELIMITED value"):
        serde.deserialize(line)


@pytest.mark.parametrize(
    ("type_", "value", "data"),
    [
        (sql.INTEGER, -1, b"\xff\xff\xff\xff"),
        (sql.BIGINT, 1, b"\0\0\0\0\0\0\0\x01"),
        (sql.DOUBLE, 1.5, b"\x3f\xf8\0\0\0\0\0\0"),
        (sql.STRING, "é", b"\xc3\xa9"),
        (sql.BYTES, b"\x01", b"\x01"),
    ],
)
def test_kafka_writes_as_kafkas_serializers(type_: sql.SqlType, value: Any, data: bytes) -> None:
    serde = key_serde(FormatInfo("KAFKA"), [Column("K", type_)])
    assert serde.serialize(value) == data
    assert serde.deserialize(data) == value


def test_kafka_refuses_bytes_of_another_length() -> None:
    with pytest.raises(SerializationError):
        key_serde(FormatInfo("KAFKA"), [Column("K", sql.INTEGER)]).deserialize(b"\0")


def test_a_format_with_schemas_needs_a_registry() -> None:
    with pytest.raises(ConfigError, match=r"schema\.registry\.url"):
        value_serde(FormatInfo("AVRO"), [Column("V", sql.INTEGER)], topic="t")
