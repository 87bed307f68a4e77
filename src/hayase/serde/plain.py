"""Values of Python's own types as bytes that say their type: what internal topics hold where no serde is known.

MessagePack, with an extension for each type that it does not have. Reading makes values of these types and nothing
else, so bytes of others can be no more than wrong. Values come back as they were: a tuple is no list, a set is a set.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import msgspec

from hayase.core.errors import SerializationError
from hayase.serde.bare import READ_ERRORS, refuse_bytes
from hayase.serde.faults import shown
from hayase.serde.protocol import Serde

_INT_LIMITS = (-(2**63), 2**64 - 1)
_TUPLE, _PAIRS, _SET, _FROZENSET, _INT, _DATETIME, _DATE, _TIME, _TIMEDELTA, _DECIMAL, _UUID = range(1, 12)


class PlainSerde(Serde):
    """Values of Python's own types in MessagePack: for internal topics where no serde is known.

    None, bool, int, float, str, bytes, list, tuple, dict, set, frozenset, date, time, datetime, timedelta, Decimal and
    UUID. Instances of other classes, also of classes derived from these, are refused: give their table or stream a
    serde. A time zone comes back as its offset from UTC. It has no column form.

    Example:
        >>> serde = PlainSerde()
        >>> serde.deserialize(serde.serialize({"at": (1, 2.5), 3: {b"x"}}))
        {'at': (1, 2.5), 3: {b'x'}}
    """

    def to_bytes(self, value: object) -> bytes:
        """Raises SerializationError for a value of another class, or one that holds such a value."""
        try:
            return _ENCODER.encode(_packed(value))
        except READ_ERRORS as error:
            raise SerializationError(
                "NO_SERDE",
                f"no serde is known for {shown(value)} ({type(value).__name__}), which crosses an internal topic: "
                f"{error}. Give the table or stream a serde (Consumed, Materialized, Grouped), annotate the function "
                "that makes the values, or set default.value.serde; Serdes.pickle() takes any value, if you trust "
                "all who can write to the topic",
            ) from error

    def from_bytes(self, data: bytes) -> Any:
        """Raises SerializationError."""
        try:
            return _DECODER.decode(data)
        except READ_ERRORS as error:
            refusal = refuse_bytes(self, data, "a value of Python's own types")
            if data[:1] == b"\x80" and data[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05"):
                refusal.message += (
                    ". They look like a pickle, as versions before wrote it to internal topics; if you trust all who "
                    "can write to the topic, give the table or stream the serde Serdes.pickle() until they are read"
                )
            raise refusal from error


def _packed(value: Any) -> Any:
    """What msgspec writes without loss."""
    kind = type(value)
    if kind in (str, float, bool, bytes) or value is None:
        return value
    if kind is int:
        return value if _INT_LIMITS[0] <= value <= _INT_LIMITS[1] else _ext(_INT, hex(value))
    if kind is list:
        return [_packed(each) for each in value]
    if kind is dict:
        if all(type(key) is str for key in value):
            return {key: _packed(each) for key, each in value.items()}
        return _ext(_PAIRS, [[_packed(key), _packed(each)] for key, each in value.items()])
    if kind not in _EXTENSIONS:
        raise TypeError(f"{kind.__qualname__} is none of Python's own types")
    code, write = _EXTENSIONS[kind]
    return _ext(code, write(value))


def _ext(code: int, content: object) -> msgspec.msgpack.Ext:
    return msgspec.msgpack.Ext(code, _ENCODER.encode(content))


def _items(values: Any) -> list[object]:
    return [_packed(each) for each in values]


def _sorted_items(values: Any) -> list[object]:
    return sorted(map(_packed, values), key=_ENCODER.encode)  # equal sets have equal bytes


def _time(value: dt.time) -> str:
    if value.tzinfo is not None:
        raise TypeError("a time with a zone, which has no date, has no offset")
    return value.isoformat()


_EXTENSIONS: dict[type[Any], tuple[int, Callable[[Any], Any]]] = {
    tuple: (_TUPLE, _items),
    set: (_SET, _sorted_items),
    frozenset: (_FROZENSET, _sorted_items),
    dt.datetime: (_DATETIME, lambda value: [value.isoformat(), value.fold]),
    dt.date: (_DATE, dt.date.isoformat),
    dt.time: (_TIME, _time),
    dt.timedelta: (_TIMEDELTA, lambda value: [value.days, value.seconds, value.microseconds]),
    Decimal: (_DECIMAL, str),
    uuid.UUID: (_UUID, str),
}
_READ: dict[int, Callable[[Any], Any]] = {
    _TUPLE: tuple,
    _PAIRS: lambda pairs: dict(map(tuple, pairs)),
    _SET: set,
    _FROZENSET: frozenset,
    _INT: lambda text: int(text, 16),
    _DATETIME: lambda parts: dt.datetime.fromisoformat(parts[0]).replace(fold=parts[1]),
    _DATE: dt.date.fromisoformat,
    _TIME: dt.time.fromisoformat,
    _TIMEDELTA: lambda parts: dt.timedelta(*parts),
    _DECIMAL: Decimal,
    _UUID: uuid.UUID,
}


def _unpacked(code: int, content: memoryview) -> Any:
    if code not in _READ:
        raise ValueError(f"extension {code}")
    return _READ[code](_DECODER.decode(content))


_ENCODER = msgspec.msgpack.Encoder()
_DECODER: msgspec.msgpack.Decoder[object] = msgspec.msgpack.Decoder(ext_hook=_unpacked)
