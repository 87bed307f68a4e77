"""POST /inserts-stream: rows line by line, each acknowledged in order, on a line of its own or as one array."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from hayase.core.decoding import decode_json
from hayase.server.context import ServerContext
from hayase.server.errors import BAD_JSON, BAD_REQUEST, BODY_TOO_LARGE, RequestError
from hayase.server.http.access import require_role
from hayase.server.http.encodings.accepted import accepted
from hayase.server.http.encodings.media_types import DELIMITED, JSON
from hayase.server.http.errors import error_answer, error_response
from hayase.server.json_inserts import RowInserts
from hayase.server.security.users import Role

_OFFERED = (DELIMITED, JSON)


class _Target(msgspec.Struct):
    target: str


def routes(context: ServerContext) -> list[BaseRoute]:
    """The endpoint."""
    limit = context.settings.max_body_bytes

    async def inserts_stream(request: Request) -> ASGIApp:
        lines = _lines(request, limit)
        try:
            require_role(request.scope, Role.WRITE)
            first = await anext(lines, b"")
            try:
                target = decode_json(first, as_type=_Target).target
            except BAD_JSON as error:
                raise RequestError(
                    BAD_REQUEST, "BAD_REQUEST", f'the first line is not {{"target": NAME}}: {error}'
                ) from error
            inserts = await asyncio.to_thread(RowInserts, context, target)
        except Exception as error:
            return error_response(error)
        return _Acknowledgements(lines, inserts, accepted(request.headers.get("accept", ""), _OFFERED))

    return [Route("/inserts-stream", inserts_stream, methods=["POST"])]


class _Acknowledgements:
    """Sends a line for each row while rows still come.

    starlette's own streaming response reads the request too, to see that the client has gone, and would take rows away.

    Args:
        lines: of the request, behind the first one.
        inserts: takes the rows.
        media_type: of the answer; in JSON the lines are elements of an array.
    """

    def __init__(self, lines: AsyncIterator[bytes], inserts: RowInserts, media_type: str) -> None:
        self._lines = lines
        self._inserts = inserts
        self._media_type = media_type

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = [(b"content-type", self._media_type.encode())]
        is_array = self._media_type == JSON
        before, end = (b"[", b"[]\n") if is_array else (b"", b"")
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        async for acknowledgement in _acknowledged(self._lines, self._inserts):
            line = before + msgspec.json.encode(acknowledgement) + b"\n"
            await send({"type": "http.response.body", "body": line, "more_body": True})
            before, end = (b",", b"]\n") if is_array else (b"", b"")
        await send({"type": "http.response.body", "body": end, "more_body": False})


async def _acknowledged(lines: AsyncIterator[bytes], inserts: RowInserts) -> AsyncIterator[dict[str, object]]:
    """What is answered for each row; the first error is the last one."""
    sequence = 0
    try:
        async for line in lines:
            await asyncio.to_thread(inserts.insert, line)
            yield {"status": "ok", "seq": sequence}
            sequence += 1
    except ClientDisconnect:
        return
    except Exception as error:
        yield {**error_answer(error)[1], "status": "error", "seq": sequence}


async def _lines(request: Request, limit: int) -> AsyncIterator[bytes]:
    """The lines of a body as they come; a line has a bounded length, the body has not."""
    rest = b""
    async for chunk in request.stream():
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            if line.strip():
                yield line
        if len(rest) > limit:
            raise RequestError(
                BODY_TOO_LARGE,
                "BODY_TOO_LARGE",
                f"A row has more than {limit} bytes, which hayase.server.max.body.bytes allows",
            )
    if rest.strip():
        yield rest
