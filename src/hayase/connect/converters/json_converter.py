"""The JSON converter: values with their schema beside them, or plain JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal

import msgspec

from hayase.connect.columns import ReadColumn, SingleColumn, StructColumns, value_columns
from hayase.connect.config.config_def import ConfigDef, Importance, TypedConfig
from hayase.connect.config.types import ConfigType
from hayase.connect.config.validators import one_of
from hayase.connect.contracts import Converter, HeaderConverter
from hayase.connect.converters.json_columns import column_reader
from hayase.connect.converters.json_schemas import schema_from_json, schema_to_json
from hayase.connect.converters.json_values import Convert, JsonValues, plain_to_json
from hayase.connect.exceptions import DataError
from hayase.connect.model import ConnectHeaders
from hayase.connect.schema import NO_VALUE, ConnectSchema, SchemaAndValue
from hayase.core.records import Headers

_ENVELOPE = (
    'JsonConverter with schemas.enable requires "schema" and "payload" fields and may not contain additional fields. '
    "If you are trying to deserialize plain JSON data, set schemas.enable=false in your converter configuration."
)


class _Envelope(msgspec.Struct, forbid_unknown_fields=True):
    schema: msgspec.Raw
    payload: msgspec.Raw


_CONFIG = (
    ConfigDef()
    .define(
        "schemas.enable",
        ConfigType.BOOLEAN,
        True,
        importance=Importance.HIGH,
        documentation="Whether each key and value holds its schema beside it.",
    )
    .define(
        "schemas.cache.size",
        ConfigType.INT,
        1000,
        importance=Importance.HIGH,
        documentation="How many schemas the converter keeps ready.",
    )
    .define(
        "decimal.format",
        ConfigType.STRING,
        "BASE64",
        one_of("BASE64", "NUMERIC", ignore_case=True),
        Importance.LOW,
        "How decimals are written: as BASE64 of their digits, or as a NUMERIC literal. Both can be read.",
    )
    .define(
        "replace.null.with.default",
        ConfigType.BOOLEAN,
        True,
        importance=Importance.LOW,
        documentation="Whether an absent field that has a default value is replaced by it, or stays null.",
    )
    .define(
        "schema.content",
        ConfigType.STRING,
        None,
        importance=Importance.HIGH,
        documentation="The schema, as JSON, of records that hold only the payload. Used when records are read.",
    )
)


class JsonConverter(Converter, HeaderConverter):
    """JSON in UTF-8, with the schema in each record (`schemas.enable`) or without.

    Attributes:
        schemas_enable: whether each record holds its schema.

    Example:
        >>> from hayase.connect.schema import INT32_SCHEMA, struct_schema
        >>> converter = JsonConverter()
        >>> converter.configure({"schemas.enable": "false"}, is_key=False)
        >>> converter.from_connect_data("orders", (), struct_schema({"id": INT32_SCHEMA}), {"id": 7})
        b'{"id":7}'
    """

    def __init__(self) -> None:
        self._setup(TypedConfig(_CONFIG, {}))

    @classmethod
    def config(cls) -> ConfigDef:
        """The keys of the converter."""
        return _CONFIG

    def configure(self, props: Mapping[str, object], is_key: bool = False) -> None:
        """Take the configuration; the same for keys and values."""
        self._setup(TypedConfig(_CONFIG, props))

    def _setup(self, config: TypedConfig) -> None:
        self.schemas_enable = config.bool("schemas.enable")
        self._cache_size = config.int("schemas.cache.size")
        numeric = config.string("decimal.format").upper() == "NUMERIC"
        self._replace_null = config.bool("replace.null.with.default")
        self._numeric = numeric
        self._values = JsonValues(numeric_decimals=numeric, replace_null=self._replace_null)
        self._encode = msgspec.json.Encoder(decimal_format="number").encode
        self._decode = msgspec.json.Decoder().decode
        self._decode_exactly = msgspec.json.Decoder(float_hook=Decimal).decode
        self._envelope = msgspec.json.Decoder(_Envelope).decode
        self._written: dict[int, tuple[ConnectSchema, bytes, Convert]] = {}
        self._read: dict[bytes, tuple[ConnectSchema | None, Convert | None, bool]] = {}
        content = config.optional_string("schema.content")
        self._content = None if not content or content.isspace() else self._schema_of(content.encode())

    def from_connect_data(
        self, topic: str, headers: ConnectHeaders, schema: ConnectSchema | None, value: object
    ) -> bytes | None:
        """The JSON of a value."""
        if schema is None:
            if value is None:
                return None
            payload = self._encode(plain_to_json(value))
            return b'{"schema":null,"payload":' + payload + b"}" if self.schemas_enable else payload
        _, schema_json, write = self._writer(schema)
        payload = self._encode(write(value))
        return b'{"schema":' + schema_json + b',"payload":' + payload + b"}" if self.schemas_enable else payload

    def to_connect_data(self, topic: str, headers: Headers, data: bytes | None) -> SchemaAndValue:
        """The value that JSON holds, with its schema where that is given."""
        if data is None:
            return NO_VALUE
        try:
            if self._content is not None:
                return self._value(self._content, data)
            if not self.schemas_enable:
                return SchemaAndValue(None, self._decode(data)) if data else NO_VALUE
            envelope = self._envelope(data)
        except msgspec.ValidationError as error:
            raise DataError("INVALID_JSON", _ENVELOPE) from error
        except (msgspec.DecodeError, RecursionError) as error:
            raise DataError(
                "INVALID_JSON",
                f"Converting byte[] to Kafka Connect data failed due to serialization error: {error}",
            ) from error
        return self._value(self._schema_of(bytes(envelope.schema)), bytes(envelope.payload))

    def to_connect_columns(self, topic: str, data: Sequence[bytes | None]) -> StructColumns | SingleColumn | None:
        """See `Converter.to_connect_columns`: with schemas, all records hold one and the same before their payload."""
        try:
            if self._content is not None:
                return None
            if not self.schemas_enable:
                values = [None if each is None else self._decode(each) for each in data]
                return value_columns(values, None, self._column_reader)
            envelope = self._envelope(next(each for each in data if each is not None))
            schema, _, exactly = self._schema_of(bytes(envelope.schema))
            if schema is None or schema.default is not None:
                return None
            payloads = _payloads(data, b'{"schema":' + bytes(envelope.schema) + b',"payload":')
            decode = self._decode_exactly if exactly else self._decode
            values = [None if each is None else decode(each) for each in payloads]
            if not schema.optional and values.count(None) != data.count(None):
                return None
            return value_columns(values, schema, self._column_reader)
        except (msgspec.DecodeError, RecursionError, DataError):  # said where the record is read by itself
            return None

    def _column_reader(self, schema: ConnectSchema | None) -> ReadColumn:
        return column_reader(self._values, schema)

    def from_connect_header(self, topic: str, name: str, schema: ConnectSchema | None, value: object) -> bytes | None:
        """The JSON of a header's value."""
        return self.from_connect_data(topic, (), schema, value)

    def to_connect_header(self, topic: str, name: str, data: bytes | None) -> SchemaAndValue:
        """The value of a header."""
        return self.to_connect_data(topic, (), data)

    def _writer(self, schema: ConnectSchema) -> tuple[ConnectSchema, bytes, Convert]:
        found = self._written.get(id(schema))
        if found is None:
            if len(self._written) >= self._cache_size:
                self._written.clear()
                self._values = JsonValues(numeric_decimals=self._numeric, replace_null=self._replace_null)
            described = self._encode(schema_to_json(schema, self._values.write_default))
            # The schema is kept with its id: no other object gets that id meanwhile.
            found = self._written[id(schema)] = (schema, described, self._values.writer(schema))
        return found

    def _schema_of(self, described: bytes) -> tuple[ConnectSchema | None, Convert | None, bool]:
        found = self._read.get(described)
        if found is None:
            try:
                parsed = self._decode_exactly(described)
            except msgspec.DecodeError as error:
                raise DataError("INVALID_SCHEMA", f"the schema is no JSON: {error}") from error
            schema = schema_from_json(parsed, self._values.read_default)
            if len(self._read) >= self._cache_size:
                self._read.clear()
                self._values = JsonValues(numeric_decimals=self._numeric, replace_null=self._replace_null)
            read = None if schema is None else self._values.reader(schema)
            exactly = b"connect.data.Decimal" in described
            found = self._read[described] = (schema, read, exactly)
        return found

    def _value(self, reader: tuple[ConnectSchema | None, Convert | None, bool], payload: bytes) -> SchemaAndValue:
        schema, read, exactly = reader
        value = (self._decode_exactly if exactly else self._decode)(payload)
        return SchemaAndValue(schema, value if read is None else read(value))


def _payloads(data: Sequence[bytes | None], begin: bytes) -> list[bytes | None]:
    """What stands between the begin of an envelope and the brace that ends it.

    Raises:
        DataError: an envelope begins or ends with something else.
    """
    if not all(each is None or (each.startswith(begin) and each.endswith(b"}")) for each in data):
        raise DataError("NO_COLUMNS", "a record holds another schema, or begins or ends in another way")
    length = len(begin)
    return [None if each is None else each[length:-1] for each in data]
