"""Requests to an ASGI application without a connection, whose answers are read as they come."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from starlette.types import ASGIApp, Message

_TIMEOUT_S = 20.0
HOST = b"127.0.0.1:8088"


class Answer:
    """The answer to a request: status and headers are known, the body comes."""

    def __init__(self, messages: asyncio.Queue[Message | None]) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self._messages = messages
        self._rest = b""
        self._ended = False

    async def begin(self) -> None:
        message = await self._next()
        assert message is not None
        assert message["type"] == "http.response.start"
        self.status = message["status"]
        self.headers = {name.decode().lower(): value.decode() for name, value in message["headers"]}

    async def body(self) -> bytes:
        """All of the body."""
        parts = [self._rest]
        while (part := await self._part()) is not None:
            parts.append(part)
        return b"".join(parts)

    async def json(self) -> Any:
        return json.loads(await self.body())

    async def line(self) -> str | None:
        """The next line that is not empty; `None` behind the last one."""
        while True:
            line, found, rest = self._rest.partition(b"\n")
            if found:
                self._rest = rest
                if line.strip():
                    return line.decode()
                continue
            part = await self._part()
            if part is None:
                self._rest = b""
                return line.decode() if line.strip() else None
            self._rest += part

    async def _part(self) -> bytes | None:
        if self._ended:
            return None
        message = await self._next()
        if message is None:
            self._ended = True
            return None
        self._ended = not message.get("more_body", False)
        body: bytes = message.get("body", b"")
        return body

    async def _next(self) -> Message | None:
        return await asyncio.wait_for(self._messages.get(), _TIMEOUT_S)


def _raw(headers: dict[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.lower().encode(), value.encode()) for name, value in headers.items()]


@asynccontextmanager
async def request(
    app: ASGIApp, path: str, body: Any = None, headers: dict[str, str] | None = None, method: str = "POST"
) -> AsyncIterator[Answer]:
    """Send a request; at the end of the block the client is gone."""
    content = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "http_version": "1.1",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "scheme": "http",
        "client": ("127.0.0.1", 5000),
        "server": ("127.0.0.1", 8088),
        "headers": [
            (b"host", HOST),
            *((name.lower().encode(), value.encode()) for name, value in (headers or {}).items()),
        ],
    }
    gone = asyncio.Event()
    sent: list[Message] = [{"type": "http.request", "body": content, "more_body": False}]
    messages: asyncio.Queue[Message | None] = asyncio.Queue()

    async def receive() -> Message:
        if sent:
            return sent.pop()
        await gone.wait()
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        if gone.is_set():
            raise OSError("the client is gone")
        messages.put_nowait(message)

    async def serve() -> None:
        try:
            await app(scope, receive, send)
        finally:
            messages.put_nowait(None)

    serving = asyncio.create_task(serve())
    answer = Answer(messages)
    try:
        await answer.begin()
        yield answer
    finally:
        gone.set()
        await asyncio.wait_for(asyncio.gather(serving, return_exceptions=True), _TIMEOUT_S)


async def ask(app: ASGIApp, path: str, body: Any = None, **options: Any) -> tuple[int, Any]:
    """Status and JSON of a whole answer."""
    async with request(app, path, body, **options) as answer:
        return answer.status, await answer.json()
