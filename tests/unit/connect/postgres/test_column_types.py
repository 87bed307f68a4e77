"""Columns of PostgreSQL as Debezium maps them, from the texts that the server writes."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pytest

from hayase.connect.exceptions import DataError
from hayase.connect.postgres.catalog import TypeRegistry
from hayase.connect.postgres.column_types import ColumnType, ColumnTypes, TypeModes
from hayase.connect.schema import SchemaType, validate_value

NAMES = """
bool int2 int4 int8 oid float4 float8 numeric money text varchar bpchar bytea date time timestamp timestamptz
timetz interval uuid json jsonb xml bit varbit point inet tsvector hstore int4range box
""".split()  # noqa: SIM905 - a list of thirty words
OIDS = {name: number for number, name in enumerate(NAMES, 1)}
ROWS = [(oid, "pg_catalog", name, "b", 0, 0, -1, []) for name, oid in OIDS.items()]
ROWS += [(oid + 100, "pg_catalog", f"_{name}", "b", oid, 0, -1, []) for name, oid in OIDS.items()]
ROWS += [
    (301, "public", "mood", "e", 0, 0, -1, ["sad", "happy"]),
    (302, "public", "price", "d", 0, OIDS["numeric"], (10 << 16) + 2 + 4, []),
]


def find(name: str, modifier: int = -1, **modes: Any) -> ColumnType | None:
    oid = {**OIDS, "mood": 301, "price": 302, **{f"{each}[]": number + 100 for each, number in OIDS.items()}}[name]
    return ColumnTypes(TypeRegistry(lambda *_: ROWS), TypeModes(**modes)).find(oid, modifier)


def convert(name: str, text: str, modifier: int = -1, **modes: Any) -> object:
    found = find(name, modifier, **modes)
    assert found is not None
    value = found.convert(text)
    validate_value(found.schema, value)
    return value


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("bool", "t", True),
        ("int8", "-9223372036854775808", -(2**63)),
        ("float8", "1e300", 1e300),
        ("numeric", "12.500", {"scale": 1, "value": b"\x7d"}),
        ("numeric", "1200", {"scale": 0, "value": b"\x04\xb0"}),
        ("price", "12.50", Decimal("12.50")),
        ("money", "-$1,234.50", Decimal("-1234.50")),
        ("bytea", "\\x00ff", b"\0\xff"),
        ("date", "1969-12-31", -1),
        ("date", "0044-03-15 BC", -735160),
        ("date", "infinity", 2**31 - 1),
        ("time", "23:59:59.999999", 86_399_999_999),
        ("timestamp", "2000-01-01 00:00:00.5", 946_684_800_500_000),
        ("timestamp", "-infinity", -9_223_372_036_832_400_000),
        ("timestamptz", "2024-02-03 04:05:06.5+00", "2024-02-03T04:05:06.500000Z"),
        ("timestamptz", "infinity", "infinity"),
        ("timetz", "01:02:03.5+02", "23:02:03.5Z"),
        ("interval", "1 day 00:00:01", 86_401_000_000),
        ("interval", "1 mon", 2_629_800_000_000),
        ("uuid", "2017d4c9-ba37-4f82-9fb5-9ab5df6b91e4", "2017d4c9-ba37-4f82-9fb5-9ab5df6b91e4"),
        ("jsonb", '{"a": 1}', '{"a": 1}'),
        ("hstore", '"a"=>"1", "b"=>NULL', '{"a":"1","b":null}'),
        ("mood", "happy", "happy"),
        ("int4[]", "{1,NULL,3}", [1, None, 3]),
        ("text[]", '{"a,b","c\\"d",NULL,"NULL"}', ["a,b", 'c"d', None, "NULL"]),
        ("point", "(1.5,-2)", {"x": 1.5, "y": -2.0, "wkb": bytes.fromhex("0101000000000000000000f83f00000000000000c0"), "srid": None}),  # noqa: E501
    ],
)  # fmt: skip
def test_a_text_of_the_server_becomes_the_value_of_debezium(name: str, text: str, value: object) -> None:
    assert convert(name, text) == value


@pytest.mark.parametrize(
    ("name", "text", "modes", "value"),
    [
        ("numeric", "1.5", {"decimals": "string"}, "1.5"),
        ("numeric", "NaN", {"decimals": "string"}, "NaN"),
        ("numeric", "1.5", {"decimals": "double"}, 1.5),
        ("bytea", "\\xff", {"binaries": "base64"}, "/w=="),
        ("bytea", "\\xff", {"binaries": "hex"}, "ff"),
        ("interval", "1 year 2 mons 3 days 04:05:06.7", {"intervals": "string"}, "P1Y2M3DT4H5M6.7S"),
        ("hstore", '"a"=>"1"', {"hstores": "map"}, {"a": "1"}),
        ("date", "2024-02-03", {"times": "connect"}, dt.date(2024, 2, 3)),
        ("timestamp", "2024-02-03 00:00:00", {"times": "connect"}, dt.datetime(2024, 2, 3, tzinfo=dt.UTC)),
        ("box", "(1,1),(0,0)", {"unknown": True}, b"(1,1),(0,0)"),
    ],
)  # fmt: skip
def test_values_in_other_modes(name: str, text: str, modes: dict[str, Any], value: object) -> None:
    assert convert(name, text, **modes) == value


def test_the_precision_of_a_time_chooses_its_unit() -> None:
    assert convert("timestamp", "1970-01-01 00:00:01.5", 3) == 1500
    assert convert("time", "00:00:01", 0) == 1000
    assert convert("timestamptz", "2024-02-03 04:05:06+00", 0) == "2024-02-03T04:05:06Z"


def test_bits_are_a_truth_value_or_bytes_from_the_lowest() -> None:
    assert convert("bit", "1", 1) is True
    assert convert("bit", "0000000100000010", 16) == b"\x02\x01"
    found = find("varbit")
    assert found is not None and found.schema.parameters == {"length": "2147483647"}


def test_decimals_have_scale_and_precision_in_their_schema() -> None:
    found = find("numeric", (8 << 16) + 3 + 4)
    assert found is not None
    assert found.schema.parameters == {"scale": "3", "connect.decimal.precision": "8"}


def test_a_number_that_is_none_is_refused_where_decimals_are_exact() -> None:
    with pytest.raises(DataError, match="special value"):
        convert("price", "NaN")


@pytest.mark.parametrize(
    ("name", "text"),
    [("timestamp", "294276-12-31 23:59:59.999999"), ("interval", "300000 years"), ("interval", "-300000 years")],
)
def test_microseconds_that_do_not_fit_in_64_bits_are_refused(name: str, text: str) -> None:
    with pytest.raises(ValueError, match="do not fit in 64 bits"):
        convert(name, text)


def test_columns_of_unknown_types_are_left_out() -> None:
    assert find("box") is None
    assert find("point[]") is None


def test_large_values_that_were_not_sent_have_a_placeholder_of_their_type() -> None:
    placeholders = {name: found.unavailable for name in ("text", "bytea", "text[]", "int4") if (found := find(name))}
    text = "__debezium_unavailable_value"
    assert placeholders == {"text": text, "bytea": text.encode(), "text[]": [text], "int4": None}


@pytest.mark.parametrize("name", NAMES)
def test_what_stands_for_a_required_value_that_is_not_known_fits_the_schema(name: str) -> None:
    for modes in ({}, {"times": "connect", "intervals": "string", "hstores": "map"}):
        found = find(name, **modes)
        if found is not None:
            assert found.schema.type in SchemaType
            validate_value(found.schema, found.fallback)


@pytest.mark.parametrize(
    ("name", "expression", "modifier", "value"),
    [
        ("int4", "42", -1, 42),
        ("int4", "'-1'::integer", -1, -1),
        ("int8", "nextval('ids'::regclass)", -1, 0),
        ("int4", "(1 + 1)", -1, None),
        ("text", "'it''s'::text", -1, "it's"),
        ("text", "lower('ABC'::text)", -1, ""),
        ("text", "NULL::text", -1, None),
        ("bool", "true", -1, True),
        ("numeric", "5", (10 << 16) + 2 + 4, Decimal("5.00")),
        ("numeric", "3.14", -1, None),
        ("date", "CURRENT_DATE", -1, 0),
        ("timestamp", "'2024-01-02 03:04:05.5'::timestamp without time zone", -1, 1_704_164_645_500_000),
        ("timestamptz", "now()", -1, "1970-01-01T00:00:00.000000Z"),
        ("uuid", "gen_random_uuid()", -1, "00000000-0000-0000-0000-000000000000"),
        ("jsonb", "'{}'::jsonb", -1, "{}"),
        ("mood", "'happy'::mood", -1, "happy"),
        ("bytea", "'\\x01'::bytea", -1, None),
        ("inet", "'10.0.0.1'::inet", -1, None),
    ],
)
def test_the_schema_of_a_column_has_its_default_where_debezium_has_it(
    name: str, expression: str, modifier: int, value: object
) -> None:
    oid = {**OIDS, "mood": 301}[name]
    found = ColumnTypes(TypeRegistry(lambda *_: ROWS), TypeModes()).find_column(oid, modifier, expression)
    assert found is not None
    assert found.schema.default == value
