"""GET /status: how commands ended; POST /close-query: the end of a push query."""

from __future__ import annotations

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from hayase.core.decoding import decode_json
from hayase.server.context import ServerContext
from hayase.server.errors import BAD_JSON, BAD_REQUEST, NOT_FOUND, RequestError
from hayase.server.http.errors import error_response, json_response


class _Close(msgspec.Struct, rename="camel"):
    query_id: str


def routes(context: ServerContext) -> list[BaseRoute]:
    """The endpoints."""
    statuses = context.commands.statuses

    async def all_statuses(request: Request) -> Response:
        return json_response({"commandStatuses": {name: each.status for name, each in statuses.all().items()}})

    async def status(request: Request) -> Response:
        parts = request.path_params
        command_id = f"{parts['type']}/{parts['entity']}/{parts['action']}"
        found = statuses.get(command_id)
        if found is None:
            return error_response(RequestError(NOT_FOUND, "UNKNOWN_COMMAND", f"There is no command {command_id}"))
        return json_response(found.entity)

    async def close_query(request: Request) -> Response:
        try:
            query_id = decode_json(await request.body(), as_type=_Close).query_id
        except BAD_JSON as error:
            return error_response(RequestError(BAD_REQUEST, "BAD_REQUEST", f"the body is no such request: {error}"))
        if not context.push_queries.close(query_id):
            return error_response(RequestError(BAD_REQUEST, "UNKNOWN_QUERY", f"No query with id {query_id}"))
        return Response(status_code=200)

    return [
        Route("/status", all_statuses),
        Route("/status/{type}/{entity:path}/{action}", status),
        Route("/close-query", close_query, methods=["POST"]),
    ]
