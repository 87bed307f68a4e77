"""Validation of a connector's configuration: every key with its errors, before anything is started."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from hayase.connect.config.client_overrides import ClientOverrides
from hayase.connect.config.config_def import ConfigDef, ConfigKey, ConfigValue, TypedConfig
from hayase.connect.config.connector_config import (
    COMMON,
    DEFAULT_GROUP,
    ERRORS,
    EXACTLY_ONCE,
    PREDICATES,
    TOPIC_CREATION,
    TRANSFORMS,
    predicate_keys,
    sink_config,
    source_config,
    topic_creation_keys,
    transform_keys,
)
from hayase.connect.config.references import ReferencePolicy
from hayase.connect.config.types import HIDDEN, ConfigType, config_text
from hayase.connect.config.worker_config import WorkerConfig
from hayase.connect.connector_parts import connector_class
from hayase.connect.contracts import (
    Connector,
    ConnectorTransactionBoundaries,
    Converter,
    ExactlyOnceSupport,
    HeaderConverter,
    Predicate,
    SinkConnector,
    SourceConnector,
    Transformation,
    Versioned,
)
from hayase.connect.plugins import Plugins, PluginType
from hayase.connect.source_topics import has_topic_creation
from hayase.core.errors import ConfigError, HayaseError
from hayase.core.logs import is_secret
from hayase.core.secrets import is_reference

_LOG = logging.getLogger(__name__)


@dataclass(slots=True)
class ConfigInfos:
    """What a validation gave, as the REST interface answers it.

    Attributes:
        name: class of the connector.
        groups: of keys.
        keys: by name; `None`: a key that is not defined.
        values: of all keys.
    """

    name: str
    groups: list[str] = field(default_factory=list)
    keys: dict[str, ConfigKey] = field(default_factory=dict)
    values: list[ConfigValue] = field(default_factory=list)

    @property
    def error_count(self) -> int:
        """How many values have errors."""
        return sum(len(value.errors) for value in self.values)

    def errors(self) -> list[str]:
        """All errors."""
        return [error for value in self.values for error in value.errors]

    def as_json(self) -> dict[str, object]:
        """The body of the answer."""
        return {
            "name": self.name,
            "error_count": self.error_count,
            "groups": self.groups,
            "configs": [
                {"definition": key_json(self.keys[value.name]), "value": value_json(value, self.keys[value.name])}
                for value in self.values
            ],
        }


def key_json(key: ConfigKey) -> dict[str, object]:
    """A key's definition, as the REST interface shows it."""
    return {
        "name": key.name,
        "type": str(key.type),
        "required": key.required,
        "default_value": None if key.required else config_text(key.default, key.type),
        "importance": str(key.importance),
        "documentation": key.documentation,
        "group": key.group,
        "width": str(key.width),
        "display_name": key.display_name,
        "dependents": list(key.dependents),
        "order_in_group": key.order_in_group,
    }


def value_json(value: ConfigValue, key: ConfigKey) -> dict[str, object]:
    """A value with its errors, as the REST interface shows it."""
    return {
        "name": value.name,
        "value": config_text(value.value, key.type),
        "recommended_values": [config_text(each, key.type) for each in value.recommended_values],
        "errors": value.errors,
        "visible": value.visible,
    }


class ConnectorValidator:
    """Validates configurations of connectors.

    Args:
        plugins: says which classes there are.
        references: says which secrets may be read.
        durable: whether what the log has acknowledged survives a power loss.
        overrides: says what of Kafka's clients a connector may change; `None`: anything.
    """

    def __init__(
        self,
        plugins: Plugins,
        references: ReferencePolicy,
        *,
        durable: bool = True,
        overrides: ClientOverrides | None = None,
    ) -> None:
        self._plugins = plugins
        self._references = references
        self._durable = durable
        self._overrides = overrides or ClientOverrides(WorkerConfig({}))

    def validate(self, props: Mapping[str, str]) -> ConfigInfos:
        """All keys with their errors.

        Raises:
            ConfigError: `MISSING_SETTING`: no class is given, so that nothing else can be said.
        """
        if "connector.class" not in props:
            raise ConfigError(
                "MISSING_SETTING",
                f"Connector config {{{', '.join(f'{key}={_shown(key, props[key])}' for key in props)}}} contains no "
                "connector type",
            )
        try:
            cls = connector_class(self._plugins, props)
        except ConfigError as error:
            return self._unknown_class(props, error)
        resolved, reference_errors = self._resolved(props)
        is_source = issubclass(cls, SourceConnector)
        common = source_config() if is_source else sink_config()
        infos = ConfigInfos(props["connector.class"], _groups(cls, common))
        _take(infos, common, common.validate(resolved))
        self._validate_chain(infos, resolved)
        self._validate_converters(infos, resolved)
        if issubclass(cls, SourceConnector):
            self._validate_source(infos, cls, resolved)
        else:
            _validate_sink_topics(infos, resolved)
        own = cls.config()
        infos.groups.extend(group for group in own.groups() if group not in infos.groups)
        _take(infos, own, cls().validate(resolved))
        _add_errors(infos, reference_errors)
        _add_errors(infos, self._overrides.errors(resolved, "source" if is_source else "sink"))
        for value in infos.values:
            if is_reference(props.get(value.name)):
                value.value = props[value.name]
        return infos

    def _unknown_class(self, props: Mapping[str, str], error: ConfigError) -> ConfigInfos:
        common = source_config()
        infos = ConfigInfos(props["connector.class"], [COMMON])
        _take(infos, common, [ConfigValue("connector.class", props["connector.class"], errors=[error.message])])
        return infos

    def _resolved(self, props: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
        resolved: dict[str, str] = {}
        errors: dict[str, str] = {}
        for name, value in props.items():
            try:
                resolved.update(self._references.resolved({name: value}))
            except ConfigError as error:
                errors[name] = error.message
                resolved[name] = value
        return resolved, errors

    def _validate_chain(self, infos: ConfigInfos, props: Mapping[str, str]) -> None:
        predicates = _list(props, "predicates")
        for alias in _list(props, "transforms"):
            keys = transform_keys(alias)
            prefix = f"transforms.{alias}."
            _take(infos, keys, keys.validate(props))
            self._validate_part(infos, props, prefix, PluginType.TRANSFORMATION)
            named = props.get(prefix + "predicate")
            if named is not None and named not in predicates:
                _add_errors(
                    infos,
                    {
                        prefix + "predicate": f"Invalid value {named} for configuration {prefix}predicate: "
                        f"must be one of the predicates {predicates}"
                    },
                )
        for alias in predicates:
            keys = predicate_keys(alias)
            _take(infos, keys, keys.validate(props))
            self._validate_part(infos, props, f"predicates.{alias}.", PluginType.PREDICATE)

    def _validate_part(self, infos: ConfigInfos, props: Mapping[str, str], prefix: str, kind: PluginType) -> None:
        name = props.get(prefix + "type")
        if name is None:
            return
        expected: type[Versioned] = Transformation if kind is PluginType.TRANSFORMATION else Predicate
        try:
            cls = self._plugins.load(name, expected, kind)
        except ConfigError as error:
            _add_errors(infos, {prefix + "type": error.message})
            return
        group = f"{'Transforms' if kind is PluginType.TRANSFORMATION else 'Predicates'}: {prefix.split('.')[1]}"
        own = ConfigDef().embed(cls.config(), prefix, group)
        infos.groups.append(group)
        _take(infos, own, own.validate(props))

    def _validate_converters(self, infos: ConfigInfos, props: Mapping[str, str]) -> None:
        for setting in ("key.converter", "value.converter", "header.converter"):
            name = props.get(setting)
            if name is None:
                continue
            header = setting.startswith("header")
            expected: type[Versioned] = HeaderConverter if header else Converter
            kinds = (PluginType.HEADER_CONVERTER, PluginType.CONVERTER) if header else (PluginType.CONVERTER,)
            try:
                cls = self._plugins.load(name, expected, *kinds)
            except ConfigError as error:
                _add_errors(infos, {setting: error.message})
                continue
            own = ConfigDef().embed(cls.config(), f"{setting}.")
            _add_errors(infos, {each.name: error for each in own.validate(props) for error in each.errors}, own)

    def _validate_source(self, infos: ConfigInfos, cls: type[SourceConnector], props: Mapping[str, str]) -> None:
        groups = [DEFAULT_GROUP] if has_topic_creation(props) else []
        for group in [*_list(props, "topic.creation.groups"), *groups]:
            keys = topic_creation_keys(group)
            _take(infos, keys, keys.validate(props))
        if props.get("exactly.once.support", "").lower() == "required":
            _add_errors(infos, _asked("exactly.once.support", lambda: self._exactly_once_error(cls, props)))
        if props.get("transaction.boundary", "").lower() == "connector":
            _add_errors(infos, _asked("transaction.boundary", lambda: _boundary_error(cls, props)))

    def _exactly_once_error(self, cls: type[SourceConnector], props: Mapping[str, str]) -> str | None:
        if not self._durable:
            return (
                "the log has fsync=false: what it acknowledges may be lost with power, so nothing is exactly once. "
                "Open it with fsync=true, or set exactly.once.support=requested"
            )
        support = cls().exactly_once_support(props)
        if support is None:
            return (
                "The connector does not implement the API required for preflight validation of exactly-once source "
                "support. Set exactly.once.support=requested if its documentation says that it goes on exactly behind "
                "its offset"
            )
        if support is ExactlyOnceSupport.UNSUPPORTED:
            return "The connector does not support exactly-once delivery guarantees with the provided configuration"
        return None


def _boundary_error(cls: type[SourceConnector], props: Mapping[str, str]) -> str | None:
    if cls().can_define_transaction_boundaries(props) is ConnectorTransactionBoundaries.SUPPORTED:
        return None
    return (
        "The connector does not support connector-defined transaction boundaries with the given configuration. "
        "Please reconfigure it to use a different transaction boundary definition."
    )


def _asked(key: str, ask: Callable[[], str | None]) -> dict[str, str]:
    """The error at a key that a question to a connector gives, or that the connector raises."""
    try:
        error = ask()
    except HayaseError as raised:
        error = raised.message
    except Exception as raised:  # whatever a plug-in raises
        _LOG.warning("a connector could not be asked about %s", key, exc_info=True)
        error = f"An unexpected error occurred during validation: {type(raised).__name__}: {raised}"
    return {} if error is None else {key: error}


def _groups(cls: type[Connector], common: ConfigDef) -> list[str]:
    groups = [COMMON, TRANSFORMS, PREDICATES, ERRORS]
    if issubclass(cls, SourceConnector):
        groups += [TOPIC_CREATION, EXACTLY_ONCE]
    return groups + [group for group in common.groups() if group not in groups]


def _validate_sink_topics(infos: ConfigInfos, props: Mapping[str, str]) -> None:
    topics, pattern = _list(props, "topics"), props.get("topics.regex", "").strip()
    letters = props.get("errors.deadletterqueue.topic.name", "").strip()
    errors: dict[str, str] = {}
    if topics and pattern:
        text = "topics and topics.regex are mutually exclusive options, but both are set."
        errors |= {"topics": text, "topics.regex": text}
    elif not topics and not pattern:
        text = "Must configure one of topics or topics.regex"
        errors |= {"topics": text, "topics.regex": text}
    elif letters and letters in topics:
        errors["topics"] = (
            f"The DLQ topic '{letters}' may not be included in the list of topics (\"topics\"={topics}) consumed by "
            "the connector"
        )
    _add_errors(infos, errors)


def _take(infos: ConfigInfos, definition: ConfigDef, values: list[ConfigValue]) -> None:
    infos.keys.update(definition.keys)
    known = {value.name: value for value in infos.values}
    for value in values:
        if value.name not in infos.keys:
            infos.keys[value.name] = ConfigKey(value.name, ConfigType.STRING)
        if value.name in known:
            known[value.name].errors.extend(error for error in value.errors if error not in known[value.name].errors)
        else:
            infos.values.append(value)


def _add_errors(infos: ConfigInfos, errors: Mapping[str, str], definition: ConfigDef | None = None) -> None:
    known = {value.name: value for value in infos.values}
    for name, text in errors.items():
        if name not in known:
            infos.keys.setdefault(
                name, definition.keys[name] if definition is not None else ConfigKey(name, ConfigType.STRING)
            )
            known[name] = ConfigValue(name)
            infos.values.append(known[name])
        if text not in known[name].errors:
            known[name].errors.append(text)


def _list(props: Mapping[str, str], name: str) -> list[str]:
    return [each.strip() for each in props.get(name, "").split(",") if each.strip()]


def masked(props: Mapping[str, str], definition: ConfigDef) -> dict[str, str]:
    """A configuration to be shown: literal passwords are `[hidden]`, references stay."""
    return {name: _shown(name, value, definition) for name, value in props.items()}


def _shown(name: str, value: str, definition: ConfigDef | None = None) -> str:
    if is_reference(value) or value == "":
        return value
    key = None if definition is None else definition.keys.get(name)
    secret = key.type is ConfigType.PASSWORD if key is not None else is_secret(name)
    return HIDDEN if secret else value


def unmasked(props: Mapping[str, str], stored: Mapping[str, str]) -> dict[str, str]:
    """A configuration that was shown, with what is stored in place of `[hidden]`."""
    return {name: stored.get(name, value) if value == HIDDEN else value for name, value in props.items()}


def typed_config(cls: type[Connector], props: Mapping[str, str]) -> TypedConfig:
    """The keys that every source or sink connector has, parsed."""
    return TypedConfig(sink_config() if issubclass(cls, SinkConnector) else source_config(), props)
