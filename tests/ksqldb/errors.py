"""Whether an error is the one that a case expects."""

from __future__ import annotations

from tests.ksqldb.cases import ExpectedError

from hayase.testing.sql.expected_errors import unexpected as differs

WRAPPERS = ("Exception caught in process", "Unable to serialize record")
"""How Kafka Streams and ksqlDB begin the text of any failure of a record; here the class says that."""


def unexpected(error: BaseException, expected: ExpectedError) -> str | None:
    """What is wrong with an error; `None` if it is the expected one."""
    return differs(error, expected.type, _own(expected.message)) or _wrong_cause(error, expected)


def _own(message: str | None) -> str | None:
    return None if message in WRAPPERS else message


def _wrong_cause(error: BaseException, expected: ExpectedError) -> str | None:
    if expected.cause is None and expected.cause_message is None:
        return None
    # Ours may wrap what a function raised more often than Java does, or not at all.
    chain = [error]
    while (cause := chain[-1].__cause__) is not None:
        chain.append(cause)
    problems = [differs(each, expected.cause, _own(expected.cause_message)) for each in reversed(chain)]
    return None if None in problems else f"cause: {problems[0]}"
