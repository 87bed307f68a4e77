"""Contracts of connectors, tasks, transforms, predicates and converters: what a plug-in implements.

They are defined by what they are for, in the modules that this one imports; plug-ins import them from here.

A connector is configured once and says how its work is split; its tasks do the work. All of them are plain Python and
know nothing of Spark. The worker calls the methods of one object from one thread, except `stop` of a task: it comes
from another one if a call has not returned within `task.shutdown.graceful.timeout.ms`, and must make it return.

Names are those of Kafka Connect in Python spelling. What they may raise: `RetriableError`, and the worker calls again;
anything else fails the task, unless `errors.tolerance` says otherwise where a single record is to blame.
"""

from __future__ import annotations

from hayase.connect.conversion_contracts import (
    Converter,
    HeaderConverter,
    Predicate,
    Transformation,
)
from hayase.connect.plugin_contracts import (
    Connector,
    ConnectorContext,
    Props,
    Task,
    Versioned,
)
from hayase.connect.sink_contracts import (
    ErrantRecordReporter,
    RangeNumber,
    RangeSinkTask,
    RepeatableSinkTask,
    SinkConnector,
    SinkDelivery,
    SinkPartition,
    SinkRange,
    SinkTask,
    SinkTaskContext,
    TransactionalSinkTask,
)
from hayase.connect.source_contracts import (
    ConnectorTransactionBoundaries,
    ExactlyOnceSupport,
    OffsetStorageReader,
    SerializedJson,
    SourceConnector,
    SourcePartitionKey,
    SourceTask,
    SourceTaskContext,
    TransactionContext,
    source_partition_key,
)

__all__ = [
    "Connector",
    "ConnectorContext",
    "ConnectorTransactionBoundaries",
    "Converter",
    "ErrantRecordReporter",
    "ExactlyOnceSupport",
    "HeaderConverter",
    "OffsetStorageReader",
    "Predicate",
    "Props",
    "RangeNumber",
    "RangeSinkTask",
    "RepeatableSinkTask",
    "SerializedJson",
    "SinkConnector",
    "SinkDelivery",
    "SinkPartition",
    "SinkRange",
    "SinkTask",
    "SinkTaskContext",
    "SourceConnector",
    "SourcePartitionKey",
    "SourceTask",
    "SourceTaskContext",
    "Task",
    "TransactionContext",
    "TransactionalSinkTask",
    "Transformation",
    "Versioned",
    "source_partition_key",
]
