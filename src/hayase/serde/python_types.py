"""What a type of values does of its own when it is read: whether it calls code of the application, and its defaults.

A sub-topology that has no journal reads its input again in every attempt, so what it makes of a record may depend on
nothing but the record and the definition that is compared.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import enum
import json
import typing
import uuid
from collections.abc import Iterator
from types import NoneType, UnionType
from typing import Any, Literal, Union

import msgspec

from hayase.serde.field_types import TypeHint

_PLAIN = frozenset(
    {
        NoneType, bool, int, float, str, bytes, bytearray, memoryview, msgspec.Raw,
        dt.datetime, dt.date, dt.time, dt.timedelta, decimal.Decimal, uuid.UUID,
    }
)  # fmt: skip
_CONTAINERS = frozenset({list, dict, tuple, set, frozenset, Union, UnionType})
_FACTORIES = frozenset({list, dict, tuple, set, frozenset, bytearray, str, int, float, bool, bytes})


def is_plain_type(python_type: object) -> bool:
    """Whether values of a type are made of what was read and of constants alone.

    Not of a class with `__post_init__` or a constructor of its own, with a `default_factory` that is no container's or
    number's class, of a Pydantic model, or of a class that is none of dataclass, msgspec.Struct and enum.

    Example:
        >>> is_plain_type(list[int] | None)
        True
        >>> class Order(msgspec.Struct):
        ...     id: str = msgspec.field(default_factory=lambda: str(uuid.uuid4()))
        >>> is_plain_type(Order)
        False
    """
    return _is_plain(python_type, set())


def _is_plain(hint: object, seen: set[type]) -> bool:
    origin = typing.get_origin(hint)
    if origin is Literal:
        return True
    if origin is typing.Annotated:  # what else stands there need not be hashable
        return _is_plain(typing.get_args(hint)[0], seen)
    if origin is not None:
        parts = [part for part in typing.get_args(hint) if part is not Ellipsis]
        return origin in _CONTAINERS and all(_is_plain(part, seen) for part in parts)
    if hint is Any or hint is None:
        return True
    if not isinstance(hint, type):
        return False
    if hint in _PLAIN or hint in _CONTAINERS or hint in seen:
        return True
    seen.add(hint)
    if issubclass(hint, enum.Enum):
        return getattr(hint._missing_, "__func__", None) is getattr(enum.Enum._missing_, "__func__", None)
    fields = _fields(hint)
    return fields is not None and all(
        (factory is None or factory in _FACTORIES) and _is_plain(kind, seen) for kind, factory in fields
    )


def _fields(python_type: type) -> list[tuple[TypeHint, object]] | None:
    """Type and default factory of each field.

    `None` for a class that has code of its own, or types of fields that are not known here.
    """
    try:
        return _fields_of_class(python_type)
    except NameError:  # a name that only a function knew
        return None


def _fields_of_class(python_type: type) -> list[tuple[TypeHint, object]] | None:
    if hasattr(python_type, "__post_init__"):
        return None
    if issubclass(python_type, msgspec.Struct):
        if python_type.__init__ is not msgspec.Struct.__init__:
            return None
        return [
            (each.type, None if each.default_factory is msgspec.NODEFAULT else each.default_factory)
            for each in msgspec.structs.fields(python_type)
        ]
    if not dataclasses.is_dataclass(python_type):
        return None
    parameters = python_type.__dataclass_params__  # type: ignore[attr-defined] # no part of what dataclasses promises
    if not parameters.init or python_type.__new__ is not object.__new__:
        return None
    hints = typing.get_type_hints(python_type, include_extras=True)
    return [
        (hints[each.name], None if each.default_factory is dataclasses.MISSING else each.default_factory)
        for each in dataclasses.fields(python_type)
    ]


def defaults_text(python_type: TypeHint) -> str:
    """What a plain type puts in place of fields that are missing, and what its fields are called in JSON, as text."""
    schema: object
    try:
        schema = msgspec.json.schema(python_type)
    except (
        TypeError,
        ValueError,
        RuntimeError,
        NameError,
    ):  # msgspec has no schema for it; then it reads it field by field
        schema = [(str(kind), str(factory)) for kind, factory in _fields(python_type) or ()]
    return json.dumps(sorted(_texts(schema, "")), default=repr)


def _texts(part: object, path: str) -> Iterator[str]:
    if isinstance(part, dict):
        if "default" in part:
            yield f"{path} = {json.dumps(part['default'], default=repr)}"
        for name, below in part.items():
            if name == "properties" and isinstance(below, dict):
                yield from (f"{path}/{each}" for each in below)
            if name not in ("default", "title", "description"):
                yield from _texts(below, f"{path}/{name}")
    elif isinstance(part, list | tuple):
        for number, below in enumerate(part):
            yield from _texts(below, f"{path}/{number}")
