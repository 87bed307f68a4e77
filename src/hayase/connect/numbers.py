"""Floating-point numbers of 32 bits, which Python does not have."""

from __future__ import annotations

import math
import struct

_FLOAT32 = struct.Struct("!f")


def to_float32(value: float) -> float:
    """The nearest number of 32 bits; infinity for one that is too large.

    Example:
        >>> to_float32(1.1), to_float32(1e300)
        (1.100000023841858, inf)
    """
    try:
        result: float = _FLOAT32.unpack(_FLOAT32.pack(value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)
    return result


def shortest_float32(value: float) -> float:
    """The number with the fewest digits that is the same in 32 bits: what Java writes.

    Example:
        >>> shortest_float32(1.100000023841858)
        1.1
    """
    rounded = to_float32(value)
    for digits in (6, 7, 8):
        shorter = float(f"{rounded:.{digits}g}")
        if to_float32(shorter) == rounded:
            return shorter
    return float(f"{rounded:.9g}")
