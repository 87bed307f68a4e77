"""The REST interface as one ASGI application."""

from __future__ import annotations

from prometheus_client import CollectorRegistry
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from hayase.server.context import ServerContext
from hayase.server.errors import RequestError
from hayase.server.http import info, inserts_stream, ksql, metrics, query, query_stream, status, ws_query
from hayase.server.http.access import AccessChecks
from hayase.server.http.errors import error_response
from hayase.server.http.head import HeadAnswers
from hayase.server.http.timing import Timing

_ENDPOINTS = (query_stream, query, ksql, ws_query, inserts_stream, status, info)
"""Those that are called most often are tried first."""


def make_app(context: ServerContext) -> Starlette:
    """The application of a server; it serves HTTP and WebSocket."""
    settings = context.settings
    registry = CollectorRegistry()
    middleware = [
        Middleware(HeadAnswers),
        Middleware(Timing, registry),
        Middleware(AccessChecks, settings, context.users),
    ]
    if settings.allowed_origins:
        origins, everything = list(settings.allowed_origins), ["*"]
        cors = Middleware(CORSMiddleware, allow_origins=origins, allow_methods=everything, allow_headers=everything)
        middleware.insert(0, cors)
    return Starlette(
        routes=[*metrics.routes(context, registry), *(route for each in _ENDPOINTS for route in each.routes(context))],
        middleware=middleware,
        exception_handlers={404: _not_found, RequestError: _refused, Exception: _failed},
    )


async def _not_found(request: Request, error: Exception) -> Response:
    return PlainTextResponse("Not Found", 404)


async def _refused(request: Request, error: Exception) -> Response:
    return error_response(error)


async def _failed(request: Request, error: Exception) -> Response:
    return error_response(error)
