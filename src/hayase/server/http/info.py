"""What the server says about itself: /info, health, the cluster of one host, settings, metadata."""

from __future__ import annotations

import asyncio
import time
from importlib import metadata

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from hayase.core.errors import HayaseError
from hayase.server.context import ServerContext
from hayase.server.errors import INTERNAL_ENDPOINT, RequestError
from hayase.server.hosts.protocol import QueryState
from hayase.server.http.errors import error_response, json_response
from hayase.server.overrides import check_override

SHOWN_VERSION = "0.29.0"
"""The version of ksqlDB whose interface this is: clients refuse versions that they cannot read."""


class _Health:
    """The answer of /healthcheck, kept for a while."""

    def __init__(self, context: ServerContext) -> None:
        self._context = context
        self._answer: dict[str, object] = {}
        self._until_s = 0.0

    def answer(self) -> dict[str, object]:
        """How the parts of the server are."""
        now_s = time.monotonic()
        if now_s >= self._until_s:
            self._answer = self._ask()
            self._until_s = now_s + self._context.settings.healthcheck_interval_ms / 1000
        return self._answer

    def _ask(self) -> dict[str, object]:
        context = self._context
        try:
            context.log.topics()
            reaches_log = True
        except HayaseError:
            reaches_log = False
        details = {
            "metastore": {"isHealthy": True},
            "kafka": {"isHealthy": reaches_log},
            "commandRunner": {"isHealthy": context.commands.problem is None},
            "queryHost": {"isHealthy": context.host.problem() is None},
        }
        healthy = all(part["isHealthy"] for part in details.values())
        return {"isHealthy": healthy, "details": details, "serverState": "READY"}


def routes(context: ServerContext) -> list[BaseRoute]:
    """The endpoints."""
    health = _Health(context)
    settings = context.settings
    cluster_id = {"kafka-cluster": _log_id(context), "ksql-cluster": settings.service_id}

    async def info(request: Request) -> Response:
        answer = {
            "version": SHOWN_VERSION,
            "kafkaClusterId": _log_id(context),
            "ksqlServiceId": settings.service_id,
            "serverStatus": context.status,
            "hayaseVersion": metadata.version("hayase"),
        }
        return json_response({"KsqlServerInfo": answer})

    async def root(request: Request) -> Response:
        return RedirectResponse("/info", 307)

    async def healthcheck(request: Request) -> Response:
        answer = await asyncio.to_thread(health.answer)
        return json_response(answer, 200 if answer["isHealthy"] else 500)

    async def ready(request: Request) -> Response:
        return json_response({})

    async def cluster_status(request: Request) -> Response:
        return json_response({"clusterStatus": await asyncio.to_thread(_cluster, context)})

    async def is_valid_property(request: Request) -> Response:
        try:
            check_override(request.path_params["name"], settings)
        except HayaseError as error:
            return error_response(error)
        return json_response(True)

    async def metadata_of(request: Request) -> Response:
        scope = {"scope": {"path": [], "clusters": cluster_id}, "id": ""}
        if request.url.path.endswith("/id"):
            return json_response(scope)
        return json_response({"version": SHOWN_VERSION, "clusterId": scope})

    async def internal(request: Request) -> Response:
        return error_response(
            RequestError(INTERNAL_ENDPOINT, "INTERNAL_ENDPOINT", "The server has one node, which asks no other")
        )

    return [
        Route("/", root),
        Route("/info", info),
        Route("/healthcheck", healthcheck),
        Route("/chc/ready", ready),
        Route("/chc/live", ready),
        Route("/clusterStatus", cluster_status),
        Route("/is_valid_property/{name:path}", is_valid_property),
        Route("/v1/metadata", metadata_of),
        Route("/v1/metadata/id", metadata_of),
        Route("/heartbeat", internal, methods=["POST"]),
        Route("/lag", internal, methods=["POST"]),
    ]


def _log_id(context: ServerContext) -> str:
    """What tells one cluster of topics from another, for clients that show it."""
    servers = context.settings.runtime.get("bootstrap.servers")
    return str(servers) if servers else "embedded"


def _cluster(context: ServerContext) -> dict[str, object]:
    listener = context.settings.listener
    now_ms = context.clock.now_ms()
    active = {}
    lags = {}
    for query in context.engine.queries.values():
        status = context.host.status(query.id)
        stores = sorted(query.topology.stores)
        if stores and status.state in (QueryState.RUNNING, QueryState.PAUSED):
            places = [{"topic": place.topic, "partition": place.partition} for place in status.positions or ()]
            active[query.id] = {
                "activeStores": stores,
                "activePartitions": places,
                "standByStores": [],
                "standByPartitions": [],
            }
            lags[f"{query.id}#{stores[0]}"] = {"lagByPartition": {}, "size": 0}
    return {
        f"{listener.host}:{listener.port}": {
            "hostAlive": True,
            "lastStatusUpdateMs": now_ms,
            "activeStandbyPerQuery": active,
            "hostStoreLags": {"stateStoreLags": lags, "updateTimeMs": now_ms},
        }
    }
