"""GET /metrics: numbers for Prometheus."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from hayase.server.context import ServerContext
from hayase.server.hosts.protocol import QueryState

_TEXT = "text/plain; version=0.0.4; charset=utf-8"


def routes(context: ServerContext, registry: CollectorRegistry) -> list[BaseRoute]:
    """The endpoint: the numbers of a registry, and those of the server."""
    registry.register(_ServerMetrics(context))
    for times in (context.times.pull, context.times.push):
        registry.register(times)

    async def metrics(request: Request) -> Response:
        return Response(await asyncio.to_thread(generate_latest, registry), media_type=_TEXT)

    return [Route("/metrics", metrics)]


class _ServerMetrics(Collector):
    """The numbers of a server as they are now."""

    def __init__(self, context: ServerContext) -> None:
        self._context = context

    def collect(self) -> Iterator[Metric]:
        """See prometheus_client."""
        context = self._context
        yield _gauge("hayase_sql_uptime_seconds", "How long the server runs", time.monotonic() - context.started_s)
        yield _gauge("hayase_sql_degraded", "1: no command is carried out", int(context.commands.problem is not None))
        yield _gauge("hayase_sql_persistent_queries", "Persistent queries", len(context.engine.queries))
        yield _gauge("hayase_sql_push_queries", "Push queries that run", len(context.push_queries))
        yield _gauge("hayase_sql_last_command", "Number of the last command", context.commands.last_sequence)
        inserted = CounterMetricFamily("hayase_sql_inserted_records", "Records of INSERT … VALUES and /inserts-stream")
        inserted.add_metric([], context.inserts.written)
        yield inserted
        ended = CounterMetricFamily("hayase_sql_python_processes_ended", "Processes of functions that took too long")
        ended.add_metric([], context.python_calls.ended)
        yield ended
        yield from self._of_queries()

    def _of_queries(self) -> Iterator[Metric]:
        context = self._context
        states = GaugeMetricFamily("hayase_sql_query_state", "1 for the state of a query", labels=["query", "state"])
        consumed = CounterMetricFamily("hayase_sql_query_consumed_records", "Records read", labels=["query"])
        produced = CounterMetricFamily("hayase_sql_query_produced_records", "Records written", labels=["query"])
        errors = GaugeMetricFamily("hayase_sql_query_errors", "Failures that are remembered", labels=["query"])
        lags = GaugeMetricFamily("hayase_sql_query_lag_records", "Records that wait", labels=["query"])
        for query_id in list(context.engine.queries):
            status = context.host.status(query_id)
            for state in QueryState:
                states.add_metric([query_id, state.value], int(state is status.state))
            consumed.add_metric([query_id], status.consumed)
            produced.add_metric([query_id], status.produced)
            errors.add_metric([query_id], len(status.errors))
            if status.lag is not None:
                lags.add_metric([query_id], status.lag)
        yield from (states, consumed, produced, errors, lags)


def _gauge(name: str, text: str, value: float) -> Metric:
    gauge = GaugeMetricFamily(name, text)
    gauge.add_metric([], value)
    return gauge
