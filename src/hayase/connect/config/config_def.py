"""`ConfigDef`: which keys a configuration has, and what a given configuration is worth."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Protocol

from hayase.connect.config.types import ConfigType, Password, config_text, parse_type
from hayase.core.errors import ConfigError

Validator = Callable[[str, object], None]
"""Gets a key and its parsed value; raises `ConfigError` if that is not allowed. `None`: nothing is set."""


class _NoDefault:
    """Says that a key is required."""

    def __repr__(self) -> str:
        return "NO_DEFAULT"


NO_DEFAULT: object = _NoDefault()
"""The default of a key that must be given."""


class Importance(StrEnum):
    """How much a key matters to a user."""

    HIGH = "HIGH"
    MEDIUM = "MEDIUM"
    LOW = "LOW"


class Width(StrEnum):
    """How wide an input field should be."""

    NONE = "NONE"
    SHORT = "SHORT"
    MEDIUM = "MEDIUM"
    LONG = "LONG"


class Recommender(Protocol):
    """Proposes values of a key for a configuration, as tables of the database it names."""

    def valid_values(self, name: str, parsed: Mapping[str, object]) -> Sequence[object]:
        """Values that can be proposed; empty: any."""
        ...

    def visible(self, name: str, parsed: Mapping[str, object]) -> bool:
        """Whether the key matters at all, given the others."""
        ...


@dataclass(frozen=True, slots=True)
class ConfigKey:
    """One key of a definition."""

    name: str
    type: ConfigType
    default: object = NO_DEFAULT
    validator: Validator | None = None
    importance: Importance = Importance.MEDIUM
    documentation: str = ""
    group: str | None = None
    order_in_group: int = -1
    width: Width = Width.NONE
    display_name: str | None = None
    dependents: tuple[str, ...] = ()
    recommender: Recommender | None = None

    @property
    def required(self) -> bool:
        """Whether it has no default."""
        return self.default is NO_DEFAULT


@dataclass(slots=True)
class ConfigValue:
    """What the validation of one key gave."""

    name: str
    value: object = None
    recommended_values: list[object] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    visible: bool = True


class ConfigDef:
    """The keys of a configuration, in the order of their definition.

    Example:
        >>> definition = ConfigDef().define("port", ConfigType.INT, 5432, documentation="Port of the server.")
        >>> definition.parse({"port": "5433"})
        {'port': 5433}
        >>> [value.errors for value in definition.validate({"port": "x"})]
        [['Invalid value x for configuration port: Not a number of type INT']]
    """

    def __init__(self, keys: Iterable[ConfigKey] = ()) -> None:
        self.keys: dict[str, ConfigKey] = {}
        for key in keys:
            self._add(key)

    def define(
        self,
        name: str,
        config_type: ConfigType,
        default: object = NO_DEFAULT,
        validator: Validator | None = None,
        importance: Importance = Importance.MEDIUM,
        documentation: str = "",
        *,
        group: str | None = None,
        width: Width = Width.NONE,
        display_name: str | None = None,
        dependents: Sequence[str] = (),
        recommender: Recommender | None = None,
    ) -> ConfigDef:
        """Add a key; returns the definition itself, for the next one.

        Raises:
            ConfigError: `DUPLICATE_SETTING`, or the default is not allowed itself.
        """
        in_group = sum(key.group == group for key in self.keys.values()) + 1 if group is not None else -1
        self._add(
            ConfigKey(
                name,
                config_type,
                default,
                validator,
                importance,
                documentation,
                group,
                in_group,
                width,
                display_name or name,
                tuple(dependents),
                recommender,
            )
        )
        return self

    def _add(self, key: ConfigKey) -> None:
        if key.name in self.keys:
            raise ConfigError("DUPLICATE_SETTING", f"Configuration {key.name} is defined twice.", setting=key.name)
        if not key.required and key.default is not None:
            parsed = parse_type(key.name, key.default, key.type)
            if key.validator is not None:
                key.validator(key.name, parsed)
        self.keys[key.name] = key

    def embed(self, other: ConfigDef, prefix: str = "", group: str | None = None) -> ConfigDef:
        """Add the keys of another definition, under a prefix."""
        for key in other.keys.values():
            self._add(
                replace(
                    key,
                    name=prefix + key.name,
                    group=group or key.group,
                    dependents=tuple(prefix + each for each in key.dependents),
                    recommender=_prefixed(prefix, key.recommender),
                )
            )
        return self

    def groups(self) -> list[str]:
        """Names of the groups, in order."""
        return list(dict.fromkeys(key.group for key in self.keys.values() if key.group is not None))

    def parse(self, props: Mapping[str, object]) -> dict[str, object]:
        """Typed values of all keys, with defaults; keys that are not defined are left out.

        Raises:
            ConfigError: the first value that is not allowed, or a required key that is missing.
        """
        return {key.name: self._parse_key(key, props) for key in self.keys.values()}

    def _parse_key(self, key: ConfigKey, props: Mapping[str, object]) -> object:
        if key.name in props:
            value = parse_type(key.name, props[key.name], key.type)
        elif key.required:
            raise missing(key.name)
        else:
            value = None if key.default is None else parse_type(key.name, key.default, key.type)
        if key.validator is not None:
            key.validator(key.name, value)
        return value

    @staticmethod
    def _refused(key: ConfigKey, given: object) -> tuple[object, list[str]]:
        """The value of a key that was refused, and what its validator says besides.

        A value of another type is null to Kafka, and to the validator.
        """
        try:
            return parse_type(key.name, given, key.type), []
        except ConfigError:
            try:
                if key.validator is not None:
                    key.validator(key.name, None)
            except ConfigError as error:
                return None, [error.message]
        return None, []

    def validate(self, props: Mapping[str, object]) -> list[ConfigValue]:
        """Every key with its value, its errors and what is recommended; never raises for what was given."""
        values = {name: ConfigValue(name) for name in self.keys}
        parsed: dict[str, object] = {}
        for key in self.keys.values():
            try:
                parsed[key.name] = values[key.name].value = self._parse_key(key, props)
            except ConfigError as error:
                values[key.name].errors.append(error.message)
                if key.name in props:
                    values[key.name].value, more = self._refused(key, props[key.name])
                    values[key.name].errors += more
        for key in self.keys.values():
            if key.recommender is not None:
                _recommend(key, key.recommender, parsed, values[key.name])
        return list(values.values())


def _recommend(key: ConfigKey, recommender: Recommender, parsed: Mapping[str, object], result: ConfigValue) -> None:
    try:
        result.recommended_values = list(recommender.valid_values(key.name, parsed))
        result.visible = recommender.visible(key.name, parsed)
    except ConfigError as error:
        result.errors.append(error.message)
        return
    value = parsed.get(key.name)
    given = value if isinstance(value, list) else [] if value is None else [value]
    result.errors.extend(
        f"Invalid value {config_text(each, key.type)} for configuration {key.name}: Value is not among the recommended "
        "values"
        for each in given
        if result.recommended_values and each not in result.recommended_values
    )


def _prefixed(prefix: str, recommender: Recommender | None) -> Recommender | None:
    return recommender if recommender is None or not prefix else _PrefixedRecommender(prefix, recommender)


class _PrefixedRecommender:
    """A recommender of an embedded definition: it sees its keys without the prefix."""

    def __init__(self, prefix: str, recommender: Recommender) -> None:
        self._prefix = prefix
        self._recommender = recommender

    def valid_values(self, name: str, parsed: Mapping[str, object]) -> Sequence[object]:
        return self._recommender.valid_values(name.removeprefix(self._prefix), self._own(parsed))

    def visible(self, name: str, parsed: Mapping[str, object]) -> bool:
        return self._recommender.visible(name.removeprefix(self._prefix), self._own(parsed))

    def _own(self, parsed: Mapping[str, object]) -> dict[str, object]:
        return {key[len(self._prefix) :]: value for key, value in parsed.items() if key.startswith(self._prefix)}


def missing(name: str) -> ConfigError:
    """The error for a required key that is not given."""
    return ConfigError(
        "MISSING_SETTING", f'Missing required configuration "{name}" which has no default value.', setting=name
    )


class TypedConfig:
    """A configuration, parsed: getters by type, so that a connector needs no casts.

    Example:
        >>> definition = ConfigDef().define("port", ConfigType.INT, 5432).define("name", ConfigType.STRING, None)
        >>> config = TypedConfig(definition, {"port": "5433"})
        >>> config.int("port"), config.optional_string("name")
        (5433, None)
    """

    def __init__(self, definition: ConfigDef, props: Mapping[str, object]) -> None:
        self.originals = dict(props)
        self._values = definition.parse(props)

    def __getitem__(self, name: str) -> object:
        return self._values[name]

    def int(self, name: str) -> int:
        """An `INT`, `SHORT` or `LONG`."""
        value = self._values[name]
        assert isinstance(value, int), name
        return value

    def float(self, name: str) -> float:
        """A `DOUBLE`."""
        value = self._values[name]
        assert isinstance(value, (int, float)), name
        return value

    def bool(self, name: str) -> bool:
        """A `BOOLEAN`."""
        value = self._values[name]
        assert isinstance(value, bool), name
        return value

    def string(self, name: str) -> str:
        """A `STRING` or `CLASS` that is set."""
        value = self._values[name]
        assert isinstance(value, str), name
        return value

    def optional_string(self, name: str) -> str | None:
        """A `STRING` that may be absent."""
        value = self._values[name]
        assert value is None or isinstance(value, str), name
        return value

    def list(self, name: str) -> list[str]:
        """A `LIST`; empty if it is absent."""
        value = self._values[name]
        assert value is None or isinstance(value, list), name
        return value or []

    def password(self, name: str) -> str | None:
        """The text of a `PASSWORD`."""
        value = self._values[name]
        assert value is None or isinstance(value, Password), name
        return None if value is None else value.value

    def with_prefix(self, prefix: str) -> dict[str, object]:
        """What was given under a prefix, without it."""
        return {
            name[len(prefix) :]: value
            for name, value in self.originals.items()
            if name.startswith(prefix) and len(name) > len(prefix)
        }
