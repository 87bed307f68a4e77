"""Java's exceptions and ours: whether an error is the one that a case expects."""

from __future__ import annotations

from hayase.core.errors import ConfigError, HayaseError, ProcessingError, SchemaRegistryError, SerializationError
from hayase.sql.errors import FunctionError, ParseFailedError, SqlError
from tests.ksqldb.cases import ExpectedError

CLASSES: dict[str, tuple[type[BaseException], ...]] = {
    "io.confluent.ksql.parser.exception.ParseFailedException": (ParseFailedError,),
    "io.confluent.ksql.util.KsqlStatementException": (SqlError, ConfigError, SchemaRegistryError),
    "io.confluent.ksql.util.KsqlException": (SqlError, ConfigError, SchemaRegistryError, FunctionError),
    "org.apache.kafka.streams.errors.StreamsException": (ProcessingError, SerializationError, FunctionError),
    "io.confluent.ksql.function.KsqlFunctionException": (HayaseError,),
    "java.lang.AssertionError": (AssertionError,),
}
"""What each class of Java's is here; where a class is not there, any error of ours will do."""


def unexpected(error: BaseException, expected: ExpectedError) -> str | None:
    """What is wrong with an error; `None` if it is the expected one."""
    return _differs(error, expected.type, expected.message, "") or _wrong_cause(error, expected)


def _wrong_cause(error: BaseException, expected: ExpectedError) -> str | None:
    if expected.cause is None and expected.cause_message is None:
        return None
    # Ours may wrap what a function raised more often than Java does, or not at all.
    chain = [error]
    while (cause := chain[-1].__cause__) is not None:
        chain.append(cause)
    problems = [_differs(each, expected.cause, expected.cause_message, "cause: ") for each in reversed(chain)]
    return None if None in problems else problems[0]


def _differs(error: BaseException, type_: str | None, message: str | None, what: str) -> str | None:
    if type_ is not None and not isinstance(error, CLASSES.get(type_, (HayaseError,))):
        return f"{what}{type(error).__name__}: {error}; expected {type_.rsplit('.', 1)[-1]}"
    if message is not None and message not in str(error):
        return f"{what}{error}; expected: {message}"
    return None
