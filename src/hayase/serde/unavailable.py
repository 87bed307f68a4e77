"""What stands in a row for a large value that an update left as it was, and rows that get the value of the row before.

PostgreSQL keeps large values beside the table and does not send those that an update does not change.
"""

from __future__ import annotations

import base64
import dataclasses
from collections.abc import Sequence
from typing import Any

import msgspec

UNAVAILABLE = "__debezium_unavailable_value"
"""Debezium's placeholder, as text."""
_BYTES = UNAVAILABLE.encode()
_BASE64 = base64.b64encode(_BYTES)
_VALUES = (UNAVAILABLE, _BYTES, [UNAVAILABLE], [_BYTES])
_KINDS = (str, bytes, list)


def may_be_incomplete(row: bytes) -> bool:
    """Whether the JSON of a row has the placeholder somewhere, as text or as bytes in Base64."""
    return _BYTES in row or _BASE64 in row


def unavailable_fields(value: object) -> list[str]:
    """The fields of a row that hold the placeholder: as text, as bytes, or as the one item of a list."""
    if isinstance(value, dict):
        return [name for name, item in value.items() if isinstance(item, _KINDS) and item in _VALUES]
    names = getattr(value, "__struct_fields__", None) or getattr(type(value), "model_fields", None)
    if names is None and dataclasses.is_dataclass(value):
        names = [field.name for field in dataclasses.fields(value)]
    found = []
    for name in names or ():
        item = getattr(value, name)
        if isinstance(item, _KINDS) and item in _VALUES:
            found.append(name)
    return found


def with_fields_of(value: Any, old: Any, names: Sequence[str]) -> Any:
    """A row with some fields of another row of the same type."""
    if isinstance(value, dict):
        return {**value, **{name: old.get(name) for name in names}}
    fields = {name: getattr(old, name) for name in names}
    if isinstance(value, msgspec.Struct):
        return msgspec.structs.replace(value, **fields)
    if dataclasses.is_dataclass(value):
        return dataclasses.replace(value, **fields)  # type: ignore[type-var]
    return value.model_copy(update=fields)
