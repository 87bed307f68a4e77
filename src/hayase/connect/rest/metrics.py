"""Metrics of a worker in Prometheus' format, under the names of Kafka Connect."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from hayase.connect.herder.herder import Herder

_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_COUNTER = "-total"


class _TaskMetrics(Collector):
    """The metrics of all tasks, as of the moment."""

    def __init__(self, herder: Herder) -> None:
        self._herder = herder

    def collect(self) -> Iterable[Metric]:
        """Families of metrics, each with a sample for each task."""
        families: dict[str, GaugeMetricFamily | CounterMetricFamily] = {}
        for connector, tasks in self._herder.metrics().items():
            for task, metrics in tasks.items():
                for name, value in metrics.items():
                    family = families.get(name)
                    if family is None:
                        family = families[name] = _family(name)
                    family.add_metric([connector, str(task)], value)
        yield from families.values()
        yield self._states()

    def _states(self) -> GaugeMetricFamily:
        states = GaugeMetricFamily(
            "kafka_connect_status", "1 for the state of a connector or task", labels=["connector", "task", "state"]
        )
        for name, (connector, tasks) in self._herder.states().items():
            states.add_metric([name, "", connector], 1)
            for task, state in tasks.items():
                states.add_metric([name, str(task), state], 1)
        return states


def _family(name: str) -> GaugeMetricFamily | CounterMetricFamily:
    plain = "kafka_connect_" + name.removesuffix(_COUNTER).lower().replace("-", "_")
    documentation = f"{name} of Kafka Connect"
    labels = ["connector", "task"]
    if name.endswith(_COUNTER):
        return CounterMetricFamily(plain, documentation, labels=labels)
    return GaugeMetricFamily(plain, documentation, labels=labels)


def metrics_route(herder: Herder) -> Route:
    """`GET /metrics`."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_TaskMetrics(herder))

    async def answer(request: Request) -> Response:
        del request
        return Response(await run_in_threadpool(generate_latest, registry), media_type=_TYPE)

    return Route("/metrics", answer, methods=["GET"])
