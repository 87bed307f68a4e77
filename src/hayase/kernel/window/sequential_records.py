"""Records of one epoch that a loop takes into windows, in column form.

Their keys by number, and their inputs decoded at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import repeat

import polars as pl

from hayase.kernel.aggregate.aggregator_columns import RECORD, ColumnAggregator
from hayase.kernel.frame.key_columns import distinct_keys, key_bytes, keys_of
from hayase.kernel.node.column_node import KEY, TS, Failed


class EpochRecords:
    """The records.

    Args:
        aggregation: of the operator.
        frame: the records, none of which has a null key.

    Attributes:
        keys: every key once.
        data: its bytes.
        of_row: the number of each record's key among these.
        times: of the records.
    """

    def __init__(self, aggregation: ColumnAggregator, frame: pl.DataFrame) -> None:
        self.aggregation = aggregation
        self.frame = frame
        self.times = frame[TS].to_numpy()
        self.of_row, self.keys = distinct_keys(frame[KEY], aggregation.key_codec)
        self.data = key_bytes(self.keys, aggregation.key_codec)

    def add_keys(self, data: Sequence[bytes]) -> None:
        """Number more keys, given by their bytes."""
        if not data:
            return
        keys = keys_of(data, self.aggregation.key_codec).alias(KEY).cast(self.keys.dtype)
        self.keys = pl.concat([self.keys, keys])
        self.data = [*self.data, *data]

    def inputs(self) -> tuple[Iterator[tuple[object, ...]], dict[int, Exception]]:
        """The inputs of each record, and what happened where they failed."""
        failed, frame = Failed(), self.frame
        with_inputs = self.aggregation.with_inputs(
            frame.with_columns(pl.int_range(pl.len(), dtype=pl.Int64).alias(RECORD)), failed, RECORD
        )
        columns = [
            None if values is None else values.to_list() for values in self.aggregation.input_values(with_inputs)
        ]
        if with_inputs.height < frame.height:
            rows = with_inputs[RECORD].to_list()
            for number, values in enumerate(columns):
                if values is not None:
                    spread: list[object] = [None] * frame.height
                    for row, value in zip(rows, values, strict=True):
                        spread[row] = value
                    columns[number] = spread
        inputs = [repeat(None, frame.height) if values is None else values for values in columns]
        return zip(*inputs, strict=True), failed.by_row(frame)
