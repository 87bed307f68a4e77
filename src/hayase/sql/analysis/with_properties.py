"""WITH (…): which properties there are, what their values may be, and which exclude each other."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from hayase.sql.analysis.windows import LONGEST_MS
from hayase.sql.ast.expressions import (
    BigintLiteral,
    BooleanLiteral,
    DecimalLiteral,
    DoubleLiteral,
    Expression,
    IntegerLiteral,
    StringLiteral,
)
from hayase.sql.ast.location import Location
from hayase.sql.ast.queries import WindowKind
from hayase.sql.ast.statements import Properties
from hayase.sql.catalog.sources import TimestampColumn, WindowedKey
from hayase.sql.errors import ParseFailedError, StatementError, located
from hayase.sql.formats.format_info import DELIMITER, FULL_SCHEMA_NAME, NULLABLE_REPRESENTATION, SCHEMA_ID
from hayase.sql.formats.support import check_delimiter

KAFKA_TOPIC, PARTITIONS, REPLICAS = "KAFKA_TOPIC", "PARTITIONS", "REPLICAS"
FORMAT, KEY_FORMAT, VALUE_FORMAT = "FORMAT", "KEY_FORMAT", "VALUE_FORMAT"
WRAP_SINGLE_VALUE = "WRAP_SINGLE_VALUE"
TIMESTAMP, TIMESTAMP_FORMAT = "TIMESTAMP", "TIMESTAMP_FORMAT"
WINDOW_TYPE, WINDOW_SIZE = "WINDOW_TYPE", "WINDOW_SIZE"
QUERY_ID = "QUERY_ID"
KEY_SCHEMA_ID, VALUE_SCHEMA_ID = "KEY_SCHEMA_ID", "VALUE_SCHEMA_ID"
_FORMAT_PROPERTIES = {
    "KEY_DELIMITER": ("key", DELIMITER),
    "VALUE_DELIMITER": ("value", DELIMITER),
    "KEY_SCHEMA_FULL_NAME": ("key", FULL_SCHEMA_NAME),
    "VALUE_SCHEMA_FULL_NAME": ("value", FULL_SCHEMA_NAME),
    "VALUE_AVRO_SCHEMA_FULL_NAME": ("value", FULL_SCHEMA_NAME),
    "KEY_PROTOBUF_NULLABLE_REPRESENTATION": ("key", NULLABLE_REPRESENTATION),
    "VALUE_PROTOBUF_NULLABLE_REPRESENTATION": ("value", NULLABLE_REPRESENTATION),
    KEY_SCHEMA_ID: ("key", SCHEMA_ID),
    VALUE_SCHEMA_ID: ("value", SCHEMA_ID),
}
_NUMBERS = {PARTITIONS, REPLICAS, "RETENTION_MS", KEY_SCHEMA_ID, VALUE_SCHEMA_ID}
_COMMON = frozenset(
    {
        KAFKA_TOPIC,
        PARTITIONS,
        REPLICAS,
        "RETENTION_MS",
        "CLEANUP_POLICY",
        FORMAT,
        KEY_FORMAT,
        VALUE_FORMAT,
        WRAP_SINGLE_VALUE,
        TIMESTAMP,
        TIMESTAMP_FORMAT,
        *_FORMAT_PROPERTIES,
    }
)
CREATE_PROPERTIES = _COMMON | {WINDOW_TYPE, WINDOW_SIZE, "SOURCED_BY_CONNECTOR"}
"""What CREATE STREAM and CREATE TABLE take."""
CREATE_AS_PROPERTIES = _COMMON
"""What CREATE … AS SELECT takes."""
INSERT_PROPERTIES = frozenset({QUERY_ID})
"""What INSERT INTO … SELECT takes."""
_COUNT_MAX: Mapping[str, int] = {PARTITIONS: 2**31 - 1, REPLICAS: 2**15 - 1}
_TOPIC_NAME = re.compile(r"[A-Za-z0-9._-]{1,249}")
_UNITS_MS = {
    "DAY": 86_400_000,
    "HOUR": 3_600_000,
    "MINUTE": 60_000,
    "SECOND": 1_000,
    "MILLISECOND": 1,
}


@dataclass(frozen=True)
class WithProperties:
    """The properties of a WITH clause, checked.

    Attributes:
        values: text, number or boolean by name.
    """

    values: Mapping[str, str | int | bool] = field(default_factory=dict)

    def text(self, name: str) -> str | None:
        """The value of a property that is a text; `None` if it was not given."""
        value = self.values.get(name)
        return None if value is None else str(value)

    def number(self, name: str) -> int | None:
        """The value of a property that is a number; `None` if it was not given."""
        value = self.values.get(name)
        return None if value is None else int(value)

    @property
    def key_format(self) -> str | None:
        """The format of keys, as given."""
        return self.text(FORMAT) or self.text(KEY_FORMAT)

    @property
    def value_format(self) -> str | None:
        """The format of values, as given."""
        return self.text(FORMAT) or self.text(VALUE_FORMAT)

    @property
    def wrap(self) -> bool | None:
        """WRAP_SINGLE_VALUE."""
        value = self.values.get(WRAP_SINGLE_VALUE)
        return None if value is None else bool(value)

    @property
    def timestamp(self) -> TimestampColumn | None:
        """The column that gives the event time."""
        name = self.text(TIMESTAMP)
        return None if name is None else TimestampColumn(_identifier(name), self.text(TIMESTAMP_FORMAT))

    @property
    def window(self) -> WindowedKey | None:
        """How keys are windowed."""
        kind = self.text(WINDOW_TYPE)
        if kind is None:
            return None
        size = self.text(WINDOW_SIZE)
        return WindowedKey(WindowKind(kind.upper()), None if size is None else duration_ms(WINDOW_SIZE, size))

    def format_properties(self, side: str) -> dict[str, str]:
        """The properties of the format of keys or values, under the names that formats have for them."""
        found = {}
        for name, (of_side, property_name) in _FORMAT_PROPERTIES.items():
            if of_side == side and name in self.values:
                found[property_name] = str(self.values[name])
        return found


def read_properties(properties: Properties, allowed: frozenset[str], what: str) -> WithProperties:
    """The properties of a statement.

    Args:
        properties: as parsed.
        allowed: the names that the statement takes.
        what: the statement, for errors.

    Raises:
        StatementError: a name or a value that is not allowed, or two that exclude each other.
    """
    values: dict[str, str | int | bool] = {}
    for given, literal in properties:
        name = given.upper()
        if name not in allowed:
            raise StatementError(
                "UNKNOWN_PROPERTY",
                f"Failed to prepare statement: Invalid config variable(s) in the WITH clause: {name}. {what} takes "
                f"{', '.join(sorted(allowed))}",
                location=literal.location,
            )
        with located(literal.location):
            values[name] = _value(name, literal)
    checked = WithProperties(values)
    for check, about in (
        (_check_formats, (FORMAT,)),
        (_check_timestamp, (TIMESTAMP_FORMAT,)),
        (_check_window, (WINDOW_SIZE, WINDOW_TYPE)),
    ):
        with located(_first_of(properties, about)):
            check(checked)
    return checked


def _first_of(properties: Properties, names: tuple[str, ...]) -> Location | None:
    """Where the first of some properties is, that is given."""
    given = {name.upper(): literal.location for name, literal in properties}
    return next((given[name] for name in names if name in given), None)


def duration_ms(name: str, text: str) -> int:
    """A duration such as `10 SECONDS` in milliseconds.

    Raises:
        ParseFailedError: it is none.
    """
    match = re.fullmatch(r"\s*(\d+)\s+(\w+)\s*", text)
    problem = f"Invalid duration: '{text}'. "
    if match is None:
        problem += "Expected a number and a time unit, for example '10 SECONDS'"
    else:
        unit = match[2].upper()
        size_ms = _UNITS_MS.get(unit) or _UNITS_MS.get(unit.removesuffix("S"))
        if size_ms is not None:
            return int(match[1]) * size_ms
        problem += f"Unknown time unit: '{unit}'"
    raise ParseFailedError(
        "INVALID_PROPERTY", f"Failed to prepare statement: Configuration {name} is invalid: {problem}"
    )


def _value(name: str, literal: Expression) -> str | int | bool:
    if not isinstance(
        literal, StringLiteral | IntegerLiteral | BigintLiteral | BooleanLiteral | DecimalLiteral | DoubleLiteral
    ):
        raise StatementError("INVALID_PROPERTY", f"{name} has to be a literal", location=literal.location)
    value = literal.value
    if name in _NUMBERS:
        number = _number(name, value)
        if name in (PARTITIONS, REPLICAS) and not 1 <= number <= _COUNT_MAX[name]:
            raise _invalid(name, f"{number} is not from 1 to {_COUNT_MAX[name]}")
        return number
    if name == WRAP_SINGLE_VALUE:
        if isinstance(value, bool):
            return value
        if str(value).lower() in ("true", "false"):
            return str(value).lower() == "true"
        raise _invalid(name, f"Expected value to be either true or false, not '{value}'")
    text = str(value)
    if name == KAFKA_TOPIC and (text in (".", "..") or not _TOPIC_NAME.fullmatch(text)):
        variable = "; the variable in it is not defined: DEFINE it, or give --define" if "${" in text else ""
        raise _invalid(
            name,
            f"{text!r:.80} is no name of a topic: 1 to 249 of the characters a-z, A-Z, 0-9, '.', '_', '-'{variable}",
        )
    if name.endswith("_DELIMITER"):
        check_delimiter(name, text)
    if name in (KEY_FORMAT, VALUE_FORMAT, FORMAT) and not text.strip():
        raise _invalid(name, "String must be non-empty")
    return text


def _number(name: str, value: object) -> int:
    try:
        return int(str(value))
    except ValueError as error:
        raise _invalid(name, f"Not a number of type INT: '{value}'") from error


def _invalid(name: str, problem: str) -> StatementError:
    return StatementError(
        "INVALID_PROPERTY", f"Failed to prepare statement: Configuration {name} is invalid: {problem}"
    )


def _check_formats(given: WithProperties) -> None:
    for name in (KEY_FORMAT, VALUE_FORMAT):
        if FORMAT in given.values and name in given.values:
            raise StatementError(
                "INVALID_PROPERTY",
                f"Cannot supply both '{name}' and 'FORMAT' properties, as 'FORMAT' sets both key and value formats. "
                "Either use just 'FORMAT', or use 'KEY_FORMAT' and 'VALUE_FORMAT'.",
            )


def _check_timestamp(given: WithProperties) -> None:
    if TIMESTAMP_FORMAT in given.values and TIMESTAMP not in given.values:
        raise StatementError(
            "INVALID_PROPERTY", "TIMESTAMP_FORMAT says how a text is read; name its column with TIMESTAMP"
        )


def _check_window(given: WithProperties) -> None:
    kind = given.text(WINDOW_TYPE)
    size = given.text(WINDOW_SIZE)
    if kind is None:
        if size is not None:
            raise StatementError("INVALID_PROPERTY", "WINDOW_SIZE has no meaning without WINDOW_TYPE")
        return
    if kind.upper() not in WindowKind.__members__:
        raise _invalid(WINDOW_TYPE, f"'{kind}' is none of {', '.join(WindowKind.__members__)}")
    if kind.upper() == "SESSION" and size is not None:
        raise ParseFailedError("INVALID_PROPERTY", "'WINDOW_SIZE' should not be set for SESSION windows.")
    if kind.upper() != "SESSION" and size is None:
        raise ParseFailedError(
            "INVALID_PROPERTY",
            f"{kind.upper()} windows require 'WINDOW_SIZE' to be provided in the WITH clause. For example: "
            "'WINDOW_SIZE'='10 SECONDS'",
        )
    if size is not None and not 1 <= duration_ms(WINDOW_SIZE, size) <= LONGEST_MS:
        raise _invalid(WINDOW_SIZE, f"'{size}' is not from 1 to {LONGEST_MS} milliseconds")


def _identifier(text: str) -> str:
    """The column that a text names: in upper case, unless it is in quotes."""
    if len(text) > 1 and text[0] == text[-1] and text[0] in '`"':
        return text[1:-1].replace(text[0] * 2, text[0])
    return text.upper()
