"""Metrics of the user's, counted by processors (Kafka Streams' `StreamsMetrics`)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Literal

RecordingLevel = Literal["INFO", "DEBUG", "TRACE"]
"""From which `metrics.recording.level` on something is recorded."""


class Sensor(ABC):
    """Takes the values of one metric. Good until the processor's `close`."""

    @abstractmethod
    def record(self, value: float = 1) -> None:
        """Something happened once more; `value` is how long it took, where that is measured, else it makes no difference.

        What an epoch records is reported when the epoch came through, and only then: one that is run again after a crash
        does not count twice. Where it is measured, a value that is no number raises, as any other fault in a processor.
        """

    @abstractmethod
    def should_record(self) -> bool:
        """Whether the recording level is high enough, else `record` does nothing."""


class StreamsMetrics(ABC):
    """Makes sensors of your own; from `ProcessingContext.metrics`.

    They appear beside Hayase's own in `StreamsApp.metrics()` and `/metrics`: in the group `stream-<scope_name>-metrics`, with
    the tags `thread-id`, `task-id`, `<scope_name>-id` (the entity) and those given. In the test driver
    `driver.metrics.total("<scope_name>/<operation_name>")` is how often.

    Names, and names and values of tags, have letters, digits, `.`, `_` and `-`; names of scopes, operations and tags begin with
    a letter, and no tag is one of those above. The order of tags makes no difference. Asking again for the same sensor is allowed.

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

    @abstractmethod
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
            TopologyError: `INVALID_METRIC`: a name or tag with other characters, a tag that is there already, or an unknown level.
        """

    @abstractmethod
    def add_latency_rate_total_sensor(
        self,
        scope_name: str,
        entity_name: str,
        operation_name: str,
        recording_level: RecordingLevel = "INFO",
        **tags: str,
    ) -> Sensor:
        """As `add_rate_total_sensor`, and of the values `<operation_name>-latency-avg` and `<operation_name>-latency-max`."""
