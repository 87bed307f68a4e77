"""Connect's logical types and what they are stored as: bytes for decimals, numbers for dates and times."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import TypeVar

from hayase.connect.exceptions import DataError
from hayase.connect.schema import DATE_NAME, DECIMAL_NAME, SCALE, TIME_NAME, TIMESTAMP_NAME, ConnectSchema

EPOCH_DAY = dt.date(1970, 1, 1).toordinal()
DAY_MS = 86_400_000
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MILLISECOND = dt.timedelta(milliseconds=1)
T = TypeVar("T")


def scale_of(schema: ConnectSchema) -> int:
    """Digits behind the point of a decimal; raises `DataError`."""
    text = schema.parameters.get(SCALE)
    if text is None:
        raise DataError("INVALID_SCHEMA", "Invalid Decimal schema: scale parameter not found.")
    try:
        return int(text)
    except ValueError:
        raise DataError("INVALID_SCHEMA", f"Invalid scale parameter found in Decimal schema: {text!r}") from None


def unscaled_bytes(value: Decimal, scale: int) -> bytes:
    """The digits of a decimal as a whole number, big-endian in two's complement, as short as it can be.

    Raises:
        DataError: `INVALID_VALUE`: the number has another scale.

    Example:
        >>> unscaled_bytes(Decimal("-1.50"), 2).hex()
        'ff6a'
    """
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int) or -exponent != scale:
        given = -exponent if isinstance(exponent, int) else "none"
        raise DataError(
            "INVALID_VALUE", f"Decimal value has mismatching scale for given Decimal schema. {given} instead of {scale}"
        )
    number = int("".join(map(str, digits)) or "0")
    if sign:
        number = -number
    # One bit for the sign; -128 needs no second byte.
    bits = (number if number >= 0 else ~number).bit_length() + 1
    return number.to_bytes((bits + 7) // 8, "big", signed=True)


def decimal_from_bytes(data: bytes, scale: int) -> Decimal:
    """The decimal that `unscaled_bytes` wrote.

    Example:
        >>> decimal_from_bytes(bytes.fromhex("ff6a"), 2)
        Decimal('-1.50')
    """
    number = int.from_bytes(data, "big", signed=True)
    return Decimal((number < 0, tuple(map(int, str(abs(number)))), -scale))


def days_of(value: dt.date) -> int:
    """Days since 1970-01-01."""
    return value.toordinal() - EPOCH_DAY


def milliseconds_of_day(value: dt.time) -> int:
    """Milliseconds since midnight; what is finer is cut off."""
    return ((value.hour * 60 + value.minute) * 60 + value.second) * 1000 + value.microsecond // 1000


def milliseconds_of(value: dt.datetime) -> int:
    """Milliseconds since 1970 (UTC), rounded down; raises `DataError` for a time without a zone."""
    if value.tzinfo is None:
        raise DataError("INVALID_VALUE", f"the timestamp {value} has no time zone; give one, such as datetime.UTC")
    return (value - _EPOCH) // _MILLISECOND


def date_of(days: int) -> dt.date:
    """The date so many days after 1970-01-01; raises `DataError` for what Python's calendar does not have."""
    try:
        return dt.date.fromordinal(days + EPOCH_DAY)
    except (ValueError, OverflowError):
        raise DataError("INVALID_VALUE", f"day {days} is outside of the years 1 to 9999") from None


def time_of(milliseconds: int) -> dt.time:
    """The time of day so many milliseconds after midnight; raises `DataError`."""
    if not 0 <= milliseconds <= DAY_MS:
        raise DataError(
            "INVALID_VALUE",
            "Time values must use number of milliseconds greater than 0 and less than 86400000; "
            f"{milliseconds} was given",
        )
    # Java's Time knows 24:00.
    return (_EPOCH + milliseconds % DAY_MS * _MILLISECOND).time()


def timestamp_of(milliseconds: int) -> dt.datetime:
    """The time so many milliseconds after 1970 (UTC); raises `DataError` for what Python's calendar does not have."""
    try:
        return _EPOCH + milliseconds * _MILLISECOND
    except OverflowError:
        raise DataError("INVALID_VALUE", f"millisecond {milliseconds} is outside of the years 1 to 9999") from None


def encoder(schema: ConnectSchema) -> Callable[[object], object] | None:
    """What turns a value of a logical type into what it is stored as; `None`: the schema is of no logical type."""
    if schema.name == DECIMAL_NAME:
        scale = scale_of(schema)
        return lambda value: unscaled_bytes(_checked(value, Decimal), scale)
    return _ENCODERS.get(schema.name or "")


def decoder(schema: ConnectSchema) -> Callable[[object], object] | None:
    """The opposite of `encoder`."""
    if schema.name == DECIMAL_NAME:
        scale = scale_of(schema)
        return lambda value: decimal_from_bytes(_checked(value, bytes), scale)
    return _DECODERS.get(schema.name or "")


def _checked(value: object, kind: type[T]) -> T:
    # A datetime is a date to Python, but no day.
    if not isinstance(value, kind) or (kind is dt.date and isinstance(value, dt.datetime)):
        raise DataError("INVALID_VALUE", f"Invalid type: expected {kind.__name__} but was {type(value).__name__}")
    return value


_ENCODERS: Mapping[str, Callable[[object], object]] = {
    DATE_NAME: lambda value: days_of(_checked(value, dt.date)),
    TIME_NAME: lambda value: milliseconds_of_day(_checked(value, dt.time)),
    TIMESTAMP_NAME: lambda value: milliseconds_of(_checked(value, dt.datetime)),
}
_DECODERS: Mapping[str, Callable[[object], object]] = {
    DATE_NAME: lambda value: date_of(_checked(value, int)),
    TIME_NAME: lambda value: time_of(_checked(value, int)),
    TIMESTAMP_NAME: lambda value: timestamp_of(_checked(value, int)),
}
