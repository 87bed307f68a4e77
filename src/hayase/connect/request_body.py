"""Bodies of HTTP requests, up to a size."""

from __future__ import annotations

from starlette.requests import Request


async def read_body(request: Request, max_bytes: int) -> bytes | None:
    """The body; `None` if it is larger, in which case the rest of it is not read."""
    data = bytearray()
    async for chunk in request.stream():
        data += chunk
        if len(data) > max_bytes:
            return None
    return bytes(data)
