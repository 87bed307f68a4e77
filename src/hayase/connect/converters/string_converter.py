"""The string converter."""

from __future__ import annotations

import codecs
from collections.abc import Mapping, Sequence

from hayase.connect.columns import Column, SingleColumn
from hayase.connect.config.config_def import ConfigDef, Importance, TypedConfig
from hayase.connect.config.types import ConfigType
from hayase.connect.contracts import Converter, HeaderConverter
from hayase.connect.exceptions import DataError
from hayase.connect.model import ConnectHeaders
from hayase.connect.schema import OPTIONAL_STRING_SCHEMA, ConnectSchema, SchemaAndValue
from hayase.connect.values import plain_text
from hayase.core.records import Headers

_CONFIG = ConfigDef().define(
    "converter.encoding",
    ConfigType.STRING,
    "UTF-8",
    importance=Importance.HIGH,
    documentation="The character set of the bytes.",
)


class StringConverter(Converter, HeaderConverter):
    """Text; other values are written as their text, and read back as text.

    Example:
        >>> StringConverter().from_connect_data("orders", (), None, 7)
        b'7'
    """

    def __init__(self) -> None:
        self._encoding = "utf-8"

    @classmethod
    def config(cls) -> ConfigDef:
        """The keys of the converter."""
        return _CONFIG

    def configure(self, props: Mapping[str, object], is_key: bool = False) -> None:
        """Take the encoding: `key.converter.encoding` or `value.converter.encoding` go before `converter.encoding`."""
        side = "key.converter.encoding" if is_key else "value.converter.encoding"
        given = props.get(side, props.get("converter.encoding"))
        config = TypedConfig(_CONFIG, {} if given is None else {"converter.encoding": given})
        name = config.string("converter.encoding")
        try:
            self._encoding = codecs.lookup(name).name
        except LookupError:
            raise DataError("INVALID_SETTING", f"converter.encoding is {name!r}, which is no character set") from None

    def from_connect_data(
        self, topic: str, headers: ConnectHeaders, schema: ConnectSchema | None, value: object
    ) -> bytes | None:
        """The text of a value."""
        if value is None:
            return None
        try:
            return plain_text(value, schema).encode(self._encoding, "replace")
        except ValueError as error:
            message = f"Failed to serialize to a string: {error}"
            raise DataError("INVALID_VALUE", message, topic=topic) from error

    def to_connect_data(self, topic: str, headers: Headers, data: bytes | None) -> SchemaAndValue:
        """The text that bytes hold; what is no text becomes the replacement character, as in Java."""
        return SchemaAndValue(OPTIONAL_STRING_SCHEMA, None if data is None else data.decode(self._encoding, "replace"))

    def to_connect_columns(self, topic: str, data: Sequence[bytes | None]) -> SingleColumn:
        """See `Converter.to_connect_columns`."""
        encoding = self._encoding
        values: Column = [None if each is None else each.decode(encoding, "replace") for each in data]
        return SingleColumn(values, OPTIONAL_STRING_SCHEMA)

    def from_connect_header(self, topic: str, name: str, schema: ConnectSchema | None, value: object) -> bytes | None:
        """The text of a header's value."""
        return self.from_connect_data(topic, (), schema, value)

    def to_connect_header(self, topic: str, name: str, data: bytes | None) -> SchemaAndValue:
        """The value of a header."""
        return self.to_connect_data(topic, (), data)
