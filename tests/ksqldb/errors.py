"""Whether an error is the one that a case expects."""

from __future__ import annotations

from tests.ksqldb.cases import ExpectedError

from hayase.testing.sql.expected_errors import unexpected as differs

WRAPPED = "Exception caught in process"
"""How Kafka Streams begins the text of any failure while a record is processed; we have none."""


def unexpected(error: BaseException, expected: ExpectedError) -> str | None:
    """What is wrong with an error; `None` if it is the expected one."""
    message = None if expected.message == WRAPPED else expected.message
    return differs(error, expected.type, message) or _wrong_cause(error, expected)


def _wrong_cause(error: BaseException, expected: ExpectedError) -> str | None:
    if expected.cause is None and expected.cause_message is None:
        return None
    # Ours may wrap what a function raised more often than Java does, or not at all.
    chain = [error]
    while (cause := chain[-1].__cause__) is not None:
        chain.append(cause)
    problems = [differs(each, expected.cause, expected.cause_message) for each in reversed(chain)]
    return None if None in problems else f"cause: {problems[0]}"
