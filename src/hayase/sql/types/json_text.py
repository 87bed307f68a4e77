"""Values as JSON text, without spaces: what TO_JSON_STRING gives."""

from __future__ import annotations

import json
import math
from base64 import b64encode
from typing import Any

from hayase.sql.types.sql_types import (
    ArrayType,
    BytesType,
    DateType,
    DecimalType,
    DoubleType,
    MapType,
    SqlType,
    StructType,
    TimestampType,
    TimeType,
)
from hayase.sql.types.text import decimal_text, double_text
from hayase.sql.types.times import date_text, time_text, timestamp_text


def json_text(value: Any, type_: SqlType | None) -> str:
    """The JSON of a value of a type; `null` for null."""
    if value is None:
        return "null"
    match type_:
        case DoubleType():
            return double_text(value) if math.isfinite(value) else _quoted(double_text(value))
        case DecimalType():
            return decimal_text(value)
        case DateType():
            return _quoted(date_text(value))
        case TimeType():
            return _quoted(time_text(value))
        case TimestampType():
            return _quoted(timestamp_text(value))
        case BytesType():
            return _quoted(b64encode(value).decode())
        case ArrayType(item):
            return "[" + ",".join(json_text(one, item) for one in value) + "]"
        case MapType(_, item):
            return _object((str(name), json_text(one, item)) for name, one in value.items())
        case StructType(fields):
            return _object((name, json_text(value.get(name), field)) for name, field in fields)
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _object(members: Any) -> str:
    return "{" + ",".join(f"{_quoted(name)}:{text}" for name, text in members) + "}"
