"""The formats of sources and results: from WITH, from the settings, or from the source that is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from hayase.serde.protocol import Side
from hayase.sql.analysis.with_properties import WithProperties
from hayase.sql.catalog.sources import DataSource
from hayase.sql.errors import StatementError
from hayase.sql.formats.columns import Column
from hayase.sql.formats.format_info import SCHEMA_ID, FormatInfo
from hayase.sql.formats.support import (
    check_key_columns,
    check_key_types,
    check_value_columns,
    checked_format,
    default_properties,
    format_named,
    inherited_properties,
    supports_inference,
    value_wrapping,
)

DEFAULT_KEY_FORMAT = "ksql.persistence.default.format.key"
DEFAULT_VALUE_FORMAT = "ksql.persistence.default.format.value"
WRAP_BY_DEFAULT = "ksql.persistence.wrap.single.values"
NO_KEY_FORMAT = "NONE"


def source_formats(
    name: str, properties: WithProperties, settings: Mapping[str, object]
) -> tuple[FormatInfo, FormatInfo]:
    """The formats of key and value of a CREATE STREAM or TABLE, before its columns are known.

    Raises:
        StatementError: a format is unknown, or missing.
    """
    key = properties.key_format or str(settings.get(DEFAULT_KEY_FORMAT) or "KAFKA")
    value = properties.value_format or _text(settings.get(DEFAULT_VALUE_FORMAT))
    key_info = _format(name, key, "key", properties, {})
    if value is None:
        raise StatementError(
            "MISSING_FORMAT",
            "Statement is missing the 'VALUE_FORMAT' property from the WITH clause. Either provide one or set a "
            f"default via the '{DEFAULT_VALUE_FORMAT}' config.",
        )
    return key_info, _format(name, value, "value", properties, {})


def sink_formats(
    name: str,
    properties: WithProperties,
    settings: Mapping[str, object],
    source: DataSource,
    key: Sequence[Column],
    *,
    removes_key: bool,
) -> tuple[FormatInfo, FormatInfo]:
    """The formats of key and value of a result: those of the leftmost source where WITH says nothing.

    Raises:
        StatementError: a format is unknown.
    """
    key_name = properties.key_format
    if key_name is None:
        key_name = NO_KEY_FORMAT if removes_key else source.key_format.name
        if key_name == NO_KEY_FORMAT and key:
            key_name = str(settings.get(DEFAULT_KEY_FORMAT) or "KAFKA")
    value_name = properties.value_format or source.value_format.name
    return (
        _format(name, key_name, "key", properties, _inherited(source.key_format, key_name)),
        _format(name, value_name, "value", properties, _inherited(source.value_format, value_name)),
    )


def checked_formats(
    key_format: FormatInfo,
    value_format: FormatInfo,
    key: Sequence[Column],
    value: Sequence[Column],
    properties: WithProperties,
    settings: Mapping[str, object],
) -> tuple[FormatInfo, FormatInfo]:
    """The formats with how an only value is wrapped, once they are known to hold the columns.

    Raises:
        StatementError: a format cannot hold the columns.
    """
    check_key_types(key)
    check_key_columns(key_format, key)
    default = _text(settings.get(WRAP_BY_DEFAULT))
    wrap = value_wrapping(
        value_format.name, len(value), properties.wrap, None if default is None else default.lower() == "true"
    )
    value_format = replace(value_format, wrap=wrap)
    check_value_columns(value_format, value)
    return key_format, value_format


def _format(
    source_name: str, name: str, side: Side, properties: WithProperties, inherited: Mapping[str, str]
) -> FormatInfo:
    given = properties.format_properties(side)
    found = format_named(name)
    if SCHEMA_ID in given and not supports_inference(found):
        raise StatementError(
            "INVALID_PROPERTY",
            f"{side.upper()}_FORMAT should support schema inference when {side.upper()}_SCHEMA_ID is provided. "
            f"Current format is {found}.",
        )
    return checked_format(found, {**default_properties(found, side, source_name), **inherited, **given})


def _inherited(format_: FormatInfo, name: str) -> dict[str, str]:
    return inherited_properties(format_) if format_.name == name.upper() else {}


def _text(value: object) -> str | None:
    return None if value is None or value == "" else str(value)
