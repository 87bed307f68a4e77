"""GET /ws/query: the rows of a query over a WebSocket, a frame for each."""

from __future__ import annotations

import asyncio

from starlette.routing import BaseRoute, WebSocketRoute
from starlette.websockets import WebSocket

from hayase.server.context import ServerContext
from hayase.server.entities.schema_info import schema_info
from hayase.server.errors import BAD_REQUEST, SERVER_ERROR, RequestError, code_of
from hayase.server.http.encodings.encodings import StreamedRows
from hayase.server.http.encodings.json_values import to_json
from hayase.server.http.errors import error_answer, error_entity
from hayase.server.http.query_request import QueryRequest, start_asked
from hayase.server.rows import RowStream
from hayase.server.warm_up import planning_imported

_DONE, _CANNOT_ACCEPT, _INTERNAL = 1000, 1003, 1011
_REASON_BYTES_MAX = 120
"""The most that a close frame can hold, with its code."""


def routes(context: ServerContext) -> list[BaseRoute]:
    """The endpoint."""

    async def ws_query(socket: WebSocket) -> None:
        await socket.accept()
        try:
            request = socket.query_params.get("request")
            if request is None:
                raise RequestError(BAD_REQUEST, "BAD_REQUEST", "the parameter 'request' is missing: the query is in it")
            asked = QueryRequest.read(request, "ksql", "streamsProperties")
            printed = asked.print_statement()
            if printed is not None:
                await planning_imported()
                from hayase.server.push.print_topic import start_print  # slow to import

                stream: RowStream = await start_print(printed, context, context.push_queries)
            else:
                stream = await start_asked(asked, context)
        except Exception as error:
            await _refuse(socket, error)
            return
        await _serve(socket, stream, lines=printed is not None)

    return [WebSocketRoute("/ws/query", ws_query)]


async def _serve(socket: WebSocket, stream: RowStream, *, lines: bool) -> None:
    sending = asyncio.ensure_future(_send(socket, stream, lines=lines))
    watching = asyncio.ensure_future(_until_gone(socket))
    try:
        await asyncio.wait({sending, watching}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (sending, watching):
            task.cancel()
        await asyncio.gather(sending, watching, return_exceptions=True)
        await stream.close()


async def _send(socket: WebSocket, stream: RowStream, *, lines: bool) -> None:
    encoding = StreamedRows(stream.header, error_entity)
    if not lines:
        columns = [{"name": column.name, "schema": schema_info(column.type)} for column in stream.header.columns]
        await socket.send_text(to_json(columns).decode())
    async for batch in stream:
        if lines:
            for row in batch.rows:
                await socket.send_text(str(row[0]))
        else:
            for each in encoding.objects(batch):
                await socket.send_text(to_json(each).decode())
        if batch.error is not None:
            await socket.close(_INTERNAL, _reason(batch.error.message))
            return
    await socket.close(_DONE, "done")


async def _until_gone(socket: WebSocket) -> None:
    while (await socket.receive())["type"] != "websocket.disconnect":
        pass  # a client has nothing to say


async def _refuse(socket: WebSocket, error: Exception) -> None:
    entity = error_answer(error)[1]
    code = _INTERNAL if code_of(error) >= SERVER_ERROR else _CANNOT_ACCEPT
    await socket.close(code, _reason(str(entity.get("message", ""))))


def _reason(message: str) -> str:
    return message.encode()[:_REASON_BYTES_MAX].decode(errors="ignore")
