"""The parts of a connector's configuration made into objects: transforms, predicates, converters."""

from __future__ import annotations

from collections.abc import Mapping

from hayase.connect.config.config_def import TypedConfig
from hayase.connect.config.connector_config import predicate_keys, transform_keys
from hayase.connect.config.worker_config import WorkerConfig
from hayase.connect.contracts import (
    Converter,
    HeaderConverter,
    Predicate,
    SerializedJson,
    SinkConnector,
    SourceConnector,
    Transformation,
)
from hayase.connect.conversion import ChainStep, Conversion
from hayase.connect.errors import ErrorPolicy
from hayase.connect.plugins import Plugins, PluginType
from hayase.core.errors import ConfigError


def connector_class(plugins: Plugins, props: Mapping[str, str]) -> type[SourceConnector] | type[SinkConnector]:
    """The class of a connector's configuration; raises `ConfigError` for one that there is not."""
    name = props.get("connector.class", "")
    plugin = plugins.find(name, PluginType.SOURCE, PluginType.SINK)
    if plugin.kind is PluginType.SOURCE:
        return plugins.load(plugin.name, SourceConnector, PluginType.SOURCE)
    return plugins.load(plugin.name, SinkConnector, PluginType.SINK)


def build_chain(plugins: Plugins, config: TypedConfig) -> list[ChainStep]:
    """The transforms of a connector, with their predicates."""
    props = config.originals
    steps: list[ChainStep] = []
    for alias in config.list("transforms"):
        keys = TypedConfig(transform_keys(alias), props)
        prefix = f"transforms.{alias}."
        cls = plugins.load(keys.string(prefix + "type"), Transformation, PluginType.TRANSFORMATION)  # type: ignore[type-abstract] # a base class
        transform = cls()
        transform.configure(config.with_prefix(prefix))
        predicate_alias = keys.optional_string(prefix + "predicate")
        predicate = None if predicate_alias is None else _predicate(plugins, config, predicate_alias)
        steps.append(ChainStep(transform, predicate, keys.bool(prefix + "negate")))
    return steps


def _predicate(plugins: Plugins, config: TypedConfig, alias: str) -> Predicate:
    if alias not in config.list("predicates"):
        raise ConfigError(
            "UNKNOWN_PREDICATE", f"a transform names the predicate {alias!r}; predicates does not list it"
        )
    prefix = f"predicates.{alias}."
    keys = TypedConfig(predicate_keys(alias), config.originals)
    cls = plugins.load(keys.string(prefix + "type"), Predicate, PluginType.PREDICATE)  # type: ignore[type-abstract] # a base class
    predicate = cls()
    predicate.configure(config.with_prefix(prefix))
    return predicate


def build_conversion(plugins: Plugins, worker: WorkerConfig, config: TypedConfig, policy: ErrorPolicy) -> Conversion:
    """Converters and transforms of a task."""
    return Conversion(
        _converter(plugins, worker, config, "key"),
        _converter(plugins, worker, config, "value"),
        _header_converter(plugins, worker, config),
        build_chain(plugins, config),
        policy,
    )


def _converter_props(worker: WorkerConfig, config: TypedConfig, kind: str) -> tuple[str, dict[str, object]]:
    own = config.optional_string(kind)
    if own is None:
        return worker.string(kind), worker.converter_props(kind)
    return own, config.with_prefix(f"{kind}.")


def _converter(plugins: Plugins, worker: WorkerConfig, config: TypedConfig, kind: str) -> Converter:
    name, props = _converter_props(worker, config, f"{kind}.converter")
    converter = plugins.load(name, Converter, PluginType.CONVERTER)()  # type: ignore[type-abstract] # a base class
    converter.configure(props, kind == "key")
    return converter


def _header_converter(plugins: Plugins, worker: WorkerConfig, config: TypedConfig) -> HeaderConverter:
    name, props = _converter_props(worker, config, "header.converter")
    kinds = PluginType.HEADER_CONVERTER, PluginType.CONVERTER
    converter = plugins.load(name, HeaderConverter, *kinds)()  # type: ignore[type-abstract] # a base class
    converter.configure({"converter.type": "header", **props})
    return converter


_JSON_KEYS = {"schemas.enable", "schemas.cache.size"}


def serialized_json(worker: WorkerConfig, config: TypedConfig, conversion: Conversion) -> SerializedJson | None:
    """How a task may serialize records itself; `None` where transforms or other converters need its values."""
    from hayase.connect.converters.json_converter import JsonConverter

    if conversion.chain or not isinstance(conversion.key, JsonConverter):
        return None
    if not isinstance(conversion.value, JsonConverter):
        return None
    schemas: list[bool] = []
    for kind in ("key.converter", "value.converter"):
        props = _converter_props(worker, config, kind)[1]
        if not props.keys() <= _JSON_KEYS:
            return None
        schemas.append(TypedConfig(JsonConverter.config(), props).bool("schemas.enable"))
    return SerializedJson(*schemas)
