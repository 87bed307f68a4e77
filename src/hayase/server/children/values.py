"""Values between the server and its child processes, as MessagePack.

The server never unpickles what a child sends: a child runs code of users.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import msgspec

_DECIMAL, _INTEGER, _MAP = 1, 2, 3
_INT_MIN, _INT_MAX = -(2**63), 2**64


def pack(value: Any) -> bytes:
    """Bytes of a value of SQL, or of what a function returned; raises TypeError for any other."""
    return msgspec.msgpack.encode(_plain(value))


def unpack(data: bytes | memoryview) -> Any:
    """The value; raises whatever, where the bytes were made to break something."""
    return msgspec.msgpack.decode(data, ext_hook=_of_extension)


def _plain(value: Any) -> Any:
    match value:
        case None | bool() | float() | str() | bytes():
            return value
        case int():
            in_range = _INT_MIN <= value < _INT_MAX
            return value if in_range else msgspec.msgpack.Ext(_INTEGER, str(value).encode())
        case Decimal():
            return msgspec.msgpack.Ext(_DECIMAL, str(value).encode())
        case list() | tuple():
            return [_plain(item) for item in value]
        case dict():  # its keys may be anything, and MessagePack's are not
            return msgspec.msgpack.Ext(_MAP, pack([[key, item] for key, item in value.items()]))
    raise TypeError(f"{value!r:.80} is no value of SQL")


def _of_extension(code: int, data: memoryview) -> Any:
    if code == _MAP:
        return dict(unpack(data))
    text = bytes(data).decode()
    return Decimal(text) if code == _DECIMAL else int(text)
