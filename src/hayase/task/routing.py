"""Where the records of a sink go if a function decides.

The topic (`to(function)`) and the partition (a partitioner).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Protocol

import polars as pl

from hayase.core.errors import TopologyError
from hayase.core.metrics import DROPPED_RECORDS
from hayase.core.records import Headers, Record, RecordContext, RecordMetadata, SourceRecord
from hayase.kernel.frame.callables import call_each
from hayase.kernel.frame.expressions import result_type, visible
from hayase.kernel.frame.python_values import has_python_records, record_keys, record_values
from hayase.kernel.frame.row_functions import row_mapper
from hayase.kernel.node.column_node import ORDER, TS, ColumnContext, Order, evaluate
from hayase.kernel.node.edge import EdgeSchema
from hayase.task.compiled_subtopology import CompiledSink

TOPIC = "__topic"
PARTITIONS = "__partitions"
"""Columns of a frame on its way out.

The topic's name, and the chosen partitions as a list, null where the key decides.
"""

_PARTITION = "__partition"

PartitionsOf = Callable[[str], int]
"""How many partitions a topic has; raises UnknownTopicError."""


def is_routed(sink: CompiledSink) -> bool:
    """Whether a function decides where the records go."""
    return sink.extractor is not None or sink.partitioner is not None


def merge_groups(sinks: Sequence[tuple[str | None, bool]]) -> list[str]:
    """Under which name the frames of each sink are merged with those of others.

    Sinks of one topic are merged. If one sink chooses topics record by record, all that write the log are.

    Args:
        sinks: topic (empty or `None` if it is chosen) and whether that is a repartition.
    """
    dynamic = any(not topic for topic, _ in sinks)
    return [topic if topic and (edge or not dynamic) else "" for topic, edge in sinks]


def routing_without_columns(sink: CompiledSink, edge: EdgeSchema) -> str | None:
    """Why the functions of a sink have no column form; `None` if they have one.

    Raises:
        TopologyError: `INVALID_EXPRESSION`, `UNKNOWN_FIELD`: an expression gives no topic, or no partition.
    """
    if not is_routed(sink):
        return None
    extractor, partitioner = sink.extractor, _in_columns(sink.partitioner)
    if isinstance(extractor, pl.Expr):
        dtype = result_type(sink.name, extractor, visible(edge))
        if dtype != pl.String:
            raise _unfit(sink, extractor, dtype, "the name of a topic, which is text")
    if isinstance(partitioner, pl.Expr):
        dtype = result_type(sink.name, partitioner, visible(edge))
        if not dtype.is_integer():
            raise _unfit(sink, partitioner, dtype, "the number of a partition")
    calls = any(function is not None and not isinstance(function, pl.Expr) for function in (extractor, partitioner))
    if calls and not has_python_records(edge):
        return f"sink {sink.name} shows a function records of an unknown type"
    return None


def _in_columns(partitioner: object) -> Any:
    """The partitioner as an expression, if it says what that is."""
    return getattr(partitioner, "in_columns", partitioner)


def _unfit(sink: CompiledSink, expression: pl.Expr, dtype: pl.DataType, wanted: str) -> TopologyError:
    return TopologyError("INVALID_EXPRESSION", f"{expression} gives {dtype}; it must give {wanted}", node=sink.name)


def checked_topic(result: object) -> str:
    """The name that a function gave; raises TypeError if it is none."""
    if not isinstance(result, str) or not result:
        raise TypeError(f"the topic of a record must be a name, not {result!r}")
    return result


def checked_partitions(result: Any, topic: str, partitions: int) -> list[int] | None:
    """The partitions that a function gave, each once; `None` if it leaves that to the key.

    Raises:
        TypeError: it gave something else.
        ValueError: the topic does not have such a partition.
    """
    if result is None:
        return None
    several = isinstance(result, Collection) and not isinstance(result, str | bytes | Mapping)
    numbers = list(dict.fromkeys(result)) if several else [result]
    for number in numbers:
        if isinstance(number, bool) or not isinstance(number, int):
            raise TypeError(f"a partitioner gives a number, several or None, not {result!r}")
        if not 0 <= number < partitions:
            raise ValueError(f"the partitioner gave {number}; topic {topic!r} has the partitions 0 to {partitions - 1}")
    return numbers


class RowRoute:
    """The row form: topic and partitions of one record."""

    def __init__(self, sink: CompiledSink, edge: EdgeSchema | None, partitions_of: PartitionsOf) -> None:
        self._sink = sink
        self._partitions_of = partitions_of
        extractor, partitioner = sink.extractor, sink.partitioner
        self._topic = row_mapper(sink.name, extractor, edge) if isinstance(extractor, pl.Expr) else None
        self._partition = row_mapper(sink.name, partitioner, edge) if isinstance(partitioner, pl.Expr) else None

    def __call__(
        self, record: Record, source: Callable[[], RecordMetadata | None]
    ) -> tuple[str, list[int] | None, int]:
        """Topic, partitions (`None`: the key decides) and how many the topic has.

        Args:
            record: which is written.
            source: where the record being processed was read; called if the topic depends on it.

        Raises:
            UnknownTopicError: there is no such topic.
            Exception: whatever user code raises.
        """
        topic = self._topic_of(record, source)
        count = self._partitions_of(topic)
        return topic, self._partitions(topic, record, count), count

    def _topic_of(self, record: Record, source: Callable[[], RecordMetadata | None]) -> str:
        extractor = self._sink.extractor
        if self._topic is not None:
            return checked_topic(self._topic(record))
        if extractor is None:
            return self._sink.topic
        assert not isinstance(extractor, pl.Expr)
        read = source() or RecordMetadata(None, -1, -1)  # type: ignore[arg-type]
        return checked_topic(
            extractor(record.key, record.value, RecordContext(*read, record.timestamp_ms, record.headers))
        )

    def _partitions(self, topic: str, record: Record, count: int) -> list[int] | None:
        partitioner = self._sink.partitioner
        if self._partition is not None:
            return checked_partitions(self._partition(record), topic, count)
        if partitioner is None:
            return None
        assert not isinstance(partitioner, pl.Expr)
        return checked_partitions(partitioner(topic, record.key, record.value, count), topic, count)


class FrameInputs(Protocol):
    """The records that an epoch read, by what the order columns of a row say."""

    count: int

    def record(self, order: Order) -> SourceRecord:
        """One of them."""
        ...


class FrameRoute:
    """The column form: topics and partitions of all records of a sink.

    Args:
        sink: has a function.
        edge: of its records.
        inputs: the epoch's records.
        headers_of: the headers of a frame's rows, `None` if none has any.
        partitions_of: see PartitionsOf.
    """

    def __init__(
        self,
        sink: CompiledSink,
        edge: EdgeSchema,
        inputs: FrameInputs,
        headers_of: Callable[[pl.DataFrame], list[Headers] | None],
        partitions_of: PartitionsOf,
    ) -> None:
        self._sink = sink
        self._edge = edge
        self._inputs = inputs
        self._headers_of = headers_of
        self._partitions_of = partitions_of

    def run(self, frame: pl.DataFrame, ctx: ColumnContext) -> pl.DataFrame:
        """The frame with `__topic` and `__partitions`.

        Without the rows on which a function fails or that go nowhere.
        """
        frame = self._with_partitions(self._with_topics(frame, ctx), ctx)
        dropped = frame[PARTITIONS].list.len() == 0
        if dropped.any():
            ctx.metrics.add(DROPPED_RECORDS, self._sink.name, int(dropped.sum()))
            frame = frame.filter(~dropped.fill_null(value=False))
        return frame

    def _with_topics(self, frame: pl.DataFrame, ctx: ColumnContext) -> pl.DataFrame:
        extractor = self._sink.extractor
        if extractor is None:
            return frame.with_columns(pl.lit(self._sink.topic).alias(TOPIC))
        if isinstance(extractor, pl.Expr):
            expression = extractor

            def named(part: pl.DataFrame) -> pl.DataFrame:
                done = part.with_columns(expression.alias(TOPIC))
                for topic in done.filter(pl.col(TOPIC).is_null() | (pl.col(TOPIC) == ""))[TOPIC].head(1):
                    checked_topic(topic)
                return done

            return evaluate(frame, named, ctx)
        function = extractor
        arguments = record_keys(frame, self._edge), record_values(frame, self._edge), self._contexts(frame)
        frame, topics = call_each(
            frame, arguments, lambda key, value, context: checked_topic(function(key, value, context)), ctx
        )
        return frame.with_columns(pl.Series(TOPIC, topics, dtype=pl.String))

    def _contexts(self, frame: pl.DataFrame) -> list[RecordContext]:
        headers = self._headers_of(frame) or [()] * frame.height
        contexts = []
        for row, timestamp_ms, own in zip(frame[f"{ORDER}0"].to_list(), frame[TS].to_list(), headers, strict=True):
            if row < self._inputs.count:
                read = self._inputs.record((row,))
                contexts.append(RecordContext(read.topic, read.partition, read.offset, timestamp_ms, own))
            else:
                contexts.append(RecordContext(None, -1, -1, timestamp_ms, own))
        return contexts

    def _with_partitions(self, frame: pl.DataFrame, ctx: ColumnContext) -> pl.DataFrame:
        counts = {topic: self._partitions_of(topic) for topic in frame[TOPIC].unique(maintain_order=True)}
        partitioner = _in_columns(self._sink.partitioner)
        if partitioner is None or not frame.height:
            return frame.with_columns(pl.lit(None, pl.List(pl.Int32)).alias(PARTITIONS))
        if isinstance(partitioner, pl.Expr):
            chosen = partitioner
            frame = evaluate(frame, lambda part: part.with_columns(chosen.alias(_PARTITION)), ctx)
            most = pl.col(TOPIC).replace_strict(counts, return_dtype=pl.Int64)
            fits = pl.col(_PARTITION).is_null() | pl.col(_PARTITION).cast(pl.Int64, strict=False).is_between(
                0, most - 1
            )
            if frame.select(fits.fill_null(value=False).all()).item():
                as_list = pl.when(pl.col(_PARTITION).is_not_null()).then(
                    pl.concat_list(pl.col(_PARTITION).cast(pl.Int32))
                )
                return frame.with_columns(as_list.alias(PARTITIONS)).drop(_PARTITION)
            arguments: tuple[Sequence[Any], ...] = frame[TOPIC].to_list(), frame[_PARTITION].to_list()
            frame, numbers = call_each(
                frame.drop(_PARTITION),
                arguments,
                lambda topic, number: checked_partitions(number, topic, counts[topic]),
                ctx,
            )
        else:
            function = partitioner
            arguments = frame[TOPIC].to_list(), record_keys(frame, self._edge), record_values(frame, self._edge)
            frame, numbers = call_each(
                frame,
                arguments,
                lambda topic, key, value: checked_partitions(
                    function(topic, key, value, counts[topic]), topic, counts[topic]
                ),
                ctx,
            )
        return frame.with_columns(pl.Series(PARTITIONS, numbers, dtype=pl.List(pl.Int32)))
