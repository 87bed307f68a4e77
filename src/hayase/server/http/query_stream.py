"""POST /query-stream: the rows of a query, in one of four encodings."""

from __future__ import annotations

from starlette.requests import Request
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp

from hayase.server.context import ServerContext
from hayase.server.http.encodings.accepted import accepted
from hayase.server.http.encodings.encodings import encoding_for
from hayase.server.http.encodings.media_types import DELIMITED, JSON, KSQL_JSON, KSQL_PROTOBUF
from hayase.server.http.errors import error_entity, error_response
from hayase.server.http.query_request import QueryRequest, start_asked
from hayase.server.http.rows_response import respond

_OFFERED = (DELIMITED, JSON, KSQL_JSON, KSQL_PROTOBUF)


def routes(context: ServerContext) -> list[BaseRoute]:
    """The endpoint."""

    async def query_stream(request: Request) -> ASGIApp:
        statement = None
        try:
            asked = QueryRequest.read(await request.body(), "sql", "properties")
            statement = asked.text
            stream = await start_asked(asked, context)
        except Exception as error:
            return error_response(error, statement)
        media_type = accepted(request.headers.get("accept", ""), _OFFERED)
        try:
            encoding = encoding_for(media_type, stream.header, error_entity)
        except Exception as error:
            await stream.close()
            return error_response(error, statement)
        return respond(stream, encoding, media_type)

    return [Route("/query-stream", query_stream, methods=["POST"])]
