"""Which format can hold what: columns, wrapping, properties, schemas of a registry; refusals in ksqlDB's words."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hayase.serde.protocol import Side
from hayase.sql.errors import StatementError
from hayase.sql.formats.columns import Column, types_in
from hayase.sql.formats.format_info import (
    DELIMITER,
    FULL_SCHEMA_NAME,
    NULLABLE_REPRESENTATION,
    SCHEMA_ID,
    UNWRAP_PRIMITIVES,
    FormatInfo,
)
from hayase.sql.formats.kafka_format import SERDES as KAFKA_TYPES
from hayase.sql.types import sql_types as sql

AVRO_NAMESPACE = "io.confluent.ksql.avro_schemas"
"""Namespace of the records that are written without a name of their own."""
WRAP, UNWRAP = "WRAP_SINGLES", "UNWRAP_SINGLES"


@dataclass(frozen=True, slots=True)
class FormatSupport:
    """What a format is capable of.

    Attributes:
        wrap: an only column can be a field of a record.
        unwrap: an only column can be written bare.
        inference: columns can come from a schema registry, and schemas are registered there.
        properties: those it takes.
        inherited: those that a sink takes over from a source of the same format.
    """

    wrap: bool = False
    unwrap: bool = False
    inference: bool = False
    properties: frozenset[str] = frozenset()
    inherited: frozenset[str] = frozenset()


_REGISTERED = frozenset({FULL_SCHEMA_NAME, SCHEMA_ID})
_PROTOBUF = frozenset({NULLABLE_REPRESENTATION, UNWRAP_PRIMITIVES})
FORMATS: Mapping[str, FormatSupport] = {
    "AVRO": FormatSupport(wrap=True, unwrap=True, inference=True, properties=_REGISTERED),
    "DELIMITED": FormatSupport(unwrap=True, properties=frozenset({DELIMITER}), inherited=frozenset({DELIMITER})),
    "JSON": FormatSupport(wrap=True, unwrap=True),
    "JSON_SR": FormatSupport(wrap=True, unwrap=True, inference=True, properties=_REGISTERED),
    "KAFKA": FormatSupport(unwrap=True),
    "NONE": FormatSupport(),
    "PROTOBUF": FormatSupport(wrap=True, inference=True, properties=_REGISTERED | _PROTOBUF, inherited=_PROTOBUF),
    "PROTOBUF_NOSR": FormatSupport(wrap=True, properties=_PROTOBUF, inherited=_PROTOBUF),
}
"""All formats by name."""

_FULL_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*")
_REPRESENTATIONS = ("optional", "wrapper")
_SPECIAL_DELIMITERS = ("TAB", "SPACE")
_STRING_KEYS_ONLY = {
    "AVRO": "Avro only supports MAPs with STRING keys",
    "JSON": "JSON only supports MAP types with STRING keys",
    "JSON_SR": "JSON only supports MAP types with STRING keys",
    "PROTOBUF": "PROTOBUF format only supports MAP types with STRING keys",
    "PROTOBUF_NOSR": "PROTOBUF format only supports MAP types with STRING keys",
}


def format_named(name: str) -> str:
    """The name of a format as FORMATS has it, from any case.

    Raises:
        StatementError: `UNKNOWN_FORMAT`.
    """
    if name.upper() not in FORMATS:
        allowed = ", ".join(FORMATS)
        raise StatementError("UNKNOWN_FORMAT", f"Unknown format: {name}; allowed is one of {allowed}")
    return name.upper()


def supports_inference(name: str) -> bool:
    """Whether columns of this format can come from a schema registry."""
    return FORMATS[name].inference


def checked_format(name: str, properties: Mapping[str, str]) -> FormatInfo:
    """A format with the properties that were given for it.

    Args:
        name: of the format, in any case.
        properties: by the names of format_info.

    Raises:
        StatementError: there is no such format, or it does not take one of the properties.
    """
    found = format_named(name)
    unknown = [each for each in properties if each not in FORMATS[found].properties]
    if unknown:
        raise StatementError(
            "INVALID_FORMAT_PROPERTY", f"{found} does not support the following configs: [{', '.join(unknown)}]"
        )
    stripped = {key: value.strip() if key == FULL_SCHEMA_NAME else value for key, value in properties.items()}
    if NULLABLE_REPRESENTATION in stripped:
        stripped[NULLABLE_REPRESENTATION] = _representation(stripped[NULLABLE_REPRESENTATION])
    if stripped.get(FULL_SCHEMA_NAME) == "":
        shown = ", ".join(f"{key}={value}" for key, value in stripped.items())
        raise StatementError(
            "INVALID_FORMAT_PROPERTY",
            f"{FULL_SCHEMA_NAME} cannot be empty. Format configuration: {{{shown}}}",
        )
    full_name = stripped.get(FULL_SCHEMA_NAME)
    if full_name is not None and found != "JSON_SR" and not _FULL_NAME.fullmatch(full_name):
        raise StatementError(
            "INVALID_FORMAT_PROPERTY",
            f"{FULL_SCHEMA_NAME} is {full_name!r}, which is no name of {found}: allowed are letters, digits and _, in "
            "parts with dots between, none of which begins with a digit",
        )
    return FormatInfo(found, tuple(sorted(stripped.items())))


def _representation(given: str) -> str:
    if given.lower() not in _REPRESENTATIONS:
        raise StatementError(
            "INVALID_FORMAT_PROPERTY",
            f"the representation of null in Protobuf is {given!r}; allowed are OPTIONAL and WRAPPER",
        )
    return given.lower()


def default_properties(name: str, side: Side, source_name: str) -> dict[str, str]:
    """The properties that a source's format has without being asked for them."""
    if name == "AVRO" and side == "key":
        return {FULL_SCHEMA_NAME: avro_key_name(source_name)}
    return {UNWRAP_PRIMITIVES: "true"} if name == "PROTOBUF" else {}


def inherited_properties(format_: FormatInfo) -> dict[str, str]:
    """The properties that a sink of the same format takes over."""
    inherited = FORMATS[format_.name].inherited
    return {key: value for key, value in format_.properties if key in inherited}


def avro_key_name(source_name: str) -> str:
    """The full name of the record that the keys of a source are in Avro.

    Example:
        >>> avro_key_name("MY_ORDERS")
        'io.confluent.ksql.avro_schemas.MyOrdersKey'
    """
    camel = "".join(word[:1].upper() + word[1:].lower() for word in source_name.split("_"))
    return f"{AVRO_NAMESPACE}.{camel}Key"


def check_delimiter(setting: str, value: str) -> None:
    """Refuse what is no delimiter; raises StatementError.

    Args:
        setting: `KEY_DELIMITER` or `VALUE_DELIMITER`.
        value: what was given for it.
    """
    if not value.strip():
        problem = (
            "Delimiter cannot be empty, if you meant to have a tab or space for delimiter, please use the special "
            "values 'TAB' or 'SPACE'"
        )
    elif len(value) != 1 and value.upper() not in _SPECIAL_DELIMITERS:
        problem = f"Invalid delimiter value: '{value}'. Delimiter must be a single character or TAB,SPACE"
    else:
        return
    raise StatementError(
        "INVALID_DELIMITER",
        f"Failed to prepare statement: Configuration {setting} is invalid: {problem}\nExample valid value: ';'",
    )


def value_wrapping(name: str, column_count: int, asked: bool | None, default: bool | None = None) -> bool | None:
    """Whether an only value column is wrapped, for FormatInfo.wrap; `None`: as the format does it.

    Args:
        name: of the value format.
        column_count: how many value columns there are.
        asked: WRAP_SINGLE_VALUE.
        default: the setting `ksql.persistence.wrap.single.values`.

    Raises:
        StatementError: it was asked for and cannot be done.
    """
    if asked is not None and column_count != 1:
        raise StatementError("INVALID_WRAPPING", "'WRAP_SINGLE_VALUE' is only valid for single-field value schemas")
    support = FORMATS[name]
    if asked is not None:
        if not (support.wrap if asked else support.unwrap):
            raise StatementError(
                "INVALID_WRAPPING",
                f"Format '{name}' does not support 'WRAP_SINGLE_VALUE' set to '{str(asked).lower()}'.",
            )
        return asked
    if column_count != 1 or default is None:
        return None
    return default if (support.wrap if default else support.unwrap) else None


def features(format_: FormatInfo, side: Side, column_count: int) -> tuple[str, ...]:
    """The features that a topic's keys or values have: nothing, `WRAP_SINGLES` or `UNWRAP_SINGLES`."""
    if column_count != 1:
        return ()
    support = FORMATS[format_.name]
    if side == "key":  # keys are never wrapped where there is a choice
        return (UNWRAP,) if support.wrap and support.unwrap else ()
    return () if format_.wrap is None else (WRAP,) if format_.wrap else (UNWRAP,)


def check_key_columns(format_: FormatInfo, columns: Sequence[Column]) -> None:
    """Refuse key columns that a format cannot hold; raises StatementError with ksqlDB's text."""
    _check("key", format_, columns)


def check_key_types(columns: Sequence[Column]) -> None:
    """Refuse key columns with maps in them, whose entries have no fixed order; raises StatementError."""
    for column in columns:
        if any(isinstance(each, sql.MapType) for each in types_in(column.type)):
            raise StatementError(
                "MAP_IN_KEY",
                "Map keys, including types that contain maps, are not supported as they may lead to unexpected "
                f"behavior due to inconsistent serialization. Key column name: {sql.quoted_name(column.name)}. "
                f"Column type: {column.type}. See https://github.com/confluentinc/ksql/issues/6621 for more.",
            )


def check_value_columns(format_: FormatInfo, columns: Sequence[Column]) -> None:
    """Refuse value columns that a format cannot hold; raises StatementError with ksqlDB's text."""
    _check("value", format_, columns)


def _check(side: Side, format_: FormatInfo, columns: Sequence[Column]) -> None:
    reason = refusal(format_.name, side, columns)
    if reason is None:
        return
    has = ", ".join(features(format_, side, len(columns)))
    shown = f"Persistence{{columns=[{_shown(side, columns)}], features=[{has}]}}"
    raise StatementError(
        "FORMAT_CANNOT_HOLD_COLUMNS",
        f"{side.capitalize()} format does not support schema.\nformat: {format_.name}\nschema: {shown}\n"
        f"reason: {reason}",
    )


def refusal(name: str, side: Side, columns: Sequence[Column]) -> str | None:
    """Why a format cannot hold some columns; `None` if it can."""
    match name:
        case "NONE":
            return _without_columns(side, columns)
        case "KAFKA":
            return _kafka(side, columns)
        case "DELIMITED":
            return _delimited(columns)
        case _:
            return _nested(name, columns)


def _without_columns(side: Side, columns: Sequence[Column]) -> str | None:
    if not columns:
        return None
    return f"The 'NONE' format can only be used when no columns are defined. Got: [{_shown(side, columns)}]"


def _kafka(side: Side, columns: Sequence[Column]) -> str | None:
    if len(columns) > 1:
        other = f"WITH ({side.upper()}_FORMAT = 'JSON')"
        return (
            f"The 'KAFKA' format only supports a single field. Got: [{_shown(side, columns)}]\n"
            f"Another format holds several, for example {other}."
        )
    for column in columns:
        if type(column.type) not in KAFKA_TYPES:
            return f"The 'KAFKA' format does not support type '{base_name(column.type)}'"
    return None


def _delimited(columns: Sequence[Column]) -> str | None:
    for column in columns:
        if isinstance(column.type, sql.ArrayType | sql.MapType | sql.StructType):
            return (
                f"The 'DELIMITED' format does not support type '{base_name(column.type)}', column: "
                f"{sql.quoted_name(column.name)}"
            )
    return None


def _nested(name: str, columns: Sequence[Column]) -> str | None:
    types = [each for column in columns for each in types_in(column.type)]
    if any(isinstance(each, sql.MapType) and not isinstance(each.key, sql.StringType) for each in types):
        return _STRING_KEYS_ONLY[name]
    if name == "AVRO":
        names = [column.name for column in columns]
        names += [field for each in types if isinstance(each, sql.StructType) for field, _ in each.fields]
        return next(filter(None, map(_no_avro_name, names)), None)
    return None


def _no_avro_name(name: str) -> str | None:
    if re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", name):
        return None
    if not name:
        return "Schema is not compatible with Avro: Empty name"
    problem = "Illegal character in" if re.match("[A-Za-z_]", name) else "Illegal initial character"
    return f"Schema is not compatible with Avro: {problem}: {name}"


def base_name(type_: sql.SqlType) -> str:
    """The type's name without what it is made of.

    Example:
        >>> base_name(sql.ArrayType(sql.STRING))
        'ARRAY'
    """
    return re.split("[(<]", str(type_), maxsplit=1)[0].strip()


def _shown(side: Side, columns: Sequence[Column]) -> str:
    suffix = " KEY" if side == "key" else ""
    return ", ".join(f"{sql.quoted_name(column.name)} {column.type}{suffix}" for column in columns)
