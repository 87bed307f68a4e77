"""Errors that tests expect: ksqlDB's classes by their Java names, and ours."""

from __future__ import annotations

from hayase.core.errors import (
    ConfigError,
    HayaseError,
    ProcessingError,
    ProductionError,
    SchemaRegistryError,
    SerializationError,
)
from hayase.sql.errors import FunctionError, ParseFailedError, SqlError

_CLASSES: dict[str, tuple[type[BaseException], ...]] = {
    "ParseFailedException": (ParseFailedError,),
    "KsqlStatementException": (SqlError, ConfigError, SchemaRegistryError),
    "KsqlException": (SqlError, ConfigError, SchemaRegistryError, FunctionError),
    "KsqlFunctionException": (HayaseError,),
    "StreamsException": (ProcessingError, ProductionError, SerializationError, FunctionError),
    "AssertionError": (AssertionError,),
}
"""What each Java class is here; where a class is not there, any error of ours will do."""


def is_a(error: BaseException, class_name: str) -> bool:
    """Whether an error is of a class, named as in Java, with or without its package, or as in Python."""
    name = class_name.rsplit(".", 1)[-1]
    own = {each.__name__ for each in type(error).__mro__}
    return name in own or isinstance(error, _CLASSES.get(name, (HayaseError,)))


def unexpected(error: BaseException, class_name: str | None, message: str | None) -> str | None:
    """What is wrong with an error; `None` if it is the expected one."""
    if class_name is not None and not is_a(error, class_name):
        return f"{type(error).__name__}: {error}; expected {class_name.rsplit('.', 1)[-1]}"
    if message is not None and message not in _text(error):
        return f"{error}; expected: {message}"
    return None


def _text(error: BaseException) -> str:
    """The error as ksqlDB's message shows it: with the statement behind."""
    statement = getattr(error, "statement", None)
    return str(error) if statement is None else f"{error}\n{error.args[-1]}\nStatement: {statement}"
