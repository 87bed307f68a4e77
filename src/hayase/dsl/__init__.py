"""Kafka Streams' DSL in Python's spelling: builds a `hayase.topology.Topology`.

Ways of saying things, and why there is one of each:

* Where Kafka Streams takes an option object (`Consumed`, `Produced`, `Grouped`, `Joined`, `StreamJoined`,
  `Materialized`, `Branched`), so does Hayase, at the same place: what is known from Kafka Streams holds, and a serde is
  always beside the name it belongs to. There are no parallel keywords for what is in these objects.
* A node's name is the keyword `name=` of the operation (Kafka Streams' `Named`).
* Functions are Python callables or Polars expressions: see `hayase.dsl.functions` for the rules.

Names of nodes, stores and repartition topics are those that Kafka Streams 4.3 gives (`topology.optimization=none`).
"""

from hayase.dsl.branched_kstream import BranchedKStream
from hayase.dsl.builder import StreamsBuilder
from hayase.dsl.cogrouped import CogroupedKStream, SessionWindowedCogroupedKStream, TimeWindowedCogroupedKStream
from hayase.dsl.expressions import key, left, right, timestamp
from hayase.dsl.grouped import KGroupedStream, SessionWindowedKStream, TimeWindowedKStream
from hayase.dsl.grouped_table import KGroupedTable
from hayase.dsl.kstream import KStream
from hayase.dsl.ktable import GlobalKTable, KTable
from hayase.dsl.options.aggregates import (
    Aggregate,
    avg,
    collect_list,
    collect_set,
    count,
    earliest_by_offset,
    latest_by_offset,
    max_,
    min_,
    sum_,
)
from hayase.dsl.options.branched import Branched
from hayase.dsl.options.joined import Joined, TableJoined
from hayase.dsl.options.materialized import Materialized
from hayase.dsl.options.options import Consumed, Grouped, Named, Produced, Repartitioned
from hayase.dsl.options.printed import Printed
from hayase.dsl.options.stores import Stores
from hayase.dsl.options.stream_joined import StreamJoined
from hayase.dsl.options.suppressed import BufferConfig, Suppressed

__all__ = [
    "Aggregate",
    "Branched",
    "BranchedKStream",
    "BufferConfig",
    "CogroupedKStream",
    "Consumed",
    "GlobalKTable",
    "Grouped",
    "Joined",
    "KGroupedStream",
    "KGroupedTable",
    "KStream",
    "KTable",
    "Materialized",
    "Named",
    "Printed",
    "Produced",
    "Repartitioned",
    "SessionWindowedCogroupedKStream",
    "SessionWindowedKStream",
    "Stores",
    "StreamJoined",
    "StreamsBuilder",
    "Suppressed",
    "TableJoined",
    "TimeWindowedCogroupedKStream",
    "TimeWindowedKStream",
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
]
