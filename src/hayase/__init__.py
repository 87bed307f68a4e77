"""Hayase: Kafka Streams and ksqlDB for Python, running on Apache Spark.

Everything for users can be imported from here. Names are loaded when first used, so `import hayase` is cheap
and never starts or imports Spark.
"""

from __future__ import annotations

import importlib
import importlib.metadata
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hayase.app.app import StreamsApp as StreamsApp
    from hayase.app.failure_recovery import StreamThreadExceptionResponse as StreamThreadExceptionResponse
    from hayase.app.follower import Follower as Follower
    from hayase.app.named_topology import NamedTopology as NamedTopology
    from hayase.app.report import ProgressReport as ProgressReport
    from hayase.app.states import State as State
    from hayase.app.streams_runtime import StreamsRuntime as StreamsRuntime
    from hayase.core.config import StreamsConfig as StreamsConfig
    from hayase.core.errors import HayaseError as HayaseError
    from hayase.core.errors import SchemaRegistryError as SchemaRegistryError
    from hayase.core.errors import TopologyError as TopologyError
    from hayase.core.join_windows import JoinWindows as JoinWindows
    from hayase.core.offset_reset import AutoOffsetReset as AutoOffsetReset
    from hayase.core.records import Change as Change
    from hayase.core.records import Record as Record
    from hayase.core.records import RecordContext as RecordContext
    from hayase.core.records import RecordMetadata as RecordMetadata
    from hayase.core.records import Window as Window
    from hayase.core.records import Windowed as Windowed
    from hayase.core.windows import EmitStrategy as EmitStrategy
    from hayase.core.windows import SessionWindows as SessionWindows
    from hayase.core.windows import SlidingWindows as SlidingWindows
    from hayase.core.windows import TimeWindows as TimeWindows
    from hayase.core.windows import UnlimitedWindows as UnlimitedWindows
    from hayase.core.windows import Windows as Windows
    from hayase.dsl import Branched as Branched
    from hayase.dsl import BufferConfig as BufferConfig
    from hayase.dsl import CogroupedKStream as CogroupedKStream
    from hayase.dsl import Consumed as Consumed
    from hayase.dsl import GlobalKTable as GlobalKTable
    from hayase.dsl import Grouped as Grouped
    from hayase.dsl import Joined as Joined
    from hayase.dsl import KGroupedStream as KGroupedStream
    from hayase.dsl import KGroupedTable as KGroupedTable
    from hayase.dsl import KStream as KStream
    from hayase.dsl import KTable as KTable
    from hayase.dsl import Materialized as Materialized
    from hayase.dsl import Named as Named
    from hayase.dsl import Printed as Printed
    from hayase.dsl import Produced as Produced
    from hayase.dsl import Repartitioned as Repartitioned
    from hayase.dsl import SessionWindowedCogroupedKStream as SessionWindowedCogroupedKStream
    from hayase.dsl import SessionWindowedKStream as SessionWindowedKStream
    from hayase.dsl import Stores as Stores
    from hayase.dsl import StreamJoined as StreamJoined
    from hayase.dsl import StreamsBuilder as StreamsBuilder
    from hayase.dsl import Suppressed as Suppressed
    from hayase.dsl import TableJoined as TableJoined
    from hayase.dsl import TimeWindowedCogroupedKStream as TimeWindowedCogroupedKStream
    from hayase.dsl import TimeWindowedKStream as TimeWindowedKStream
    from hayase.dsl import avg as avg
    from hayase.dsl import collect_list as collect_list
    from hayase.dsl import collect_set as collect_set
    from hayase.dsl import count as count
    from hayase.dsl import earliest_by_offset as earliest_by_offset
    from hayase.dsl import key as key
    from hayase.dsl import latest_by_offset as latest_by_offset
    from hayase.dsl import left as left
    from hayase.dsl import max_ as max_
    from hayase.dsl import min_ as min_
    from hayase.dsl import right as right
    from hayase.dsl import sum_ as sum_
    from hayase.dsl import timestamp as timestamp
    from hayase.processor.api import Cancellable as Cancellable
    from hayase.processor.api import ContextualFixedKeyProcessor as ContextualFixedKeyProcessor
    from hayase.processor.api import ContextualProcessor as ContextualProcessor
    from hayase.processor.api import FixedKeyProcessor as FixedKeyProcessor
    from hayase.processor.api import FixedKeyProcessorContext as FixedKeyProcessorContext
    from hayase.processor.api import FixedKeyRecord as FixedKeyRecord
    from hayase.processor.api import Processor as Processor
    from hayase.processor.api import ProcessorContext as ProcessorContext
    from hayase.processor.api import PunctuationType as PunctuationType
    from hayase.processor.api import ValueTransformerWithKey as ValueTransformerWithKey
    from hayase.processor.handlers import ErrorContext as ErrorContext
    from hayase.processor.handlers import HandlerAnswer as HandlerAnswer
    from hayase.processor.handlers import dead_letter as dead_letter
    from hayase.processor.handlers import log_and_continue as log_and_continue
    from hayase.processor.handlers import log_and_fail as log_and_fail
    from hayase.processor.metrics import Sensor as Sensor
    from hayase.processor.metrics import StreamsMetrics as StreamsMetrics
    from hayase.processor.timestamps import callable_timestamp as callable_timestamp
    from hayase.processor.timestamps import field_timestamp as field_timestamp
    from hayase.processor.timestamps import record_timestamp as record_timestamp
    from hayase.processor.timestamps import wall_clock_timestamp as wall_clock_timestamp
    from hayase.query.position import Position as Position
    from hayase.query.position import PositionBound as PositionBound
    from hayase.query.queries import KeyQuery as KeyQuery
    from hayase.query.queries import MultiVersionedKeyQuery as MultiVersionedKeyQuery
    from hayase.query.queries import QueriedStore as QueriedStore
    from hayase.query.queries import Query as Query
    from hayase.query.queries import RangeQuery as RangeQuery
    from hayase.query.queries import TimestampedKeyQuery as TimestampedKeyQuery
    from hayase.query.queries import TimestampedRangeQuery as TimestampedRangeQuery
    from hayase.query.queries import VersionedKeyQuery as VersionedKeyQuery
    from hayase.query.queries import WindowKeyQuery as WindowKeyQuery
    from hayase.query.queries import WindowRangeQuery as WindowRangeQuery
    from hayase.query.request import FailureReason as FailureReason
    from hayase.query.request import QueryResult as QueryResult
    from hayase.query.request import StateQueryRequest as StateQueryRequest
    from hayase.query.request import StateQueryResult as StateQueryResult
    from hayase.serde import HeadersSerde as HeadersSerde
    from hayase.serde import JsonSerde as JsonSerde
    from hayase.serde import ListSerde as ListSerde
    from hayase.serde import Serde as Serde
    from hayase.serde import Serdes as Serdes
    from hayase.serde import UuidSerde as UuidSerde
    from hayase.serde import ValueAndHeaders as ValueAndHeaders
    from hayase.serde.avro_serde import AvroSerde as AvroSerde
    from hayase.serde.json_schema_serde import JsonSchemaSerde as JsonSchemaSerde
    from hayase.serde.protobuf_serde import ProtobufSerde as ProtobufSerde
    from hayase.serde.registry import RegistrySchema as RegistrySchema
    from hayase.serde.registry import SchemaReference as SchemaReference
    from hayase.serde.registry import SchemaRegistry as SchemaRegistry
    from hayase.state.stores.spec import StoreType as StoreType
    from hayase.state.stores.values import KeyValue as KeyValue
    from hayase.state.stores.values import ValueAndTimestamp as ValueAndTimestamp
    from hayase.state.stores.versioned import VersionedRecord as VersionedRecord
    from hayase.topology.description import TopologyDescription as TopologyDescription
    from hayase.topology.topology import Topology as Topology

_MODULES: dict[str, tuple[str, ...]] = {
    "hayase.app.app": ("StreamsApp",),
    "hayase.app.named_topology": ("NamedTopology",),
    "hayase.app.streams_runtime": ("StreamsRuntime",),
    "hayase.app.follower": ("Follower",),
    "hayase.app.report": ("ProgressReport",),
    "hayase.app.states": ("State",),
    "hayase.app.failure_recovery": ("StreamThreadExceptionResponse",),
    "hayase.core.config": ("StreamsConfig",),
    "hayase.core.errors": ("HayaseError", "SchemaRegistryError", "TopologyError"),
    "hayase.core.join_windows": ("JoinWindows",),
    "hayase.core.offset_reset": ("AutoOffsetReset",),
    "hayase.core.records": ("Change", "Record", "RecordContext", "RecordMetadata", "Window", "Windowed"),
    "hayase.core.windows": (
        *("EmitStrategy", "SessionWindows", "SlidingWindows", "TimeWindows", "UnlimitedWindows", "Windows"),
    ),
    "hayase.dsl": (
        *("Branched", "BufferConfig", "CogroupedKStream", "Consumed", "GlobalKTable", "Grouped", "Joined"),
        *("KGroupedStream", "KGroupedTable", "KStream", "KTable"),
        *("Materialized", "Named", "Printed", "Produced", "Repartitioned", "SessionWindowedCogroupedKStream"),
        *("SessionWindowedKStream", "Stores", "StreamJoined", "StreamsBuilder", "Suppressed", "TableJoined"),
        *("TimeWindowedCogroupedKStream", "TimeWindowedKStream"),
        *(
            "avg",
            "collect_list",
            "collect_set",
            "count",
            "earliest_by_offset",
            "key",
            "latest_by_offset",
            "left",
            "max_",
            "min_",
            "right",
            "sum_",
            "timestamp",
        ),
    ),
    "hayase.processor.api": (
        *(
            "Cancellable",
            "ContextualFixedKeyProcessor",
            "ContextualProcessor",
            "FixedKeyProcessor",
            "FixedKeyProcessorContext",
            "FixedKeyRecord",
            "Processor",
            "ProcessorContext",
        ),
        "PunctuationType",
        "ValueTransformerWithKey",
    ),
    "hayase.processor.handlers": (
        *("ErrorContext", "HandlerAnswer", "dead_letter", "log_and_continue", "log_and_fail"),
    ),
    "hayase.processor.metrics": ("Sensor", "StreamsMetrics"),
    "hayase.processor.timestamps": (
        *("callable_timestamp", "field_timestamp", "record_timestamp", "wall_clock_timestamp"),
    ),
    "hayase.query.position": ("Position", "PositionBound"),
    "hayase.query.queries": (
        "KeyQuery",
        "MultiVersionedKeyQuery",
        "QueriedStore",
        "Query",
        "RangeQuery",
        "TimestampedKeyQuery",
        "TimestampedRangeQuery",
        "VersionedKeyQuery",
        "WindowKeyQuery",
        "WindowRangeQuery",
    ),
    "hayase.query.request": ("FailureReason", "QueryResult", "StateQueryRequest", "StateQueryResult"),
    "hayase.serde": ("HeadersSerde", "JsonSerde", "ListSerde", "Serde", "Serdes", "UuidSerde", "ValueAndHeaders"),
    "hayase.serde.avro_serde": ("AvroSerde",),
    "hayase.serde.json_schema_serde": ("JsonSchemaSerde",),
    "hayase.serde.protobuf_serde": ("ProtobufSerde",),
    "hayase.serde.registry": ("RegistrySchema", "SchemaReference", "SchemaRegistry"),
    "hayase.state.stores.values": ("KeyValue", "ValueAndTimestamp"),
    "hayase.state.stores.versioned": ("VersionedRecord",),
    "hayase.state.stores.spec": ("StoreType",),
    "hayase.topology.description": ("TopologyDescription",),
    "hayase.topology.topology": ("Topology",),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}

__all__ = sorted(_MODULE_OF)  # noqa: PLE0605


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return importlib.metadata.version("hayase")
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'hayase' has no attribute {name!r}")
    attribute = getattr(importlib.import_module(_MODULE_OF[name]), name)
    globals()[name] = attribute
    return attribute


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
