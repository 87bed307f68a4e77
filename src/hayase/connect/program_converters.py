"""Converters of a program's connectors: those that write, or read, what the serdes of the program read, or write."""

from __future__ import annotations

from collections.abc import Mapping

from hayase.core.errors import ConfigError
from hayase.serde import bare, numbers
from hayase.serde.debezium_serde import DebeziumSerde
from hayase.serde.json_serde import JsonSerde
from hayase.serde.protocol import Serde
from hayase.serde.registry_serde import RegistrySerde

_CONVERTERS: Mapping[type[Serde], str] = {
    bare.StringSerde: "org.apache.kafka.connect.storage.StringConverter",
    numbers.LongSerde: "org.apache.kafka.connect.converters.LongConverter",
    numbers.IntegerSerde: "org.apache.kafka.connect.converters.IntegerConverter",
    numbers.ShortSerde: "org.apache.kafka.connect.converters.ShortConverter",
    numbers.DoubleSerde: "org.apache.kafka.connect.converters.DoubleConverter",
    numbers.FloatSerde: "org.apache.kafka.connect.converters.FloatConverter",
    numbers.BooleanSerde: "org.apache.kafka.connect.converters.BooleanConverter",
}
_JSON = "org.apache.kafka.connect.json.JsonConverter"
_BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"
_WITH_REGISTRY = {
    "AVRO": "io.confluent.connect.avro.AvroConverter",
    "JSON": "io.confluent.connect.json.JsonSchemaConverter",
    "PROTOBUF": "io.confluent.connect.protobuf.ProtobufConverter",
}
_USER = "basic.auth.user.info"


def converter_settings(part: str, serde: Serde, *, source: bool) -> dict[str, str]:
    """The settings of the converter that fits a serde.

    A serde with a schema registry gives its converter the registry, with credentials, and how it finds the schema that
    it writes.

    Args:
        part: `key` or `value`.
        serde: of the topic.
        source: whether the connector writes the topic.

    Raises:
        ConfigError: `NO_CONVERTER`: none fits; `MISSING_SETTING`: a serde with a registry was given none.
    """
    setting = f"{part}.converter"
    if isinstance(serde, bare.BytesSerde):
        return {setting: _JSON, f"{setting}.schemas.enable": "false"} if source else {setting: _BYTES}
    if isinstance(serde, JsonSerde | DebeziumSerde | bare.VoidSerde):
        return {setting: _JSON, f"{setting}.schemas.enable": "false"}
    if isinstance(serde, RegistrySerde):
        settings = _registry_settings(part, serde)
        return {setting: _WITH_REGISTRY[serde.kind], **{f"{setting}.{name}": each for name, each in settings.items()}}
    name = _CONVERTERS.get(type(serde))
    if name is None:
        raise ConfigError(
            "NO_CONVERTER",
            f"no converter is known that fits {type(serde).__name__} of the {part}: give {setting}, or another serde",
        )
    return {setting: name}


def _registry_settings(part: str, serde: RegistrySerde) -> dict[str, str]:
    url, client = serde.registry.given()
    settings = {"schema.registry.url": url}
    for name, value in client.items():
        if not name.startswith("cache."):  # a converter keeps what it has asked
            settings[f"schema.registry.{name}"] = str(value)
    if _USER in client:
        settings["schema.registry.basic.auth.credentials.source"] = "USER_INFO"
    options = serde.options
    for name in ("auto_register_schemas", "use_latest_version", "normalize_schemas"):
        value = getattr(options, name)
        if value is not None:
            settings[name.replace("_", ".")] = str(value).lower()
    strategy = options.subject_name_strategy
    if callable(strategy):
        raise ConfigError(
            "NO_CONVERTER",
            f"the {part} has a serde whose subject_name_strategy is a function, which a converter cannot have: give "
            f"{part}.converter, or name TopicNameStrategy, RecordNameStrategy or TopicRecordNameStrategy",
        )
    if strategy is not None:
        settings[f"{part}.subject.name.strategy"] = strategy
    return settings
