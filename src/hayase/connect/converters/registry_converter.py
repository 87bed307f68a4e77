"""What converters with a schema registry have in common: configuration, the registry, and whose fault an error is."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from hayase.connect.columns import ReadColumn, SingleColumn, StructColumns, value_columns
from hayase.connect.config.config_def import ConfigDef, Importance, TypedConfig
from hayase.connect.config.types import ConfigType
from hayase.connect.contracts import Converter
from hayase.connect.exceptions import DataError, RetriableError
from hayase.connect.model import ConnectHeaders
from hayase.connect.schema import NO_VALUE, ConnectSchema, SchemaAndValue
from hayase.core.errors import ConfigError, SchemaRegistryError, SerializationError
from hayase.core.records import Headers
from hayase.serde.protocol import Side
from hayase.serde.registry import SchemaRegistry
from hayase.serde.registry_serde import HEAD_SIZE, WriterSettings

W = TypeVar("W")
"""What writes the values of one schema into one topic."""

_CLIENT = "schema.registry."
_SUBJECTS = "TopicNameStrategy, RecordNameStrategy or TopicRecordNameStrategy, with or without Confluent's package."


def registry_config() -> ConfigDef:
    """The keys that all converters with a registry have."""
    flag, text, low = ConfigType.BOOLEAN, ConfigType.STRING, Importance.LOW
    return (
        ConfigDef()
        .define(
            "schema.registry.url",
            text,
            importance=Importance.HIGH,
            documentation="Address of the schema registry; several with commas between.",
        )
        .define(
            "basic.auth.credentials.source",
            text,
            "URL",
            importance=Importance.MEDIUM,
            documentation="Where user and password are: URL, or USER_INFO for basic.auth.user.info.",
        )
        .define(
            "basic.auth.user.info",
            ConfigType.PASSWORD,
            None,
            importance=Importance.MEDIUM,
            documentation="user:password, with basic.auth.credentials.source=USER_INFO.",
        )
        .define(
            "auto.register.schemas",
            flag,
            True,
            importance=Importance.MEDIUM,
            documentation="Whether schemas that the registry does not have are registered.",
        )
        .define(
            "use.latest.version",
            flag,
            False,
            importance=low,
            documentation="Whether the newest version of the subject is written, instead of the record's own schema.",
        )
        .define(
            "normalize.schemas",
            flag,
            False,
            importance=low,
            documentation="Whether the registry brings schemas into one form before it compares them.",
        )
        .define("key.subject.name.strategy", text, "TopicNameStrategy", importance=low, documentation=_SUBJECTS)
        .define("value.subject.name.strategy", text, "TopicNameStrategy", importance=low, documentation=_SUBJECTS)
        .define(
            "schemas.cache.config",
            ConfigType.INT,
            1000,
            importance=low,
            documentation="How many schemas of connectors are kept ready.",
        )
    )


@dataclass(frozen=True, slots=True)
class ReadValues:
    """Values of one schema.

    Attributes:
        values: as the format gives them.
        schema: of all of them.
        column_reader: what reads the column of a schema.
    """

    values: Sequence[object]
    schema: ConnectSchema
    column_reader: Callable[[ConnectSchema | None], ReadColumn]


class RegistryConverter(Converter, Generic[W]):
    """Base of the converters whose bytes carry the id of a schema in a registry.

    A registry that cannot be reached is a `RetriableError`, and no fault of the record. What the registry refuses, as a
    schema that is not compatible, is a `DataError`.
    """

    @classmethod
    def config(cls) -> ConfigDef:
        """The keys of the converter."""
        return registry_config()

    def configure(self, props: Mapping[str, object], is_key: bool = False) -> None:
        """Take the configuration; raises `ConfigError`."""
        config = TypedConfig(self.config(), props)
        self.side: Side = "key" if is_key else "value"
        self.registry = SchemaRegistry(config.string("schema.registry.url"), _client_settings(config))
        registers, latest = config.bool("auto.register.schemas"), config.bool("use.latest.version")
        self.options: WriterSettings = {
            "auto_register_schemas": registers and not latest,
            "use_latest_version": latest,
            "normalize_schemas": config.bool("normalize.schemas"),
            "subject_name_strategy": config.string(f"{self.side}.subject.name.strategy"),
        }
        self._cache_size = config.int("schemas.cache.config")
        self._writers: dict[tuple[str, int], tuple[ConnectSchema | None, W]] = {}
        self.setup(config)

    def setup(self, config: TypedConfig) -> None:
        """Take what is the converter's own; called by `configure`."""

    @abstractmethod
    def make_writer(self, topic: str, schema: ConnectSchema | None) -> W:
        """What writes the values of a schema into a topic."""

    @abstractmethod
    def write(self, writer: W, value: object) -> bytes:
        """The bytes of a value, with the head."""

    @abstractmethod
    def read(self, topic: str, data: bytes) -> SchemaAndValue:
        """The value of bytes, with its schema."""

    def read_values(self, topic: str, data: Sequence[bytes]) -> ReadValues | None:
        """The values of records of one schema, as the format gives them; `None`: those of this one have no columns."""
        return None

    def from_connect_data(
        self, topic: str, headers: ConnectHeaders, schema: ConnectSchema | None, value: object
    ) -> bytes | None:
        """The bytes of a value; null is null.

        Raises:
            DataError: the value does not fit, or the registry refuses the schema.
            RetriableError: the registry cannot be reached.
        """
        if value is None and (schema is None or schema.default is None):
            if schema is not None and not schema.optional:
                raise DataError("INVALID_VALUE", f"Invalid null value for required {schema.type.name}")
            return None
        return self._asked(lambda: self.write(self._writer(topic, schema), value))

    def to_connect_data(self, topic: str, headers: Headers, data: bytes | None) -> SchemaAndValue:
        """The value that bytes hold; raises as `from_connect_data`."""
        if data is None:
            return NO_VALUE
        return self._asked(lambda: self.read(topic, data))

    def to_connect_columns(self, topic: str, data: Sequence[bytes | None]) -> StructColumns | SingleColumn | None:
        """See `Converter.to_connect_columns`: all records are of one schema of the registry."""
        filled = [each for each in data if each is not None]
        if len({each[:HEAD_SIZE] for each in filled}) != 1:
            return None
        try:
            found = self._asked(lambda: self.read_values(topic, filled))
            if found is None or found.schema.default is not None or any(each is None for each in found.values):
                return None
            rest = iter(found.values)
            values = [None if each is None else next(rest) for each in data]
            return value_columns(values, found.schema, found.column_reader)
        except (DataError, RetriableError):  # said where the record is read by itself
            return None

    def _writer(self, topic: str, schema: ConnectSchema | None) -> W:
        key = topic, id(schema)
        found = self._writers.get(key)
        if found is None:
            if len(self._writers) >= self._cache_size:
                self._writers.clear()
            # The schema is kept with its id: no other object gets that id meanwhile.
            found = self._writers[key] = (schema, self.make_writer(topic, schema))
        return found[1]

    def _asked(self, work: Callable[[], Answer]) -> Answer:
        try:
            return work()
        except SchemaRegistryError as error:
            if error.condition in ("SCHEMA_REGISTRY_UNREACHABLE", "SCHEMA_REGISTRY_FAILED"):
                raise RetriableError(error.condition, error.message) from error
            raise DataError(error.condition, error.message) from error
        except (SerializationError, ConfigError) as error:
            raise DataError(error.condition, error.message) from error


Answer = TypeVar("Answer")


def payload_of(data: bytes) -> bytes:
    """The bytes behind the head."""
    return data[HEAD_SIZE:]


def _client_settings(config: TypedConfig) -> dict[str, object]:
    """Settings of the registry's client: with or without `schema.registry.` in front, as in Confluent's converters."""
    settings: dict[str, object] = {}
    for name, value in config.originals.items():
        bare = name.removeprefix(_CLIENT)
        if bare.startswith(("ssl.ca.", "ssl.certificate.", "ssl.key.", "bearer.auth.")) or (
            name != bare and bare in ("proxy", "timeout", "max.retries", "retries.wait.ms", "retries.max.wait.ms")
        ):
            settings[bare] = value
    given = config.originals
    source = str(given.get(_CLIENT + "basic.auth.credentials.source", config.string("basic.auth.credentials.source")))
    user = given.get(_CLIENT + "basic.auth.user.info", config.password("basic.auth.user.info"))
    if source == "USER_INFO":
        if not user:
            raise ConfigError(
                "MISSING_SETTING",
                "basic.auth.credentials.source is USER_INFO, and basic.auth.user.info is not set; give user:password",
                setting="basic.auth.user.info",
            )
        settings["basic.auth.user.info"] = user
    elif source != "URL":
        raise ConfigError(
            "INVALID_SETTING",
            f"basic.auth.credentials.source is {source!r}; allowed are URL and USER_INFO",
            setting="basic.auth.credentials.source",
        )
    return settings
