"""Texts and numbers as bytes: encodings, digests, identifiers."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
import struct
import uuid
from collections.abc import Callable

from hayase.sql.errors import FunctionError
from hayase.sql.functions.registry import scalar

ENCODINGS = ("hex", "utf8", "ascii", "base64")
_NOT_BASE64 = re.compile(r"[^A-Za-z0-9+/]")


def _from_hex(text: str) -> bytes:
    """Digits, also as `0x…` and `X'…'`; only after `0x` an odd number of them is padded."""
    if text[:2] in ("X'", "x'"):
        if len(text) < 3 or not text.endswith("'"):
            raise FunctionError("BAD_HEX", f"hexadecimal text {text!r} starts with {text[:2]} but does not end with '")
        digits = text[2:-1]
    elif text.startswith("0x"):
        digits = text[2:]
        digits = "0" * (len(digits) % 2) + digits
    else:
        digits = text
    try:
        return binascii.unhexlify(digits)
    except ValueError as error:
        raise FunctionError("BAD_HEX", f"{text!r} is no hexadecimal text: {error}") from None


def _from_base64(text: str) -> bytes:
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4 if "=" not in text else 0), validate=True)
    except ValueError as error:
        raise FunctionError("BAD_BASE64", f"{text!r} is no base64 text: {error}") from None


def _from_lenient_base64(text: str) -> bytes:
    """ENCODE takes base64 for URLs too and leaves out what belongs to no alphabet."""
    digits = _NOT_BASE64.sub("", text.split("=", 1)[0].replace("-", "+").replace("_", "/"))
    if len(digits) % 4 == 1:
        digits = digits[:-1]
    return base64.b64decode(digits + "=" * (-len(digits) % 4))


def _from_utf8(text: str) -> bytes:
    return text.encode("utf-8", "replace")


def _from_ascii(text: str) -> bytes:
    return text.encode("ascii", "replace")


def _to_ascii(data: bytes) -> str:
    return data.decode("ascii", "replace")


def _to_utf8(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _to_base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


_DECODERS: dict[str, Callable[[str], bytes]] = {
    "hex": _from_hex,
    "utf8": _from_utf8,
    "ascii": _from_ascii,
    "base64": _from_base64,
}
_ENCODERS: dict[str, Callable[[bytes], str]] = {
    "hex": lambda data: data.hex(),
    "utf8": _to_utf8,
    "ascii": _to_ascii,
    "base64": _to_base64,
}


def _known(encoding: str) -> str:
    name = encoding.lower()
    if name not in ENCODINGS:
        raise FunctionError("UNKNOWN_ENCODING", f"encoding {encoding!r} is unknown; give one of {', '.join(ENCODINGS)}")
    return name


@scalar("encode", "(STRING, STRING, STRING) -> STRING", "A text in an encoding as one in another.")
def encode(text: str, source: str, target: str) -> str:
    """ENCODE between different encodings."""
    source, target = _known(source), _known(target)
    if source == target:
        raise FunctionError("SAME_ENCODING", f"ENCODE from {source} to {target}: give two different encodings")
    decode = _from_lenient_base64 if source == "base64" else _DECODERS[source]
    return _ENCODERS[target](decode(text))


@scalar("to_bytes", "(STRING, STRING) -> BYTES", "The bytes that a text means in hex, utf8, ascii or base64.")
def to_bytes(text: str, encoding: str) -> bytes:
    """TO_BYTES."""
    return _DECODERS[_known(encoding)](text)


@scalar("from_bytes", "(BYTES, STRING) -> STRING", "The bytes as text in hex (capitals), utf8, ascii or base64.")
def from_bytes(data: bytes, encoding: str) -> str:
    """FROM_BYTES."""
    name = _known(encoding)
    return data.hex().upper() if name == "hex" else _ENCODERS[name](data)


_ORDERS = {"BIG_ENDIAN": ">", "LITTLE_ENDIAN": "<"}


def _unpacked(name: str, code: str, data: bytes, order: str) -> float:
    mark = _ORDERS.get(order.upper())
    if mark is None:
        raise FunctionError("UNKNOWN_BYTE_ORDER", f"byte order {order!r} is unknown; give one of {', '.join(_ORDERS)}")
    size = struct.calcsize(">" + code)
    if len(data) != size:
        raise FunctionError("WRONG_SIZE", f"{name} of {len(data)} bytes; give {size}")
    found: float = struct.unpack(mark + code, data)[0]
    return found


_NUMBER = "The number that {} bytes mean."
_NUMBER_IN = "The number that {} bytes mean in an order: BIG_ENDIAN or LITTLE_ENDIAN."


@scalar("int_from_bytes", "(BYTES) -> INT", _NUMBER.format(4))
def int_from_bytes(data: bytes) -> int:
    """INT_FROM_BYTES."""
    return int_from_bytes_in(data, "BIG_ENDIAN")


@scalar("int_from_bytes", "(BYTES, STRING) -> INT", _NUMBER_IN.format(4))
def int_from_bytes_in(data: bytes, order: str) -> int:
    """INT_FROM_BYTES in an order of bytes."""
    return int(_unpacked("INT_FROM_BYTES", "i", data, order))


@scalar("bigint_from_bytes", "(BYTES) -> BIGINT", _NUMBER.format(8))
def bigint_from_bytes(data: bytes) -> int:
    """BIGINT_FROM_BYTES."""
    return bigint_from_bytes_in(data, "BIG_ENDIAN")


@scalar("bigint_from_bytes", "(BYTES, STRING) -> BIGINT", _NUMBER_IN.format(8))
def bigint_from_bytes_in(data: bytes, order: str) -> int:
    """BIGINT_FROM_BYTES in an order of bytes."""
    return int(_unpacked("BIGINT_FROM_BYTES", "q", data, order))


@scalar("double_from_bytes", "(BYTES) -> DOUBLE", _NUMBER.format(8))
def double_from_bytes(data: bytes) -> float:
    """DOUBLE_FROM_BYTES."""
    return double_from_bytes_in(data, "BIG_ENDIAN")


@scalar("double_from_bytes", "(BYTES, STRING) -> DOUBLE", _NUMBER_IN.format(8))
def double_from_bytes_in(data: bytes, order: str) -> float:
    """DOUBLE_FROM_BYTES in an order of bytes."""
    return _unpacked("DOUBLE_FROM_BYTES", "d", data, order)


@scalar("md5", "(STRING) -> STRING", "The MD5 digest of the text in UTF-8, in hexadecimal digits.")
def md5(text: str) -> str:
    """MD5."""
    return hashlib.md5(_from_utf8(text), usedforsecurity=False).hexdigest()


@scalar("uuid", "() -> STRING", "A random identifier, version 4.", pure=False)
def random_uuid() -> str:
    """UUID."""
    return str(uuid.uuid4())


@scalar("uuid", "(BYTES) -> STRING", "The identifier that 16 bytes are; null for any other number of them.")
def uuid_of(data: bytes) -> str | None:
    """UUID of bytes."""
    return str(uuid.UUID(bytes=data)) if len(data) == 16 else None
