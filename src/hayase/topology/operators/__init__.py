"""What a processor node does, as plain data. `hayase.kernel` holds the row and the column form of each.

A *function* is a Python callable, a Polars expression, or a `VectorizedFunction`, which has a form for a record and one
for a batch. Expressions see the value's fields by name (a bare value as
`value`), the key as `__key`, the timestamp as `__ts`; in a joiner the fields of the two sides as `__left.<field>` and
`__right.<field>`, the key as `__key`. `hayase.key()`, `hayase.timestamp()`, `hayase.left()`, `hayase.right()` make
these.
"""

from hayase.topology.operators.aggregates import AggregateFunction as AggregateFunction
from hayase.topology.operators.aggregates import AggregateLoop as AggregateLoop
from hayase.topology.operators.aggregates import Aggregation as Aggregation
from hayase.topology.operators.aggregates import BuiltInAggregate as BuiltInAggregate
from hayase.topology.operators.aggregates import CallableAggregate as CallableAggregate
from hayase.topology.operators.aggregates import CallableReduce as CallableReduce
from hayase.topology.operators.aggregates import CallableTableAggregate as CallableTableAggregate
from hayase.topology.operators.aggregates import CallableTableReduce as CallableTableReduce
from hayase.topology.operators.aggregates import CogroupMerge as CogroupMerge
from hayase.topology.operators.aggregates import FieldAggregate as FieldAggregate
from hayase.topology.operators.aggregates import LateRecords as LateRecords
from hayase.topology.operators.aggregates import StreamAggregate as StreamAggregate
from hayase.topology.operators.aggregates import StreamSessionAggregate as StreamSessionAggregate
from hayase.topology.operators.aggregates import StreamSlidingAggregate as StreamSlidingAggregate
from hayase.topology.operators.aggregates import StreamWindowedAggregate as StreamWindowedAggregate
from hayase.topology.operators.aggregates import TableAggregate as TableAggregate
from hayase.topology.operators.aggregates import TableAggregation as TableAggregation
from hayase.topology.operators.aggregates import WindowedOperator as WindowedOperator
from hayase.topology.operators.base import Fields as Fields
from hayase.topology.operators.base import Operator as Operator
from hayase.topology.operators.base import UserCode as UserCode
from hayase.topology.operators.joins import ForeignKeyFanOut as ForeignKeyFanOut
from hayase.topology.operators.joins import ForeignKeyLookUp as ForeignKeyLookUp
from hayase.topology.operators.joins import ForeignKeyReceive as ForeignKeyReceive
from hayase.topology.operators.joins import ForeignKeyResolve as ForeignKeyResolve
from hayase.topology.operators.joins import ForeignKeySubscribe as ForeignKeySubscribe
from hayase.topology.operators.joins import JoinKind as JoinKind
from hayase.topology.operators.joins import JoinSide as JoinSide
from hayase.topology.operators.joins import StreamGlobalTableJoin as StreamGlobalTableJoin
from hayase.topology.operators.joins import StreamJoinWindow as StreamJoinWindow
from hayase.topology.operators.joins import StreamSelfJoin as StreamSelfJoin
from hayase.topology.operators.joins import StreamStreamJoin as StreamStreamJoin
from hayase.topology.operators.joins import StreamTableJoin as StreamTableJoin
from hayase.topology.operators.joins import TableJoin as TableJoin
from hayase.topology.operators.joins import TableJoiner as TableJoiner
from hayase.topology.operators.joins import TableJoinMerge as TableJoinMerge
from hayase.topology.operators.streams import Branch as Branch
from hayase.topology.operators.streams import Filter as Filter
from hayase.topology.operators.streams import FlatMap as FlatMap
from hayase.topology.operators.streams import FlatMapValues as FlatMapValues
from hayase.topology.operators.streams import Foreach as Foreach
from hayase.topology.operators.streams import Map as Map
from hayase.topology.operators.streams import MapValues as MapValues
from hayase.topology.operators.streams import Merge as Merge
from hayase.topology.operators.streams import Peek as Peek
from hayase.topology.operators.streams import Process as Process
from hayase.topology.operators.streams import RepartitionFilter as RepartitionFilter
from hayase.topology.operators.streams import SelectKey as SelectKey
from hayase.topology.operators.streams import SetTimestamp as SetTimestamp
from hayase.topology.operators.streams import Split as Split
from hayase.topology.operators.tables import InternalSerdes as InternalSerdes
from hayase.topology.operators.tables import TableFilter as TableFilter
from hayase.topology.operators.tables import TableGroupBy as TableGroupBy
from hayase.topology.operators.tables import TableMapValues as TableMapValues
from hayase.topology.operators.tables import TableSource as TableSource
from hayase.topology.operators.tables import TableSuppress as TableSuppress
from hayase.topology.operators.tables import TableToStream as TableToStream
from hayase.topology.operators.tables import TableTransformValues as TableTransformValues
from hayase.topology.operators.vectorized import ROW as ROW
from hayase.topology.operators.vectorized import VectorizedFunction as VectorizedFunction
from hayase.topology.operators.vectorized import VectorizedResult as VectorizedResult
