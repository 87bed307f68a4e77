"""Numbers as text the way Java writes and reads it."""

from __future__ import annotations

import math
import re
from decimal import Decimal, InvalidOperation

_WHOLE = re.compile(r"[+-]?[0-9]+", re.ASCII)
_FLOATING = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[dDfF]?", re.ASCII)
_NAMED = {"NaN": math.nan, "Infinity": math.inf}
_DECIMAL = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?", re.ASCII)


def double_text(value: float) -> str:
    """`Double.toString`: plain from 0.001 to 10,000,000, else with an exponent.

    Example:
        >>> double_text(1e10), double_text(0.5), double_text(-1e-5), double_text(math.inf)
        ('1.0E10', '0.5', '-1.0E-5', 'Infinity')
    """
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    two_digits = f"{value:.1e}"  # the nearest of these, where two digits are enough: 4.9E-324, not 5.0E-324
    text = two_digits if float(two_digits) == value else repr(value)
    sign, digits, exponent = Decimal(text).as_tuple()
    text = "".join(map(str, digits))
    return f"{'-' if sign else ''}{text[0]}.{text[1:].rstrip('0') or '0'}E{int(exponent) + len(text) - 1}"


def is_plain(value: float) -> bool:
    """Whether Python's shortest text of a number is Java's too."""
    return value == 0 or 1e-3 <= abs(value) < 1e7


def decimal_text(value: Decimal) -> str:
    """`BigDecimal.toPlainString`: all digits of the scale, without exponent."""
    return format(value, "f")


def whole_number(text: str, bits: int) -> int:
    """`Integer.parseInt`, `Long.parseLong`; raises ValueError."""
    if not _WHOLE.fullmatch(text) or len(text) > 40:
        raise ValueError(f"{text!r:.80} is no whole number")
    number = int(text)
    if not -(1 << bits - 1) <= number < 1 << bits - 1:
        raise ValueError(f"{text!r:.80} does not fit {bits} bits")
    return number


def floating_number(text: str) -> float:
    """`Double.parseDouble`, except for hexadecimal numbers; raises ValueError."""
    stripped = text.strip(_CONTROLS_AND_SPACE)
    if _FLOATING.fullmatch(stripped):
        return float(stripped.rstrip("dDfF"))
    unsigned = stripped[1:] if stripped[:1] in ("+", "-") else stripped
    if unsigned not in _NAMED:
        raise ValueError(f"{text!r:.80} is no number")
    return -_NAMED[unsigned] if stripped[0] == "-" else _NAMED[unsigned]


def decimal_number(text: str) -> Decimal:
    """`new BigDecimal(text)`; raises ValueError."""
    if not _DECIMAL.fullmatch(text):
        raise ValueError(f"{text!r:.80} is no decimal number")
    try:
        return Decimal(text)
    except InvalidOperation as error:
        raise ValueError(f"{text!r:.80} is no decimal number") from error


def wrapped(number: int, bits: int) -> int:
    """The low bits of a number as a signed number, which is what Java's conversions to a narrower type keep."""
    half = 1 << bits - 1
    return (number + half) % (1 << bits) - half


def fitted(value: Decimal, precision: int, scale: int) -> Decimal:
    """The number with exactly that scale.

    Raises:
        ValueError: it has more digits than the type, before the point or behind it.
    """
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        raise ValueError(f"{value} is no decimal number")
    if not value:
        return Decimal((0, (0,), -scale))
    if exponent == -scale and len(digits) <= precision:
        return value
    if value.adjusted() >= precision - scale:
        raise ValueError(f"{_shown(value)} does not fit DECIMAL({precision}, {scale})")
    missing = exponent + scale
    if missing < 0:
        if any(digits[missing:]):
            raise ValueError(f"{_shown(value)} does not fit DECIMAL({precision}, {scale}) without rounding")
        return Decimal((sign, digits[:missing] or (0,), -scale))
    return Decimal((sign, digits + (0,) * missing, -scale))


def _shown(value: Decimal) -> str:
    return f"{value!s:.80}"


_CONTROLS_AND_SPACE = "".join(map(chr, range(0x21)))  # what String.trim takes away
