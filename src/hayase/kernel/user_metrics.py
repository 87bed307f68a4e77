"""Sensors that processors of the user's have made."""

from __future__ import annotations

import re
from collections.abc import Mapping

from hayase.core.errors import TopologyError
from hayase.core.metrics import LEVELS, Metrics, user_metric
from hayase.processor.metrics import RecordingLevel, Sensor, StreamsMetrics

_ALLOWED = re.compile(r"[A-Za-z0-9._-]+")


class UserMetrics(StreamsMetrics):
    """See StreamsMetrics.

    Args:
        metrics: of the task in this epoch.
        node: of the processor, for errors.
    """

    def __init__(self, metrics: Metrics, node: str) -> None:
        self._metrics = metrics
        self._node = node

    def add_rate_total_sensor(
        self,
        scope_name: str,
        entity_name: str,
        operation_name: str,
        recording_level: RecordingLevel = "INFO",
        **tags: str,
    ) -> Sensor:
        """See StreamsMetrics."""
        return self._made(scope_name, entity_name, operation_name, recording_level, tags, timed=False)

    def add_latency_rate_total_sensor(
        self,
        scope_name: str,
        entity_name: str,
        operation_name: str,
        recording_level: RecordingLevel = "INFO",
        **tags: str,
    ) -> Sensor:
        """See StreamsMetrics."""
        return self._made(scope_name, entity_name, operation_name, recording_level, tags, timed=True)

    def _made(
        self, scope: str, entity: str, operation: str, level: RecordingLevel, tags: Mapping[str, str], *, timed: bool
    ) -> Sensor:
        self._check(level, scope, entity, operation, *tags, *tags.values())
        latency = user_metric(scope, f"{operation}-latency", tags) if timed else None
        return _Sensor(self._metrics, level, user_metric(scope, operation, tags), latency, entity)

    def _check(self, level: object, *names: object) -> None:
        if level not in LEVELS:
            raise TopologyError(
                "INVALID_METRIC",
                f"recording_level is {level!r}; it is one of {', '.join(LEVELS)}",
                node=self._node,
            )
        wrong = [name for name in names if not isinstance(name, str) or not _ALLOWED.fullmatch(name)]
        if wrong:
            raise TopologyError(
                "INVALID_METRIC",
                f"{wrong[0]!r} can not be part of a metric's name or tags; use letters, digits, '.', '_' and '-'",
                node=self._node,
            )


class _Sensor(Sensor):
    def __init__(self, metrics: Metrics, level: RecordingLevel, name: str, latency: str | None, entity: str) -> None:
        self._metrics = metrics
        self._recorded = metrics.records(level)
        self._name = name
        self._latency = latency
        self._entity = entity

    def record(self, value: float = 1) -> None:
        if self._recorded:
            self._metrics.add(self._name, self._entity)
            if self._latency is not None:
                self._metrics.measure_one(self._latency, self._entity, value)

    def should_record(self) -> bool:
        return self._recorded
