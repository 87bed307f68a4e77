"""A response whose rows are sent as they come, and whose query ends with the connection."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from hayase.server.http.encodings.encodings import RowEncoding
from hayase.server.http.encodings.media_types import DELIMITED
from hayase.server.row_streams import ReadyRows
from hayase.server.rows import RowBatch, RowStream

EPOCH = "hayase-epoch"
"""The header that says of which epoch all rows are."""
KEEP_ALIVE_S = 1.0
"""How often something is sent while there are no rows, so that a connection that is gone is seen."""


def respond(stream: RowStream, encoding: RowEncoding, media_type: str) -> ASGIApp:
    """The response with the rows of an answer: in one piece, if they are all there."""
    if not isinstance(stream, ReadyRows):
        return RowsResponse(stream, encoding, media_type)
    body = b"".join([encoding.head(), *map(encoding.batch, stream.batches), encoding.tail()])
    epoch = stream.header.epoch
    return Response(body, headers=None if epoch is None else {EPOCH: str(epoch)}, media_type=media_type)


class RowsResponse:
    """Sends an answer (an ASGI application, for starlette's routes).

    Args:
        stream: the rows; closed when all are sent, or the client has gone.
        encoding: of the rows.
        media_type: that the encoding has.
        keep_alive_s: see KEEP_ALIVE_S.
    """

    def __init__(
        self, stream: RowStream, encoding: RowEncoding, media_type: str, keep_alive_s: float = KEEP_ALIVE_S
    ) -> None:
        self._stream = stream
        self._encoding = encoding
        self._media_type = media_type
        self._keep_alive_s = keep_alive_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send everything, unless the client goes before."""
        sending = asyncio.ensure_future(self._send(send, by_line=self._is_sent_by_line(scope)))
        watching = asyncio.ensure_future(_until_gone(receive))
        try:
            await asyncio.wait({sending, watching}, return_when=asyncio.FIRST_COMPLETED)
            if sending.done() and not sending.cancelled():
                error = sending.exception()
                if error is not None and not isinstance(error, OSError):  # an OSError: the connection is gone
                    raise error
        finally:
            for task in (sending, watching):
                task.cancel()
            await asyncio.gather(sending, watching, return_exceptions=True)
            await self._stream.close()

    def _is_sent_by_line(self, scope: Scope) -> bool:
        """Whether each row is a message of its own: a frame of HTTP/2, which some clients take for a row, as ksqlDB's.

        Scans of tables, which have many rows at once, are read as a whole by these clients.
        """
        return scope["http_version"] == "2" and self._media_type == DELIMITED and self._stream.header.has_end

    async def _send(self, send: Send, *, by_line: bool) -> None:
        headers = [(b"content-type", self._media_type.encode()), (b"cache-control", b"no-cache")]
        epoch = self._stream.header.epoch
        if epoch is not None:
            headers.append((EPOCH.encode(), str(epoch).encode()))
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": self._encoding.head(), "more_body": True})
        async for batch in with_pauses(aiter(self._stream), self._keep_alive_s):
            body = self._encoding.keep_alive() if batch is None else self._encoding.batch(batch)
            parts = body.splitlines(keepends=True) if by_line else [body]
            for part in filter(None, parts):
                await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body", "body": self._encoding.tail(), "more_body": False})


async def with_pauses(batches: AsyncIterator[RowBatch], pause_s: float) -> AsyncIterator[RowBatch | None]:
    """Batches as they come, and `None` whenever there was none for so long."""
    waiting: asyncio.Future[RowBatch] | None = None
    try:
        while True:
            if waiting is None:
                waiting = asyncio.ensure_future(anext(batches))
            done, _ = await asyncio.wait({waiting}, timeout=pause_s)
            if not done:
                yield None
                continue
            try:
                batch = waiting.result()
            except StopAsyncIteration:
                return
            waiting = None
            yield batch
    finally:
        if waiting is not None:
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
