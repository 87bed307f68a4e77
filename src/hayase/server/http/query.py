"""POST /query: the rows of a query as an array of StreamedRow, and the lines of PRINT."""

from __future__ import annotations

from starlette.requests import Request
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp

from hayase.server.context import ServerContext
from hayase.server.http.encodings.encodings import StreamedRows
from hayase.server.http.encodings.media_types import KSQL_JSON, TEXT
from hayase.server.http.encodings.printed import PrintedLines
from hayase.server.http.errors import error_entity, error_response
from hayase.server.http.query_request import QueryRequest, start_asked
from hayase.server.http.rows_response import RowsResponse, respond
from hayase.server.warm_up import planning_imported


def routes(context: ServerContext) -> list[BaseRoute]:
    """The endpoint."""

    async def query(request: Request) -> ASGIApp:
        statement = None
        try:
            asked = QueryRequest.read(await request.body(), "ksql", "streamsProperties")
            statement = asked.text
            printed = asked.print_statement()
            if printed is not None:
                await planning_imported()
                from hayase.server.push.print_topic import start_print  # slow to import

                lines = await start_print(printed, context, context.push_queries)
                return RowsResponse(lines, PrintedLines(), TEXT)
            stream = await start_asked(asked, context)
        except Exception as error:
            return error_response(error, statement)
        return respond(stream, StreamedRows(stream.header, error_entity), KSQL_JSON)

    return [Route("/query", query, methods=["POST"])]
