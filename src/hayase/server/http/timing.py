"""How long answers take, by endpoint, for /metrics."""

from __future__ import annotations

import time

from prometheus_client import CollectorRegistry, Counter, Histogram
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_ENDPOINTS = frozenset(
    {"/ksql", "/query", "/query-stream", "/inserts-stream", "/close-query", "/info", "/healthcheck", "/status"}
)


class Timing:
    """Measures requests (an ASGI middleware): until the answer begins, and with which status.

    Args:
        app: what serves them.
        registry: of the numbers.
    """

    def __init__(self, app: ASGIApp, registry: CollectorRegistry) -> None:
        self._app = app
        self._seconds = Histogram(
            "hayase_sql_request_seconds",
            "Time until an answer begins",
            ["endpoint"],
            registry=registry,
            buckets=_BUCKETS_S,
        )
        self._requests = Counter("hayase_sql_requests", "Requests", ["endpoint", "status"], registry=registry)
        self._by_answer: dict[tuple[str, int], tuple[Histogram, Counter]] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        endpoint = scope["path"] if scope["path"] in _ENDPOINTS else "other"
        started_s = time.perf_counter()

        async def timed(message: Message) -> None:
            if message["type"] == "http.response.start":
                seconds, requests = self._numbers_of(endpoint, message["status"])
                seconds.observe(time.perf_counter() - started_s)
                requests.inc()
            await send(message)

        await self._app(scope, receive, timed)

    def _numbers_of(self, endpoint: str, status: int) -> tuple[Histogram, Counter]:
        """The numbers of such answers; finding them by their labels takes longer than counting."""
        found = self._by_answer.get((endpoint, status))
        if found is None:
            found = self._seconds.labels(endpoint), self._requests.labels(endpoint, str(status))
            self._by_answer[endpoint, status] = found
        return found
