"""Types of configuration values, and how text becomes one of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from enum import StrEnum

from hayase.core.errors import ConfigError

HIDDEN = "[hidden]"
"""What stands for a password where a configuration is shown."""


class ConfigType(StrEnum):
    """Types of configuration values."""

    BOOLEAN = "BOOLEAN"
    STRING = "STRING"
    INT = "INT"
    SHORT = "SHORT"
    LONG = "LONG"
    DOUBLE = "DOUBLE"
    LIST = "LIST"
    CLASS = "CLASS"
    PASSWORD = "PASSWORD"


class Password:
    """A secret of a configuration: not shown when printed.

    Example:
        >>> Password("open sesame")
        [hidden]
    """

    __slots__ = ("value",)

    def __init__(self, value: str) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Password) and other.value == self.value

    def __hash__(self) -> int:
        return hash(self.value)

    def __repr__(self) -> str:
        return HIDDEN


def invalid(name: str, value: object, why: str) -> ConfigError:
    """The error for a value that is not allowed, in Kafka's words."""
    shown = "null" if value is None else str(value).lower() if isinstance(value, bool) else value
    return ConfigError("INVALID_SETTING", f"Invalid value {shown} for configuration {name}: {why}", setting=name)


def parse_type(name: str, value: object, config_type: ConfigType) -> object:
    """The typed value; text is trimmed.

    Raises:
        ConfigError: `INVALID_SETTING`.

    Example:
        >>> parse_type("topics", "orders, users", ConfigType.LIST)
        ['orders', 'users']
    """
    if value is None:
        return None
    return _PARSERS[config_type](name, value.strip() if isinstance(value, str) else value)


def _boolean(name: str, value: object) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    raise invalid(name, value, "Expected value to be either true or false")


def _string(name: str, value: object) -> str:
    if isinstance(value, str):
        return value
    raise invalid(name, value, f"Expected value to be a string, but it was a {type(value).__name__}")


def _password(name: str, value: object) -> Password:
    return value if isinstance(value, Password) else Password(_string(name, value))


def _list(name: str, value: object) -> list[str]:
    if isinstance(value, (list, tuple)):
        return [_string(name, each) for each in value]
    text = _string(name, value)
    return [each.strip() for each in text.split(",")] if text else []


def _double(name: str, value: object) -> float:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    try:
        return float(_string(name, value))
    except ValueError as error:
        if isinstance(error, ConfigError):
            raise
        raise invalid(name, value, "Not a number of type DOUBLE") from None


def _whole(config_type: ConfigType, bits: int) -> Callable[[str, object], int]:
    def parse(name: str, value: object) -> int:
        number = int(value) if isinstance(value, str) and re.fullmatch(r"[+-]?\d{1,20}", value) else value
        bound = 1 << (bits - 1)
        if not isinstance(number, int) or isinstance(number, bool) or not -bound <= number < bound:
            raise invalid(name, value, f"Not a number of type {config_type}")
        return number

    return parse


_PARSERS: Mapping[ConfigType, Callable[[str, object], object]] = {
    ConfigType.BOOLEAN: _boolean,
    ConfigType.STRING: _string,
    ConfigType.CLASS: _string,
    ConfigType.PASSWORD: _password,
    ConfigType.LIST: _list,
    ConfigType.DOUBLE: _double,
    ConfigType.INT: _whole(ConfigType.INT, 32),
    ConfigType.SHORT: _whole(ConfigType.SHORT, 16),
    ConfigType.LONG: _whole(ConfigType.LONG, 64),
}


def config_text(value: object, config_type: ConfigType) -> str | None:
    """A typed value as text, as the REST interface shows it; a password as `[hidden]`."""
    if value is None:
        return None
    if isinstance(value, Password) or config_type is ConfigType.PASSWORD:
        return HIDDEN
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (list, tuple)):
        return ",".join(str(each) for each in value)
    return str(value)
