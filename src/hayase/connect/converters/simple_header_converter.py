"""The default converter of headers: text that shows its type."""

from __future__ import annotations

import logging

from hayase.connect.contracts import HeaderConverter
from hayase.connect.schema import (
    NO_VALUE,
    OPTIONAL_BYTES_SCHEMA,
    ConnectSchema,
    SchemaAndValue,
)
from hayase.connect.values import parse_string, value_text

_LOG = logging.getLogger(__name__)


class SimpleHeaderConverter(HeaderConverter):
    """Writes values as text, and reads text as the most specific type that it is.

    Example:
        >>> SimpleHeaderConverter().to_connect_header("orders", "tries", b"3").value
        3
    """

    def from_connect_header(self, topic: str, name: str, schema: ConnectSchema | None, value: object) -> bytes | None:
        """The text of a header's value."""
        return None if value is None else value_text(schema, value).encode()

    def to_connect_header(self, topic: str, name: str, data: bytes | None) -> SchemaAndValue:
        """The value that the text of a header means."""
        if data is None:
            return NO_VALUE
        try:
            return parse_string(data.decode())
        except ValueError:  # no UTF-8, or no value: the bytes go on as they are
            _LOG.warning("header %r of topic %s is no text; it is passed on as bytes", name, topic)
            return SchemaAndValue(OPTIONAL_BYTES_SCHEMA, data)
