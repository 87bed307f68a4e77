"""Streams and tables as JSON, for what is kept from one start of a program to the next."""

from __future__ import annotations

from collections.abc import Sequence

from hayase.core.objects import JsonObject
from hayase.sql.ast.queries import WindowKind
from hayase.sql.ast.statements import SourceKind
from hayase.sql.catalog.sources import DataSource, HeaderColumn, TimestampColumn, WindowedKey
from hayase.sql.formats.columns import Column
from hayase.sql.formats.format_info import FormatInfo
from hayase.sql.grammar.parser import parse_type


def source_to_json(source: DataSource) -> JsonObject:
    """What JSON keeps of a source; its statement's text stays behind."""
    return {
        "kind": source.kind.value,
        "name": source.name,
        "topic": source.topic,
        "key": columns_to_json(source.key),
        "value": columns_to_json(source.value),
        "headers": [[each.name, str(each.type), each.key] for each in source.headers],
        "keyFormat": _format_to_json(source.key_format),
        "valueFormat": _format_to_json(source.value_format),
        "window": None if source.window is None else [source.window.kind.value, source.window.size_ms],
        "timestamp": None if source.timestamp is None else [source.timestamp.name, source.timestamp.format],
        "isSource": source.is_source,
        "fromQuery": source.from_query,
    }


def source_from_json(data: JsonObject) -> DataSource:
    """A source that `source_to_json` wrote."""
    window, timestamp = data["window"], data["timestamp"]
    return DataSource(
        kind=SourceKind(data["kind"]),
        name=data["name"],
        topic=data["topic"],
        key=columns_from_json(data["key"]),
        value=columns_from_json(data["value"]),
        headers=tuple(HeaderColumn(name, parse_type(type_), key) for name, type_, key in data["headers"]),
        key_format=_format_from_json(data["keyFormat"]),
        value_format=_format_from_json(data["valueFormat"]),
        window=None if window is None else WindowedKey(WindowKind(window[0]), window[1]),
        timestamp=None if timestamp is None else TimestampColumn(*timestamp),
        is_source=data["isSource"],
        from_query=data["fromQuery"],
    )


def columns_to_json(columns: Sequence[Column]) -> list[list[str]]:
    """Names and types of columns."""
    return [[column.name, str(column.type)] for column in columns]


def columns_from_json(data: Sequence[Sequence[str]]) -> tuple[Column, ...]:
    """Columns that `columns_to_json` wrote."""
    return tuple(Column(name, parse_type(type_)) for name, type_ in data)


def _format_to_json(format_: FormatInfo) -> JsonObject:
    return {"name": format_.name, "properties": dict(format_.properties), "wrap": format_.wrap}


def _format_from_json(data: JsonObject) -> FormatInfo:
    return FormatInfo(data["name"], tuple(sorted(data["properties"].items())), data["wrap"])
