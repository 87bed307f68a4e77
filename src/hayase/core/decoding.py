"""Decoding of messages and files by several threads.

msgspec learns the fields of a class when something is first decoded as it. If another thread decodes the same class
meanwhile, it can meet what is half learnt, and the process dies (msgspec 0.22). So decoders are made one at a time.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar, overload

import msgspec

T = TypeVar("T")
Bytes = bytes | bytearray | memoryview


class _Decoders:
    """Decoders that are kept, by type."""

    def __init__(self) -> None:
        self.json: dict[Any, msgspec.json.Decoder[Any]] = {}
        self.msgpack: dict[Any, msgspec.msgpack.Decoder[Any]] = {}
        self.lock = threading.RLock()

    def forget_lock(self) -> None:
        """In a forked child: a thread of the parent process may have held the one before."""
        self.lock = threading.RLock()


_DECODERS = _Decoders()
os.register_at_fork(after_in_child=_DECODERS.forget_lock)


@contextmanager
def making_decoder() -> Iterator[None]:
    """What makes a decoder of its own, or converts to a type for the first time, does it in here."""
    with _DECODERS.lock:
        yield


@overload
def decode_json(data: Bytes | str, as_type: type[T]) -> T: ...
@overload
def decode_json(data: Bytes | str, as_type: Any) -> Any: ...
def decode_json(data: Bytes | str, as_type: Any) -> Any:
    """As `msgspec.json.decode`; the decoder of the type is kept."""
    decoder = _DECODERS.json.get(as_type)
    if decoder is None:
        with making_decoder():
            decoder = _DECODERS.json[as_type] = msgspec.json.Decoder(as_type)
    return decoder.decode(data)


@overload
def decode_msgpack(data: Bytes, as_type: type[T]) -> T: ...
@overload
def decode_msgpack(data: Bytes, as_type: Any) -> Any: ...
def decode_msgpack(data: Bytes, as_type: Any) -> Any:
    """As `msgspec.msgpack.decode`; the decoder of the type is kept."""
    decoder = _DECODERS.msgpack.get(as_type)
    if decoder is None:
        with making_decoder():
            decoder = _DECODERS.msgpack[as_type] = msgspec.msgpack.Decoder(as_type)
    return decoder.decode(data)
