"""What values of INSERT … VALUES become without a CAST: more than in queries."""

from __future__ import annotations

import base64
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from typing import Any

from hayase.sql.types.casts import can_cast, caster
from hayase.sql.types.sql_types import BYTES, STRING, ArrayType, MapType, SqlType, StructType, quoted_name


def insert_caster(given: SqlType | None, target: SqlType) -> Callable[[Any], Any]:
    """What makes a value of the given type one of a column; it raises ValueError for a value that does not fit.

    Raises:
        ValueError: no value of the given type fits.
    """
    if given is None or given == target:
        return _same
    if given == STRING and target == BYTES:
        return _bytes_of_text
    if not can_cast(given, target):
        raise ValueError(f"{given} does not become {target}")
    _check_fields(given, target)
    return partial(_unchanged, caster(given, target), target)


def _check_fields(given: SqlType, target: SqlType) -> None:
    """A ValueError for a field of a STRUCT that the target has not: it would be lost, where CAST leaves it out."""
    match given, target:
        case StructType(fields), StructType(target_fields):
            types = dict(target_fields)
            for name, type_ in fields:
                if name not in types:
                    there = ", ".join(map(quoted_name, types))
                    raise ValueError(f"there is no field {quoted_name(name)}; the fields are {there}")
                _check_fields(type_, types[name])
        case ArrayType(item), ArrayType(target_item):
            _check_fields(item, target_item)
        case MapType(_, value), MapType(_, target_value):
            _check_fields(value, target_value)


def _same(value: Any) -> Any:
    return value


def _unchanged(convert: Callable[[Any], Any], target: SqlType, value: Any) -> Any:
    """The converted value; a ValueError where CAST would write another number than the one that was given."""
    result = convert(value)
    _check_numbers(value, result, target)
    return result


def _check_numbers(given: Any, result: Any, target: SqlType) -> None:
    if isinstance(given, list) and isinstance(result, list):
        for one, other in zip(given, result, strict=True):
            _check_numbers(one, other, target)
    elif isinstance(given, dict) and isinstance(result, dict):
        for name in given.keys() & result.keys():
            _check_numbers(given[name], result[name], target)
    elif _is_number(given) and _is_number(result) and _is_exact(given, result) and given != result:
        raise ValueError(f"{given} does not fit {target}: it would become {result}; round it, or CAST it")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def _is_exact(given: Any, result: Any) -> bool:
    """Whether the conversion has to keep the number: a DOUBLE, and the DECIMAL of a DOUBLE, may be the nearest one."""
    return not isinstance(result, float) and not (isinstance(given, float) and isinstance(result, Decimal))


def _bytes_of_text(value: Any) -> bytes | None:
    return None if value is None else base64.b64decode(value, validate=True)
