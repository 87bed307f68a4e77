"""Metrics of the user, counted by processors (Kafka Streams' `StreamsMetrics`)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Literal

from hayase.core.errors import TopologyError
from hayase.core.metrics import LEVELS, Metrics, user_metric

RecordingLevel = Literal["INFO", "DEBUG", "TRACE"]
"""From which `metrics.recording.level` on something is recorded."""


_NAME = re.compile(r"[A-Za-z][A-Za-z0-9._-]*")
_VALUE = re.compile(r"[A-Za-z0-9._-]+")
_OURS = ("application-id", "thread-id", "task-id")
"""Tags that all metrics have."""


class Sensor:
    """Takes the values of one metric; from `StreamsMetrics`. Valid until the processor's `close`."""

    def __init__(
        self, metrics: Callable[[], Metrics], level: RecordingLevel, name: str, latency: str | None, entity: str
    ) -> None:
        self._metrics = metrics
        self._recorded = metrics().records(level)
        self._name = name
        self._latency = latency
        self._entity = entity

    def record(self, value: float = 1) -> None:
        """Record one value at the current time.

        `value` is how long it took, where that is measured, else it makes no difference.

        What an epoch records is reported when the epoch is complete, and only then: one that is run again after a
        crash does not count twice. Where it is measured, a value that is no number raises, as any other fault in a
        processor.
        """
        if self._recorded:
            metrics = self._metrics()
            if self._latency is not None:
                metrics.measure_one(self._latency, self._entity, float(value))
            metrics.add(self._name, self._entity)

    def should_record(self) -> bool:
        """Whether the recording level is high enough, else `record` does nothing."""
        return self._recorded


class StreamsMetrics:
    """Makes sensors of your own; from `ProcessingContext.metrics`.

    They appear beside Hayase's own in `StreamsApp.metrics()` and `/metrics`: in the group
    `stream-<scope_name>-metrics`, with the tags `thread-id`, `task-id`, `<scope_name>-id` (the entity) and those given.
    In the test driver `driver.metrics.total("<scope_name>/<operation_name>")` is how often.

    Names, and names and values of tags, have letters, digits, `.`, `_` and `-`; names of scopes, operations and tags
    begin with a letter, and no tag is one of those above. The order of tags makes no difference. Asking again for the
    same sensor is allowed.

    Example:
        >>> from hayase import Consumed, FixedKeyProcessor, Produced, Serdes, StreamsBuilder
        >>> from hayase.testing import TopologyTestDriver
        >>> class Big(FixedKeyProcessor):
        ...     def init(self, context):
        ...         self.big = context.metrics().add_rate_total_sensor("orders", "shop", "big")
        ...
        ...     def process(self, record):
        ...         if record.value > 1000:
        ...             self.big.record()
        >>> builder = StreamsBuilder()
        >>> _ = builder.stream("in", Consumed.with_(Serdes.string(), Serdes.long())).process_values(Big)
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     source = driver.create_input_topic("in", Serdes.string(), Serdes.long())
        ...     source.pipe_value_list([5, 5000, 7000])
        ...     driver.metrics.total("orders/big")
        2
    """

    def __init__(self, metrics: Callable[[], Metrics], node: str) -> None:
        self._metrics = metrics  # those of the epoch at work
        self._node = node

    def add_rate_total_sensor(
        self,
        scope_name: str,
        entity_name: str,
        operation_name: str,
        recording_level: RecordingLevel = "INFO",
        **tags: str,
    ) -> Sensor:
        """Counts: `<operation_name>-total` and `<operation_name>-rate`, per second.

        Raises:
            TopologyError: `INVALID_METRIC`: a name or tag with other characters, a tag that is there already, or an
                unknown level.
        """
        return self._made(scope_name, entity_name, operation_name, recording_level, tags, timed=False)

    def add_latency_rate_total_sensor(
        self,
        scope_name: str,
        entity_name: str,
        operation_name: str,
        recording_level: RecordingLevel = "INFO",
        **tags: str,
    ) -> Sensor:
        """As `add_rate_total_sensor`, with `<operation_name>-latency-avg` and `<operation_name>-latency-max`."""
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
                f"{wrong[0]!r} cannot be an entity or a tag's value; use letters, digits, '.', '_' and '-'"
            )
        # As Prometheus calls them: two of one name would be one.
        labels = [re.sub("[.-]", "_", tag) for tag in (*_OURS, f"{scope}-id", *tags)]
        twice = next((label for label in labels if labels.count(label) > 1), None)
        if twice is not None:
            raise self._refused(f"the tag {twice!r} is there already; choose another scope_name or another tag")
        tags = dict(sorted(tags.items()))
        latency = user_metric(scope, f"{operation}-latency", tags) if timed else None
        return Sensor(self._metrics, level, user_metric(scope, operation, tags), latency, entity)

    def _check_names(self, *names: object) -> None:
        wrong = [name for name in names if not _matches(_NAME, name)]
        if wrong:
            raise self._refused(
                f"{wrong[0]!r} cannot be a name of a metric or tag; use letters, digits, '.', '_' and '-', a letter "
                "first"
            )

    def _refused(self, message: str) -> TopologyError:
        return TopologyError("INVALID_METRIC", message, node=self._node)


def _matches(allowed: re.Pattern[str], text: object) -> bool:
    return isinstance(text, str) and allowed.fullmatch(text) is not None
