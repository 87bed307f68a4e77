"""Values with the headers of their record, for stores that keep both (KIP-1271)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Generic, NamedTuple

import msgspec

from hayase.core.records import Headers
from hayase.core.type_variables import T
from hayase.serde.bare import READ_ERRORS, refuse, refuse_bytes
from hayase.serde.protocol import Serde, Side


class ValueAndHeaders(NamedTuple, Generic[T]):
    """A value and the headers that came with it.

    Attributes:
        value: never `None`: a store has no row then.
        headers: names and bytes, in their order.
    """

    value: T
    headers: Headers = ()


class HeadersSerde(Serde["ValueAndHeaders[T]"]):
    """Values that are kept with headers: gives and takes `ValueAndHeaders`, the value by an inner serde.

    In a timestamped store it makes what Kafka Streams calls a store with headers (KIP-1271); every other kind of store
    keeps them as well. The bytes are Hayase's own (MessagePack), not those of Kafka Streams. It has no column form.

    Args:
        inner: the serde of the values.

    Example:
        >>> from hayase import Serdes, Stores
        >>> serde = Serdes.with_headers(Serdes.string())
        >>> serde.deserialize(serde.serialize(ValueAndHeaders("paid", (("trace", b"17"),))))
        ValueAndHeaders(value='paid', headers=(('trace', b'17'),))
        >>> Stores.timestamped_key_value_store("orders", Serdes.string(), serde).name
        'orders'
    """

    def __init__(self, inner: Serde[T]) -> None:
        self._inner = inner

    @property
    def inner(self) -> Serde[T]:
        """The serde of the values."""
        return self._inner

    def for_topic(self, topic: str, side: Side, settings: Mapping[str, object]) -> HeadersSerde[T]:
        """The serde with the inner serde for that topic."""
        return HeadersSerde(self._inner.for_topic(topic, side, settings))

    def map_inner(self, replace: Callable[[Serde], Serde]) -> HeadersSerde[T]:
        """The serde with another serde of the values."""
        return HeadersSerde(replace(self._inner))

    def to_bytes(self, value: ValueAndHeaders[T]) -> bytes:
        """Raises SerializationError for what is no `ValueAndHeaders` of a value, or a value the inner serde refuses."""
        if not isinstance(value, ValueAndHeaders) or value.value is None:
            raise refuse(self, value, "ValueAndHeaders of a value that is not None")
        if not all(_is_header(header) for header in value.headers):
            raise refuse(self, value, "headers that are pairs of text and bytes")
        inner = self._inner.to_bytes(value.value)
        try:
            return _ENCODER.encode(_Stored(value.headers, inner))
        except READ_ERRORS as error:
            raise refuse(self, value, "headers whose names are text without lone surrogates") from error

    def from_bytes(self, data: bytes) -> ValueAndHeaders[T]:
        """Raises SerializationError for bytes that were not written by such a serde."""
        try:
            stored = _DECODER.decode(data)
        except READ_ERRORS as error:
            raise refuse_bytes(self, data, "headers and a value as it writes them") from error
        return ValueAndHeaders(self._inner.from_bytes(stored.value), stored.headers)


def _is_header(header: object) -> bool:
    match header:
        case (str(), bytes() | None):
            return True
    return False


class _Stored(msgspec.Struct, array_like=True, frozen=True):
    headers: Headers
    value: bytes


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(_Stored)
