"""Java's arithmetic of doubles: conversions that saturate, functions that never raise."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

INT_BITS = 32
LONG_BITS = 64


def saturated_long(value: float) -> int:
    """A double without its fraction as BIGINT: NaN is 0, what is too large is the nearest BIGINT."""
    if math.isnan(value):
        return 0
    limit = 1 << (LONG_BITS - 1)
    if value >= limit:
        return limit - 1
    if value <= -limit:
        return -limit
    return int(value)


def infinity(_: float) -> float:
    """What is too large, whatever the argument."""
    return math.inf


def signed_infinity(value: float) -> float:
    """What is too large, with the sign of the argument."""
    return math.copysign(math.inf, value)


@dataclass(frozen=True, slots=True)
class Total:
    """A function of doubles that never raises: NaN outside of its domain, `overflow` where the result is too large."""

    function: Callable[[float], float]
    overflow: Callable[[float], float] = infinity

    def __call__(self, value: float) -> float:
        """The result for one number."""
        try:
            return self.function(value)
        except ValueError:
            return math.nan
        except OverflowError:
            return self.overflow(value)


def power(base: float, exponent: float) -> float:
    """`Math.pow`."""
    if math.isnan(exponent) or (abs(base) == 1 and math.isinf(exponent)):
        return math.nan
    odd = exponent % 2 == 1
    try:
        return math.pow(base, exponent)
    except OverflowError:
        return -math.inf if base < 0 and odd else math.inf
    except ValueError:
        if base != 0:
            return math.nan
        return math.copysign(math.inf, base) if odd else math.inf


def divide(dividend: float, divisor: float) -> float:
    """A quotient of doubles: by zero it is infinite or NaN."""
    if divisor:
        return dividend / divisor
    if not dividend or math.isnan(dividend) or math.isnan(divisor):
        return math.nan
    return math.copysign(math.inf, dividend) * math.copysign(1.0, divisor)
