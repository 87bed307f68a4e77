"""What each format can hold, and how a refusal is worded."""

from __future__ import annotations

import pytest

from hayase.sql.errors import StatementError
from hayase.sql.formats.columns import Column
from hayase.sql.formats.format_info import DELIMITER, FULL_SCHEMA_NAME, NULLABLE_REPRESENTATION, FormatInfo
from hayase.sql.formats.support import (
    FORMATS,
    avro_key_name,
    check_delimiter,
    check_key_columns,
    check_key_types,
    check_value_columns,
    checked_format,
    default_properties,
    features,
    format_named,
    inherited_properties,
    supports_inference,
    value_wrapping,
)
from hayase.sql.types import sql_types as sql

A, B = Column("A", sql.INTEGER), Column("B", sql.STRING)
LIST = Column("L", sql.ArrayType(sql.DOUBLE))
NUMBERED = Column("M", sql.MapType(sql.INTEGER, sql.STRING))


def test_formats_are_found_in_any_case() -> None:
    assert format_named("AvRo") == "AVRO"
    with pytest.raises(StatementError, match="Unknown format: FOO; allowed is one of AVRO, DELIMITED"):
        format_named("FOO")


def test_the_formats_with_a_registry_infer_columns() -> None:
    assert {name for name in FORMATS if supports_inference(name)} == {"AVRO", "JSON_SR", "PROTOBUF"}


def test_a_format_takes_only_its_own_properties() -> None:
    assert checked_format("delimited", {DELIMITER: "|"}) == FormatInfo("DELIMITED", ((DELIMITER, "|"),))
    with pytest.raises(StatementError, match=r"JSON does not support the following configs: \[fullSchemaName\]"):
        checked_format("JSON", {FULL_SCHEMA_NAME: "a.B"})
    with pytest.raises(StatementError, match=r"fullSchemaName cannot be empty\. .*\{fullSchemaName=\}"):
        checked_format("AVRO", {FULL_SCHEMA_NAME: " "})
    for name in ("a-b.c", "a..b", "1a", "a.b."):
        with pytest.raises(StatementError, match="which is no name of AVRO"):
            checked_format("AVRO", {FULL_SCHEMA_NAME: name})


def test_the_representation_of_null_is_optional_or_wrapper() -> None:
    format_ = checked_format("PROTOBUF", {NULLABLE_REPRESENTATION: "Wrapper"})
    assert format_.property(NULLABLE_REPRESENTATION) == "wrapper"
    with pytest.raises(StatementError, match="'MAYBE'; allowed are OPTIONAL and WRAPPER"):
        checked_format("PROTOBUF", {NULLABLE_REPRESENTATION: "MAYBE"})


def test_sinks_take_over_delimiter_and_representation_of_null() -> None:
    assert inherited_properties(FormatInfo("DELIMITED", ((DELIMITER, "|"),))) == {DELIMITER: "|"}
    assert inherited_properties(FormatInfo("AVRO", ((FULL_SCHEMA_NAME, "a.B"),))) == {}


def test_avro_keys_are_named_after_their_source() -> None:
    assert avro_key_name("MY_ORDERS") == "io.confluent.ksql.avro_schemas.MyOrdersKey"
    assert default_properties("AVRO", "key", "S1") == {FULL_SCHEMA_NAME: avro_key_name("S1")}
    assert default_properties("AVRO", "value", "S1") == {}


@pytest.mark.parametrize("value", ["", " ", "\t"])
def test_an_empty_delimiter_is_refused(value: str) -> None:
    with pytest.raises(StatementError, match="VALUE_DELIMITER is invalid: Delimiter cannot be empty"):
        check_delimiter("VALUE_DELIMITER", value)


def test_a_delimiter_is_one_character_or_a_name() -> None:
    for value in ("|", ";", "TAB", "space"):
        check_delimiter("KEY_DELIMITER", value)
    with pytest.raises(StatementError, match="Invalid delimiter value: '<~>'"):
        check_delimiter("KEY_DELIMITER", "<~>")


@pytest.mark.parametrize(
    ("name", "count", "asked", "default", "wrapped"),
    [
        ("JSON", 1, None, None, None),
        ("JSON", 1, False, None, False),
        ("JSON", 1, None, False, False),
        ("JSON", 2, None, False, None),
        ("DELIMITED", 1, False, True, False),
        ("DELIMITED", 1, None, True, None),
        ("PROTOBUF", 1, True, None, True),
    ],
)
def test_an_only_value_is_wrapped_as_asked_or_as_is_the_default(
    name: str, count: int, asked: bool | None, default: bool | None, wrapped: bool | None
) -> None:
    assert value_wrapping(name, count, asked, default) is wrapped


@pytest.mark.parametrize(
    ("name", "count", "asked", "reason"),
    [
        ("JSON", 2, True, "only valid for single-field value schemas"),
        ("DELIMITED", 1, True, "Format 'DELIMITED' does not support 'WRAP_SINGLE_VALUE' set to 'true'"),
        ("PROTOBUF", 1, False, "Format 'PROTOBUF' does not support 'WRAP_SINGLE_VALUE' set to 'false'"),
    ],
)
def test_wrapping_that_cannot_be_is_refused(name: str, count: int, asked: bool, reason: str) -> None:
    with pytest.raises(StatementError, match=reason):
        value_wrapping(name, count, asked)


def test_only_keys_that_could_be_wrapped_are_said_to_be_unwrapped() -> None:
    assert features(FormatInfo("AVRO"), "key", 1) == ("UNWRAP_SINGLES",)
    assert features(FormatInfo("KAFKA"), "key", 1) == features(FormatInfo("AVRO"), "key", 2) == ()
    assert features(FormatInfo("JSON", wrap=True), "value", 1) == ("WRAP_SINGLES",)
    assert features(FormatInfo("JSON"), "value", 1) == ()


@pytest.mark.parametrize(
    ("name", "columns", "reason"),
    [
        ("KAFKA", [A, B], "The 'KAFKA' format only supports a single field. Got: [`A` INTEGER KEY, `B` STRING KEY]"),
        ("KAFKA", [Column("K", sql.BOOLEAN)], "The 'KAFKA' format does not support type 'BOOLEAN'"),
        ("DELIMITED", [LIST], "The 'DELIMITED' format does not support type 'ARRAY', column: `L`"),
        ("NONE", [A], "The 'NONE' format can only be used when no columns are defined. Got: [`A` INTEGER KEY]"),
        ("JSON", [NUMBERED], "JSON only supports MAP types with STRING keys"),
        ("PROTOBUF", [NUMBERED], "PROTOBUF format only supports MAP types with STRING keys"),
        ("AVRO", [NUMBERED], "Avro only supports MAPs with STRING keys"),
        ("AVRO", [Column("1a", sql.INTEGER)], "Schema is not compatible with Avro: Illegal initial character: 1a"),
        ("AVRO", [Column("a b", sql.INTEGER)], "Schema is not compatible with Avro: Illegal character in: a b"),
    ],
)
def test_a_format_refuses_key_columns_with_the_schema_and_the_reason(
    name: str, columns: list[Column], reason: str
) -> None:
    with pytest.raises(StatementError) as refused:
        check_key_columns(FormatInfo(name), columns)
    first, format_, schema, why, *advice = refused.value.message.split("\n")
    assert advice == (
        ["Another format holds several, for example WITH (KEY_FORMAT = 'JSON')."] if "single" in why else []
    )
    assert first == "Key format does not support schema."
    assert (format_, why) == (f"format: {name}", f"reason: {reason}")
    assert schema.startswith("schema: Persistence{columns=[`")


def test_nested_types_are_looked_into() -> None:
    nested = Column("S", sql.StructType((("F", sql.ArrayType(NUMBERED.type)),)))
    with pytest.raises(StatementError, match="Value format does not support"):
        check_value_columns(FormatInfo("JSON"), [nested])
    with pytest.raises(StatementError, match=r"Map keys, including types that contain maps.*Key column name: `S`"):
        check_key_types([nested])


@pytest.mark.parametrize("name", ["JSON", "JSON_SR", "AVRO", "PROTOBUF", "PROTOBUF_NOSR"])
def test_the_other_formats_hold_all_types(name: str) -> None:
    check_value_columns(FormatInfo(name), [A, B, LIST, Column("M", sql.MapType(sql.STRING, sql.DATE))])
