"""Sensors that processors of the user's have made."""

from __future__ import annotations

import re
from collections.abc import Mapping

from hayase.core.errors import TopologyError
from hayase.core.metrics import LEVELS, Metrics, user_metric
from hayase.processor.metrics import RecordingLevel, Sensor, StreamsMetrics

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9._-]*")
_VALUE = re.compile(r"[A-Za-z0-9._-]+")
_OURS = ("application-id", "thread-id", "task-id")
"""Tags that all metrics have."""


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
        if level not in LEVELS:
            raise self._refused(f"recording_level is {level!r}; it is one of {', '.join(LEVELS)}")
        self._check_names(scope, operation, *tags)
        wrong = [value for value in (entity, *tags.values()) if not _matches(_VALUE, value)]
        if wrong:
            raise self._refused(
                f"{wrong[0]!r} can not be an entity or a tag's value; use letters, digits, '.', '_' and '-'"
            )
        # As Prometheus calls them: two of one name would be one.
        labels = [re.sub("[.-]", "_", tag) for tag in (*_OURS, f"{scope}-id", *tags)]
        twice = next((label for label in labels if labels.count(label) > 1), None)
        if twice is not None:
            raise self._refused(f"the tag {twice!r} is there already; choose another scope_name or another tag")
        tags = dict(sorted(tags.items()))
        latency = user_metric(scope, f"{operation}-latency", tags) if timed else None
        return _Sensor(self._metrics, level, user_metric(scope, operation, tags), latency, entity)

    def _check_names(self, *names: object) -> None:
        wrong = [name for name in names if not _matches(_NAME, name)]
        if wrong:
            raise self._refused(
                f"{wrong[0]!r} can not be a name of a metric or tag; use letters, digits, '.', '_' and '-', a letter first"
            )

    def _refused(self, message: str) -> TopologyError:
        return TopologyError("INVALID_METRIC", message, node=self._node)


def _matches(allowed: re.Pattern[str], text: object) -> bool:
    return isinstance(text, str) and allowed.fullmatch(text) is not None


class _Sensor(Sensor):
    def __init__(self, metrics: Metrics, level: RecordingLevel, name: str, latency: str | None, entity: str) -> None:
        self._metrics = metrics
        self._recorded = metrics.records(level)
        self._name = name
        self._latency = latency
        self._entity = entity

    def record(self, value: float = 1) -> None:
        if self._recorded:
            if self._latency is not None:
                self._metrics.measure_one(self._latency, self._entity, float(value))
            self._metrics.add(self._name, self._entity)

    def should_record(self) -> bool:
        return self._recorded
