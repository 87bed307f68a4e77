"""`/webhooks/NAME…`: requests for the connector NAME, forwarded to where its task listens, in any slot."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from urllib.parse import quote, unquote
from weakref import WeakKeyDictionary

import httpx2
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from hayase.connect.herder.herder import Herder
from hayase.connect.herder.states import HerderError
from hayase.connect.request_body import read_body
from hayase.connect.rest.requests import error_answer

PREFIX = "/webhooks/"
_METHODS = ["POST", "PUT"]
_PATIENCE_S = 10.0
"""How long a request waits for a task that is being started elsewhere."""
_AGAIN_S = 0.1
_ANSWER_S = 300.0
"""A connector answers earlier (`answer.timeout.ms`)."""
_NOT_FORWARDED = frozenset(
    (
        "authorization",  # the worker's
        "connection",
        "content-length",
        "host",
        "keep-alive",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    )
)


class Webhooks:
    """Forwards requests.

    Args:
        herder: knows where tasks listen.
        max_bytes: of a body, whatever a connector allows.
    """

    def __init__(self, herder: Herder, max_bytes: int) -> None:
        self._herder = herder
        self._max_bytes = max_bytes
        self._clients: WeakKeyDictionary[asyncio.AbstractEventLoop, httpx2.AsyncClient] = WeakKeyDictionary()

    def routes(self) -> list[Route]:
        """Of all methods that connectors take."""
        paths = [f"{PREFIX}{{name}}", f"{PREFIX}{{name}}/{{rest:path}}"]
        return [
            Route(path, self._forward, methods=[method], name=f"{method} {path}")
            for path in paths
            for method in _METHODS
        ]

    def checks_signatures(self, path: str) -> bool:
        """Whether a path is that of a connector whose requests are signed, so that they need no password."""
        name = unquote(path.removeprefix(PREFIX).partition("/")[0])
        return path.startswith(PREFIX) and self._herder.checks_signatures(name)

    async def _forward(self, request: Request) -> Response:
        name = unquote(request.path_params["name"])
        try:
            runner = self._herder.runner(name)
        except HerderError as error:
            return error_answer(error.status, error.message)
        body = await read_body(request, self._max_bytes)
        if body is None:
            return error_answer(413, f"the body has more than rest.request.max.bytes={self._max_bytes}")
        headers = [(key, value) for key, value in request.headers.items() if key not in _NOT_FORWARDED]
        rest = unquote(request.path_params.get("rest", ""))
        behind = f"/{quote(rest)}" if rest else ""
        deadline = asyncio.get_running_loop().time() + _PATIENCE_S
        while True:
            answer = await self._ask(request.method, runner.address, behind, headers, body)
            if answer is not None:
                return answer
            if asyncio.get_running_loop().time() > deadline:
                refused = error_answer(503, f"the connector {name} does not take requests now; repeat it later")
                refused.headers["Retry-After"] = "5"
                return refused
            await asyncio.sleep(_AGAIN_S)

    async def _ask(
        self,
        method: str,
        address: Callable[[], str | None],
        behind: str,
        headers: list[tuple[str, str]],
        body: bytes,
    ) -> Response | None:
        """The connector's answer; `None` if it was not reached, so that the request may be sent again."""
        url = address()
        if url is None:
            return None
        if behind:
            url = url.rstrip("/") + behind
        loop = asyncio.get_running_loop()  # each listener has one
        if loop not in self._clients:
            self._clients[loop] = httpx2.AsyncClient(timeout=_ANSWER_S, trust_env=False)
        try:
            answer = await self._clients[loop].request(method, url, headers=headers, content=body)
        except httpx2.ConnectError:
            return None
        except httpx2.HTTPError:  # it may have its record: only its client can repeat it, under the same name
            return error_answer(503, "the connector ended before it answered; repeat the request with the same name")
        return Response(answer.content, answer.status_code, _answered(answer.headers))


def _answered(headers: Mapping[str, str]) -> dict[str, str]:
    return {key: headers[key] for key in ("content-type", "retry-after") if key in headers}
