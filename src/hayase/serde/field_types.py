"""Column types of fields, and what they are elsewhere: type hints that check values, and JSON Schema."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

import msgspec
import polars as pl

from hayase.core.errors import ConfigError

TypeHint: TypeAlias = Any
"""A type hint: a class, a union, `Annotated`, …; a hint has no type that says so."""

_LIMITS: dict[type[pl.DataType], tuple[int, int]] = {
    pl.Int8: (-(2**7), 2**7 - 1),
    pl.Int16: (-(2**15), 2**15 - 1),
    pl.Int32: (-(2**31), 2**31 - 1),
    pl.Int64: (-(2**63), 2**63 - 1),
    pl.UInt8: (0, 2**8 - 1),
    pl.UInt16: (0, 2**16 - 1),
    pl.UInt32: (0, 2**32 - 1),
}
_PLAIN: dict[type[pl.DataType], type[float] | type[str]] = {pl.Float64: float, pl.String: str, pl.Boolean: bool}


def hint_of(name: str, dtype: object, binary: bool) -> TypeHint:
    """The type hint, null allowed, that accepts exactly the values of a column type.

    Raises:
        ConfigError: `INVALID_FIELD_TYPE`.
    """
    dtype = instance_of(dtype)
    kind = type(dtype)
    if kind in _LIMITS:
        return int_within(kind) | None
    if kind in _PLAIN:
        return _PLAIN[kind] | None
    if binary and kind is pl.Binary:
        return bytes | None
    if isinstance(dtype, pl.List):
        return list.__class_getitem__(hint_of(name, dtype.inner, binary)) | None
    if isinstance(dtype, pl.Struct):
        inner = [(f.name, hint_of(f"{name}.{f.name}", f.dtype, binary), None) for f in dtype.fields]
        return msgspec.defstruct("Struct", inner, gc=False, eq=False) | None
    kinds: list[type[pl.DataType]] = [*_LIMITS, *_PLAIN, *([pl.Binary] if binary else []), pl.List, pl.Struct]
    allowed = ", ".join(kind.__name__ for kind in kinds)
    raise ConfigError("INVALID_FIELD_TYPE", f"field {name!r} is {dtype}; allowed are {allowed}")


def json_schema_of(given: object) -> dict[str, object]:
    """The JSON Schema of the values of a column type that are not null."""
    dtype = instance_of(given)
    if isinstance(dtype, pl.Struct):
        fields = {f.name: {"anyOf": [json_schema_of(f.dtype), {"type": "null"}]} for f in dtype.fields}
        return {"type": "object", "properties": fields}
    if isinstance(dtype, pl.List):
        return {"type": "array", "items": {"anyOf": [json_schema_of(dtype.inner), {"type": "null"}]}}
    if type(dtype) in _LIMITS:
        low, high = _LIMITS[type(dtype)]
        return {"type": "integer", "minimum": low, "maximum": high}
    return {"type": {pl.Float64: "number", pl.String: "string", pl.Boolean: "boolean"}.get(type(dtype), "any")}


def instance_of(dtype: object) -> pl.DataType:
    """A column type that was given as a class (`pl.Int64`) or as an instance."""
    if isinstance(dtype, type) and not issubclass(dtype, pl.List | pl.Struct):  # these need arguments
        dtype = dtype()
    instance: pl.DataType = dtype  # type: ignore[assignment] # what is none, `hint_of` refuses
    return instance


def int_within(kind: type[pl.DataType]) -> TypeHint:
    """The type hint of integers that fit a column type."""
    low, high = _LIMITS[kind]
    return Annotated[int, msgspec.Meta(ge=low, le=high)]
