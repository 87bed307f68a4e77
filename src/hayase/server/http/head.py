"""Answers to HEAD: those to GET, without their bodies."""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send


class HeadAnswers:
    """Leaves bodies out of answers to HEAD (an ASGI middleware): over HTTP/2 the HTTP server sends what it is given.

    Args:
        app: what serves requests.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        if scope.get("method") != "HEAD":
            await self._app(scope, receive, send)
            return

        async def without_body(message: Message) -> None:
            await send({**message, "body": b""} if message["type"] == "http.response.body" else message)

        await self._app(scope, receive, without_body)
