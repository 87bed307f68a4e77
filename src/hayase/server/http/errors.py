"""Errors as answers: the code, the message, the statement and what was done before it."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

import msgspec
from starlette.responses import Response

from hayase.core.errors import HayaseError
from hayase.server.errors import (
    BAD_STATEMENT,
    NOT_READY,
    SERVER_ERROR,
    UNAUTHENTICATED,
    WRONG_ENDPOINT,
    code_of,
    status_of,
)
from hayase.server.http.encodings.media_types import KSQL_JSON
from hayase.server.statements import StatementFailedError
from hayase.sql.errors import SqlError

_LOG = logging.getLogger("hayase.server.http")
_RETRY_AFTER_S = "10"


def error_answer(
    error: BaseException, statement: str | None = None, entities: Sequence[Mapping[str, object]] = ()
) -> tuple[int, dict[str, object]]:
    """The HTTP status and the JSON object of an error.

    Args:
        error: what happened.
        statement: the text that it is about, where the error does not say.
        entities: the answers of the statements before.
    """
    if isinstance(error, StatementFailedError):
        return error_answer(error.cause, error.statement, error.entities)
    code = code_of(error)
    if not isinstance(error, HayaseError):
        _LOG.error("a request has failed", exc_info=error)
        message = "The server has failed at this request; its log says why"
        return status_of(SERVER_ERROR), {"@type": "generic_error", "error_code": SERVER_ERROR, "message": message}
    answer: dict[str, object] = {"@type": "generic_error", "error_code": code, "message": error.message}
    if code in (BAD_STATEMENT, WRONG_ENDPOINT) and isinstance(error, SqlError):
        answer["@type"] = "statement_error"
        answer["statementText"] = error.statement or statement or ""
        answer["entities"] = list(entities)
    return status_of(code), answer


def error_entity(error: SqlError) -> dict[str, object]:
    """The JSON object of an error that comes between rows, or behind them."""
    return error_answer(error)[1]


def error_response(
    error: BaseException, statement: str | None = None, entities: Sequence[Mapping[str, object]] = ()
) -> Response:
    """The answer of a request that failed."""
    status, answer = error_answer(error, statement, entities)
    headers = {}
    if answer["error_code"] == NOT_READY:
        headers["retry-after"] = _RETRY_AFTER_S
    return json_response(answer, status, headers)


def json_response(answer: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """An answer in JSON."""
    return Response(msgspec.json.encode(answer), status, dict(headers or {}), media_type=KSQL_JSON)


def unauthenticated(realm: str) -> Response:
    """The answer that asks for a name and a password."""
    answer = {"@type": "generic_error", "error_code": UNAUTHENTICATED, "message": "Unauthorized"}
    return json_response(answer, 401, {"www-authenticate": f'Basic realm="{realm}"'})
