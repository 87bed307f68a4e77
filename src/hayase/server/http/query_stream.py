"""POST /query-stream: the rows of a query, in one of four encodings."""

from __future__ import annotations

from functools import lru_cache

from starlette.requests import Request
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp

from hayase.server.context import ServerContext
from hayase.server.http.encodings.encodings import DELIMITED, JSON, KSQL_JSON, KSQL_PROTOBUF, encoding_for
from hayase.server.http.errors import error_answer, error_response
from hayase.server.http.query_request import QueryRequest, start_asked
from hayase.server.http.rows_response import respond
from hayase.sql.errors import SqlError

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
        media_type = accepted(request.headers.get("accept", ""))
        try:
            encoding = encoding_for(media_type, stream.header, _error_entity)
        except Exception as error:
            await stream.close()
            return error_response(error, statement)
        return respond(stream, encoding, media_type)

    return [Route("/query-stream", query_stream, methods=["POST"])]


@lru_cache(maxsize=256)
def accepted(accept: str) -> str:
    """The encoding that a client likes best, of those that there are; lines if it says nothing about it.

    Example:
        >>> accepted("text/html, application/json;q=0.9")
        'application/json'
    """
    wanted = []
    for place, part in enumerate(accept.split(",")):
        name, *parameters = (each.strip().lower() for each in part.split(";"))
        quality = next((each[2:] for each in parameters if each.startswith("q=")), "1")
        try:
            wanted.append((-float(quality), place, name))
        except ValueError:
            continue
    return next((name for _, _, name in sorted(wanted) if name in _OFFERED), DELIMITED)


def _error_entity(error: SqlError) -> dict[str, object]:
    return error_answer(error)[1]
