"""Hayase: Kafka Streams and ksqlDB for Python, running on Apache Spark."""

from hayase.app.app import ProgressReport, StreamsApp
from hayase.app.states import State
from hayase.core.config import StreamsConfig
from hayase.core.errors import HayaseError
from hayase.core.records import Change, Record, Window, Windowed
from hayase.core.windows import TimeWindows
from hayase.dsl.aggregates import avg, count, max_, min_, sum_
from hayase.dsl.builder import StreamsBuilder
from hayase.dsl.expressions import key, left, right, timestamp
from hayase.dsl.options import Branched, Consumed, Grouped, Joined, Materialized, Named, Produced
from hayase.processor.handlers import ErrorContext, HandlerAnswer, dead_letter, log_and_continue, log_and_fail
from hayase.processor.timestamps import callable_timestamp, field_timestamp, record_timestamp, wall_clock_timestamp
from hayase.serde import JsonSerde, Serdes
from hayase.topology.topology import Topology

__all__ = [
    "Branched",
    "Change",
    "Consumed",
    "ErrorContext",
    "Grouped",
    "HandlerAnswer",
    "HayaseError",
    "Joined",
    "JsonSerde",
    "Materialized",
    "Named",
    "Produced",
    "ProgressReport",
    "Record",
    "Serdes",
    "State",
    "StreamsApp",
    "StreamsBuilder",
    "StreamsConfig",
    "TimeWindows",
    "Topology",
    "Window",
    "Windowed",
    "avg",
    "callable_timestamp",
    "count",
    "dead_letter",
    "field_timestamp",
    "key",
    "left",
    "log_and_continue",
    "log_and_fail",
    "max_",
    "min_",
    "record_timestamp",
    "right",
    "sum_",
    "timestamp",
    "wall_clock_timestamp",
]
