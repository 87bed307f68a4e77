"""POST /ksql: statements; POST /ksql/terminate: the end of everything."""

from __future__ import annotations

import asyncio
import re
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from hayase.core.decoding import decode_json
from hayase.server.context import ServerContext
from hayase.server.errors import BAD_JSON, BAD_REQUEST, RequestError
from hayase.server.http.access import require_role, role_of
from hayase.server.http.errors import error_response, json_response
from hayase.server.security.users import Role
from hayase.server.statements import StatementRequest, StatementService
from hayase.server.termination import terminate_all

_THREADS = 4
"""Of their own: a command that waits for a query to end must not keep rows of others waiting."""
Scalar = str | int | float | bool | None


class _Body(msgspec.Struct, rename="camel"):
    ksql: str
    streams_properties: dict[str, Scalar] | None = None
    session_variables: dict[str, str] | None = None
    command_sequence_number: int | None = None


class _Termination(msgspec.Struct, rename="camel"):
    delete_topic_list: list[str] | None = None


def routes(context: ServerContext) -> list[BaseRoute]:
    """The endpoints."""
    service = StatementService(context)
    threads = ThreadPoolExecutor(_THREADS, "hayase-statements")

    async def ksql(request: Request) -> Response:
        statement = None
        try:
            body = _decoded(await request.body(), _Body)
            statement = body.ksql
            asked = StatementRequest(
                body.ksql,
                body.streams_properties or {},
                body.session_variables or {},
                body.command_sequence_number,
                role_of(request.scope),
            )
            loop = asyncio.get_running_loop()
            return json_response(await loop.run_in_executor(threads, service.execute, asked))
        except Exception as error:
            return error_response(error, statement)

    async def terminate(request: Request) -> Response:
        try:
            require_role(request.scope, Role.ADMIN)
            body = _decoded(await request.body() or b"{}", _Termination)
            patterns = [_pattern(text) for text in body.delete_topic_list or ()]
            return json_response([await asyncio.to_thread(terminate_all, context, patterns)])
        except Exception as error:
            return error_response(error)

    return [
        Route("/ksql", ksql, methods=["POST"]),
        Route("/ksql/terminate", terminate, methods=["POST"]),
    ]


def _decoded(body: bytes, kind: type[Any]) -> Any:
    try:
        return decode_json(body, as_type=kind)
    except BAD_JSON as error:
        raise RequestError(BAD_REQUEST, "BAD_REQUEST", f"the body is no such request: {error}") from error


def _pattern(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise RequestError(BAD_REQUEST, "BAD_REQUEST", f"{text!r} is no pattern of topics: {error}") from error
