"""HyperLogLog sketches as bytes: how many different values there are, in a few KB."""

from __future__ import annotations

import importlib
import math
from decimal import Decimal
from functools import cache
from typing import Any

LOG2_REGISTERS = 12
"""2^12 registers of 4 bits: about 2 KB, with a standard error of 1.6 %; up to 500 values are nearly exact."""


@cache
def _library() -> Any:
    return importlib.import_module("datasketches")


def _sketch(data: bytes | None) -> Any:
    sketch = _library().hll_sketch
    return sketch(LOG2_REGISTERS) if data is None else sketch.deserialize(data)


def added(data: bytes | None, value: object) -> bytes:
    """A sketch with one value more."""
    sketch = _sketch(data)
    sketch.update(canonical(value))
    return bytes(sketch.serialize_compact())


def union(left: bytes | None, right: bytes | None) -> bytes | None:
    """A sketch of the values of two."""
    if left is None or right is None:
        return right if left is None else left
    both = _library().hll_union(LOG2_REGISTERS)
    both.update(_sketch(left))
    both.update(_sketch(right))
    return bytes(both.get_result().serialize_compact())


def estimate(data: bytes | None) -> int:
    """About how many different values a sketch has seen."""
    return 0 if data is None else math.floor(_sketch(data).get_estimate() + 0.5)


def canonical(value: Any) -> str:
    """A text that is equal for equal values of one type, in every process."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "[" + ",".join(_nested(item) for item in value) + "]"
    if isinstance(value, dict):
        return "{" + ",".join(f"{key!r}:{_nested(item)}" for key, item in sorted(value.items())) + "}"
    if isinstance(value, bytes):
        return value.hex()
    return str(value) if isinstance(value, Decimal) else repr(value)


def _nested(value: object) -> str:
    return repr(value) if isinstance(value, str) else canonical(value)
