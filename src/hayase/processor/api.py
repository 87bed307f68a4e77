"""The Processor API: code of yours that sees every record, reads and writes stores, and is called as time goes on.

Kafka Streams: `org.apache.kafka.streams.processor.api`, KIP-478 (typed forwards), KIP-820 (`process` in the DSL).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from enum import Enum
from typing import Any, Generic, Protocol

import msgspec

from hayase.core.records import Headers, Record, RecordMetadata
from hayase.core.type_variables import KR, VR, K, V
from hayase.processor.metrics import StreamsMetrics


class PunctuationType(Enum):
    """The clock by which a punctuation is due."""

    STREAM_TIME = "stream_time"
    """The greatest timestamp among the records that the task has read: it stands still without records."""
    WALL_CLOCK_TIME = "wall_clock_time"
    """The clock of the epoch; an epoch is begun for it even if there are no records."""


Punctuator = Callable[[int], None]
"""Called with the time that it is: the task's stream time, or the wall clock, in milliseconds (UTC)."""


class Cancellable(Protocol):
    """A scheduled punctuation, which can be cancelled."""

    def cancel(self) -> None:
        """Cancel the punctuation, for as long as this processor lives."""
        ...


class FixedKeyRecord(msgspec.Struct, Generic[K, V], frozen=True, gc=False):
    """A record whose key cannot be changed (KIP-820): what a `FixedKeyProcessor` is given, and sends on.

    Made from the one that came in, by its `with_…` methods.
    """

    key: K
    value: V
    timestamp_ms: int
    headers: Headers = ()

    def with_value(self, value: VR) -> FixedKeyRecord[K, VR]:
        """A copy of the record with another value."""
        return FixedKeyRecord(self.key, value, self.timestamp_ms, self.headers)

    def with_timestamp(self, timestamp_ms: int) -> FixedKeyRecord[K, V]:
        """A copy of the record at another time."""
        return FixedKeyRecord(self.key, self.value, timestamp_ms, self.headers)

    def with_headers(self, headers: Headers) -> FixedKeyRecord[K, V]:
        """A copy of the record with other headers."""
        return FixedKeyRecord(self.key, self.value, self.timestamp_ms, headers)


class ProcessingContext(ABC):
    """The common context of all kinds of processors: stores, time, settings, metrics."""

    @property
    @abstractmethod
    def application_id(self) -> str:
        """The setting `application.id`."""

    @abstractmethod
    def app_configs(self) -> Mapping[str, Any]:
        """The settings of the application as they were given, by name.

        Those of `StreamsConfig`, and your own, which begin with `app.`.

        Not in it: settings of Kafka's clients, of the schema registry and of Spark, and what was left at its default.
        References to secrets, such as `${env:NAME}`, are looked up in the process that asks.

        Raises:
            ConfigError: `SECRET_NOT_FOUND`: what a reference names is not there.

        Example:
            >>> from hayase import Consumed, FixedKeyProcessor, Produced, Serdes, StreamsBuilder
            >>> from hayase.testing import TopologyTestDriver
            >>> class AtLeast(FixedKeyProcessor):
            ...     def init(self, context):
            ...         self.context, self.least = context, context.app_configs()["app.least"]
            ...
            ...     def process(self, record):
            ...         if record.value >= self.least:
            ...             self.context.forward(record)
            >>> builder = StreamsBuilder()
            >>> numbers = builder.stream("in", Consumed.with_(Serdes.string(), Serdes.long()))
            >>> numbers.process_values(AtLeast).to("out", Produced.with_(Serdes.string(), Serdes.long()))
            >>> with TopologyTestDriver(builder.build(), {"app.least": 3}) as driver:
            ...     source = driver.create_input_topic("in", Serdes.string(), Serdes.long())
            ...     source.pipe_input("a", 2), source.pipe_input("b", 3)
            ...     driver.create_output_topic("out", Serdes.string(), Serdes.long()).read_key_values_to_list()
            (None, None)
            [('b', 3)]
        """

    @abstractmethod
    def app_configs_with_prefix(self, prefix: str) -> Mapping[str, Any]:
        """Those of `app_configs` that begin with a prefix, under the rest of their names; raises as `app_configs`."""

    @property
    @abstractmethod
    def task_id(self) -> str:
        """The task: number of the sub-topology and partition, `0_1`."""

    @abstractmethod
    def metrics(self) -> StreamsMetrics:
        """Where metrics of your own are made."""

    @abstractmethod
    def get_state_store(self, name: str) -> Any:
        """A store that the processor is connected with, to read and write; of a global table, to read.

        The object is valid until `close`. A store of the DSL gives and takes `ValueAndTimestamp`, a versioned one
        gives `VersionedRecord` and takes a timestamp with each write.

        Raises:
            UnknownStoreError: the processor is not connected with it.
        """

    @abstractmethod
    def schedule(
        self,
        interval: timedelta,
        type: PunctuationType,  # noqa: A002 - Kafka Streams' name
        callback: Punctuator,
        start_time: datetime | None = None,
    ) -> Cancellable:
        """Have a function called again and again.

        By stream time after the record that made it due, by the wall clock after the epoch's records.

        However many intervals have passed, it is called once, and next time at the next multiple. When it is due next
        is kept with the state of the task, for what is scheduled in `init`: a restart changes nothing.

        Args:
            interval: at least a millisecond.
            type: see PunctuationType.
            callback: see Punctuator. It may read and write stores, and forward.
            start_time: when it is due first, from which the intervals count (KIP-1146). By default with the first
                record (stream time; intervals count from 1970), or after one interval (wall clock).

        Raises:
            TopologyError: an interval below a millisecond, a start without time zone.
        """

    @abstractmethod
    def record_metadata(self) -> RecordMetadata | None:
        """Where the current record was read.

        `None` in `init`, in a punctuation, and for what a cache sends at the end of an epoch.
        """

    @abstractmethod
    def current_stream_time_ms(self) -> int:
        """The greatest timestamp among the records that the task has read, this one included; -1 before the first."""

    @abstractmethod
    def current_system_time_ms(self) -> int:
        """The wall clock of the epoch: the same for all its records, also when it is computed again."""

    def commit(self) -> None:  # noqa: B027 - nothing to do, and nothing to override
        """Ask for a commit soon. Every epoch is one, and it ends by itself: nothing is to be done."""


class ProcessorContext(ProcessingContext, Generic[KR, VR]):
    """The context of a `Processor`: stores, time, settings, and the nodes downstream."""

    @abstractmethod
    def forward(self, record: Record[KR, VR], child_name: str | None = None) -> None:
        """Send a record to all children, or to one of them; they have handled it when this returns.

        Raises:
            TopologyError: there is no child of that name.
        """


class FixedKeyProcessorContext(ProcessingContext, Generic[K, VR]):
    """The context of a `FixedKeyProcessor`: stores, time, settings, and the nodes downstream."""

    @abstractmethod
    def forward(self, record: FixedKeyRecord[K, VR], child_name: str | None = None) -> None:
        """Send a record to all children, or to one of them; they have handled it when this returns.

        Raises:
            TopologyError: there is no child of that name, or this is no `FixedKeyRecord`.
        """


class Processor(ABC, Generic[K, V, KR, VR]):
    """A node whose code you write. A subclass overrides `process`, and `init` and `close` where it needs them.

    One object serves one task for as long as it stays in its process: the supplier makes it, then come `init`,
    `process` for each record of epoch after epoch, `close`. Connections and caches may live in its fields. What must
    not be lost belongs into a store: fields are gone when the task moves to another process, when an attempt fails, and
    with the application, as in Kafka Streams.

    Example:
        >>> from hayase import Consumed, Processor, Produced, Record, Serdes, Stores, StreamsBuilder
        >>> from hayase.testing import TopologyTestDriver
        >>> class RunningSum(Processor):
        ...     def init(self, context):
        ...         self.context, self.sums = context, context.get_state_store("sums")
        ...
        ...     def process(self, record):
        ...         total = (self.sums.get(record.key) or 0) + record.value
        ...         self.sums.put(record.key, total)
        ...         self.context.forward(record.with_value(total))
        >>> builder = StreamsBuilder()
        >>> _ = builder.add_state_store(Stores.key_value_store("sums", Serdes.string(), Serdes.long()))
        >>> numbers = builder.stream("in", Consumed.with_(Serdes.string(), Serdes.long()))
        >>> numbers.process(RunningSum, "sums").to("out", Produced.with_(Serdes.string(), Serdes.long()))
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     source = driver.create_input_topic("in", Serdes.string(), Serdes.long())
        ...     source.pipe_input("k", 2)
        ...     source.pipe_input("k", 3)
        ...     driver.create_output_topic("out", Serdes.string(), Serdes.long()).read_key_values_to_list()
        [('k', 2), ('k', 5)]
    """

    def init(self, context: ProcessorContext[KR, VR]) -> None:
        """Called once for each object, before its first record and its first punctuation.

        The place to open connections, fetch stores and schedule punctuations (`context.schedule`). The context, and
        stores fetched from it, are valid until `close`, over all epochs. It is called again, on a new object, whenever
        the task comes to another process or an attempt at an epoch failed; so it must not count on being called once
        for each application, and what it did to stores in a failed attempt is undone. There is no current record here:
        `record_metadata()` is `None`.

        Args:
            context: access to stores, time, settings and the nodes downstream.

        Raises:
            Exception: what it raises ends the attempt as `PROCESSOR_FAILED` (no record could be dropped for it), and
                `close` is called.
        """

    @abstractmethod
    def process(self, record: Record[K, V]) -> None:
        """Called for each record, in the order of the task. What it raises goes to the processing exception handler."""

    def close(self) -> None:
        """Called when the task leaves the process, the application stops, or an attempt at an epoch failed.

        Not if the process is killed.

        It is no part of an epoch: stores cannot be used and nothing can be forwarded. What it raises is logged.
        """


class ContextualProcessor(Processor[K, V, KR, VR]):
    """A `Processor` that keeps its context. A subclass that overrides `init` calls this one's first."""

    context: ProcessorContext[KR, VR]
    """There from `init` on."""

    def init(self, context: ProcessorContext[KR, VR]) -> None:
        """See `Processor.init`."""
        self.context = context


class FixedKeyProcessor(ABC, Generic[K, V, VR]):
    """A `Processor` that cannot change keys, so that the stream does not count as re-keyed."""

    def init(self, context: FixedKeyProcessorContext[K, VR]) -> None:
        """See `Processor.init`."""

    @abstractmethod
    def process(self, record: FixedKeyRecord[K, V]) -> None:
        """Called for each record, in the order of the task."""

    def close(self) -> None:
        """See `Processor.close`."""


class ContextualFixedKeyProcessor(FixedKeyProcessor[K, V, VR]):
    """A `FixedKeyProcessor` that keeps its context. A subclass that overrides `init` calls this one's first."""

    context: FixedKeyProcessorContext[K, VR]
    """There from `init` on."""

    def init(self, context: FixedKeyProcessorContext[K, VR]) -> None:
        """See `FixedKeyProcessor.init`."""
        self.context = context


class ValueTransformerWithKey(ABC, Generic[K, V, VR]):
    """Makes new values of a table's rows, with access to stores and time (`KTable.transform_values`).

    One object serves one task for as long as it stays in its process, as a `Processor` does.
    """

    def init(self, context: ProcessingContext) -> None:
        """See `Processor.init`."""

    @abstractmethod
    def transform(self, key: K, value: V | None) -> VR | None:
        """The new value of a row; `None` deletes it.

        Called for every update in the order of the task, with `None` for a delete; also for old values, where a node
        downstream wants them, and for rows that a join looks up, unless the result has a named store. So what it does
        to its stores must not depend on how often it is called. What it raises goes to the processing exception
        handler.
        """

    def close(self) -> None:
        """See `Processor.close`."""


ProcessorSupplier = Callable[[], Processor[K, V, KR, VR]]
"""Makes a new processor each time it is called; a subclass of `Processor` that takes no arguments is one."""
FixedKeyProcessorSupplier = Callable[[], FixedKeyProcessor[K, V, VR]]
"""Makes a new fixed-key processor each time it is called."""
ValueTransformerSupplier = Callable[[], ValueTransformerWithKey[K, V, VR]]
"""Makes a new transformer each time it is called.

A subclass of `ValueTransformerWithKey` that takes no arguments is one.
"""
