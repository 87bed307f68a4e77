"""Types as clients of ksqlDB read them: SchemaInfo."""

from __future__ import annotations

from typing import Any

from hayase.sql.types.sql_types import ArrayType, DecimalType, MapType, SqlType, StructType


def schema_info(type_: SqlType) -> dict[str, Any]:
    """The SchemaInfo of a type.

    Example:
        >>> from hayase.sql.types.sql_types import BIGINT
        >>> schema_info(ArrayType(BIGINT))["memberSchema"]
        {'type': 'BIGINT', 'fields': None, 'memberSchema': None}
    """
    match type_:
        case ArrayType(item):
            return {"type": "ARRAY", "fields": None, "memberSchema": schema_info(item)}
        case MapType(_, value):
            return {"type": "MAP", "fields": None, "memberSchema": schema_info(value)}
        case StructType(fields):
            shown = [{"name": name, "schema": schema_info(field)} for name, field in fields]
            return {"type": "STRUCT", "fields": shown, "memberSchema": None}
        case DecimalType(precision, scale):
            parameters = {"precision": precision, "scale": scale}
            return {"type": "DECIMAL", "fields": None, "memberSchema": None, "parameters": parameters}
    return {"type": str(type_), "fields": None, "memberSchema": None}
