"""Errors that tests expect: classes of ksqlDB by their Java names, and ours."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Mapping

from hayase.core import errors as core_errors
from hayase.core.errors import (
    ConfigError,
    HayaseError,
    ProcessingError,
    ProductionError,
    SchemaRegistryError,
    SerializationError,
)
from hayase.sql import errors as sql_errors
from hayase.sql.errors import FunctionError, ParseFailedError, SqlError
from hayase.testing.sql.asserts import SqlAssertionError

_ANY = (HayaseError,)
_STATEMENT = (SqlError, ConfigError, SchemaRegistryError)
_JAVA: Mapping[str, tuple[type[BaseException], ...]] = {
    "ParseFailedException": (ParseFailedError,),
    "KsqlStatementException": _STATEMENT,
    "KsqlException": (*_STATEMENT, FunctionError),
    "KsqlFunctionException": _ANY,
    "StreamsException": (ProcessingError, ProductionError, SerializationError, FunctionError),
    "AssertionError": (AssertionError,),
    **dict.fromkeys(("KsqlStatementErrorMessage", "KsqlErrorMessage"), _ANY),
    **dict.fromkeys(
        (
            "ArithmeticException",
            "ClassCastException",
            "DataException",
            "Exception",
            "IllegalArgumentException",
            "IllegalStateException",
            "InvalidColumnException",
            "InvalidTopicException",
            "KafkaException",
            "KafkaTopicExistsException",
            "KsqlFunctionInvocationException",
            "KsqlSchemaAuthorizationException",
            "KsqlSchemaRegistryNotConfiguredException",
            "KsqlServerException",
            "KsqlTopicAuthorizationException",
            "NullPointerException",
            "NumberFormatException",
            "RuntimeException",
            "SchemaException",
            "SerializationException",
            "Throwable",
            "UnknownColumnException",
            "UnknownTopicOrPartitionException",
            "UnknownTypeException",
            "UnsupportedOperationException",
        ),
        _ANY,
    ),
}
"""What each Java class is here: where ours have no counterpart, any error of ours."""
_OWN: Mapping[str, type[HayaseError]] = {
    name: each
    for name, each in (*inspect.getmembers(core_errors), *inspect.getmembers(sql_errors))
    if inspect.isclass(each) and issubclass(each, HayaseError)
} | {SqlAssertionError.__name__: SqlAssertionError}


def check_class(class_name: str, where: str) -> None:
    """The class that a test names is one of ksqlDB or of Hayase.

    Args:
        class_name: as in Java, with or without its package, or as in Python.
        where: file and line of the name.

    Raises:
        ConfigError: `UNKNOWN_ERROR_CLASS`.
    """
    name = class_name.rsplit(".", 1)[-1]
    if name in _JAVA or name in _OWN:
        return
    near = difflib.get_close_matches(name, [*_JAVA, *_OWN], n=1)
    hint = f"; did you mean {near[0]}?" if near else "."
    raise ConfigError(
        "UNKNOWN_ERROR_CLASS",
        f"{where}: {class_name or 'nothing'} is no class of errors{hint} A test can expect a class of Hayase, such as "
        "StatementError, FunctionError or HayaseError for any, or of ksqlDB KsqlException, KsqlStatementException, "
        "ParseFailedException, StreamsException or AssertionError",
    )


def is_a(error: BaseException, class_name: str) -> bool:
    """Whether an error is of a class, named as in Java, with or without its package, or as in Python."""
    name = class_name.rsplit(".", 1)[-1]
    own = _OWN.get(name)
    return isinstance(error, _JAVA.get(name, _ANY) if own is None else own)


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
