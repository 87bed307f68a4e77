"""Errors of requests, with the codes that ksqlDB's clients know: HTTP status times 100, and a number."""

from __future__ import annotations

import msgspec

from hayase.core.errors import HayaseError
from hayase.sql.errors import SqlError

BAD_REQUEST = 40000
BAD_STATEMENT = 40001
WRONG_ENDPOINT = 40002
TOO_MANY_PUSH_QUERIES = 40003
INTERNAL_ENDPOINT = 40005
UNAUTHENTICATED = 40100
FORBIDDEN = 40300
NOT_FOUND = 40400
BODY_TOO_LARGE = 41300
TOO_MANY_ROWS = 41301
ASSERTION_FAILED = 41700
MISDIRECTED = 42100
NO_SCHEMA_REGISTRY = 42801
RATE_LIMIT = 42900
SERVER_ERROR = 50000
CATCH_UP_TIMEOUT = 50301
NOT_READY = 50302

BAD_JSON = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""What reading a text that is no JSON, or that nests too deeply, raises."""


class RequestError(HayaseError):
    """A request that cannot be answered.

    Attributes:
        code: that clients look at.
    """

    def __init__(self, code: int, condition: str, message: str, **context: object) -> None:
        super().__init__(condition, message, **context)
        self.code = code


_OF_CONDITIONS = {
    "ASSERTION_FAILED": ASSERTION_FAILED,
    "IS_A_QUERY": WRONG_ENDPOINT,
    "NOT_A_QUERY": WRONG_ENDPOINT,
    "NOT_READY": NOT_READY,
    "NO_SCHEMA_REGISTRY": NO_SCHEMA_REGISTRY,
    "RATE_LIMIT": RATE_LIMIT,
    "TOO_MANY_ROWS": TOO_MANY_ROWS,
    "TOO_MANY_PUSH_QUERIES": TOO_MANY_PUSH_QUERIES,
}


def code_of(error: BaseException) -> int:
    """The code of an error; those of statements have 40001 unless their condition has one of its own."""
    if isinstance(error, RequestError):
        return error.code
    if isinstance(error, SqlError):
        return _OF_CONDITIONS.get(error.condition, BAD_STATEMENT)
    return SERVER_ERROR


def status_of(code: int) -> int:
    """The HTTP status of a code."""
    return code // 100
