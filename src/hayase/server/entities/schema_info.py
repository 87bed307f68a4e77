"""Types and columns as answers show them."""

from __future__ import annotations

from collections.abc import Mapping

from hayase.sql.catalog.sources import DataSource
from hayase.sql.types import sql_types as sql


def schema_info(type_: sql.SqlType) -> dict[str, object]:
    """A type: its name, and what it is made of. A map shows its values only; its keys are texts."""
    match type_:
        case sql.DecimalType(precision, scale):
            parameters = {"precision": precision, "scale": scale}
            return {"type": "DECIMAL", "fields": None, "memberSchema": None, "parameters": parameters}
        case sql.ArrayType(item):
            return {"type": "ARRAY", "fields": None, "memberSchema": schema_info(item)}
        case sql.MapType(_, value):
            return {"type": "MAP", "fields": None, "memberSchema": schema_info(value)}
        case sql.StructType(fields):
            shown = [{"name": name, "schema": schema_info(each)} for name, each in fields]
            return {"type": "STRUCT", "fields": shown, "memberSchema": None}
    return {"type": str(type_), "fields": None, "memberSchema": None}


def field_info(name: str, type_: sql.SqlType, kind: str | None = None, header: str | None = None) -> dict[str, object]:
    """A column; `kind` is `KEY` or `HEADER`, `header` the one header that it holds."""
    info: dict[str, object] = {"name": name, "schema": schema_info(type_)}
    if kind is not None:
        info["type"] = kind
    if header is not None:
        info["headerKey"] = header
    return info


def source_fields(source: DataSource) -> list[dict[str, object]]:
    """The columns of a stream or table: those of the key, of the value, of headers."""
    return [
        *(field_info(column.name, column.type, "KEY") for column in source.key),
        *(field_info(column.name, column.type) for column in source.value),
        *(field_info(header.name, header.type, "HEADER", header.key) for header in source.headers),
    ]


def fields_of(columns: Mapping[str, sql.SqlType]) -> list[dict[str, object]]:
    """Columns that have no kind."""
    return [field_info(name, type_) for name, type_ in columns.items()]
