"""A slot's end of a span: it takes steps from the planner of epochs until there are no more."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from multiprocessing.connection import Connection

import msgspec
import pyarrow as pa

from hayase.core.failpoints import reach
from hayase.runtime.rows import ROW, SUMMARY, SparkRow, to_batches
from hayase.runtime.spans.door import knock
from hayase.runtime.spans.messages import ALONE, OVER, Come, Step, Through
from hayase.runtime.worker import WorkerHost, host_for, run_source_slot
from hayase.state.journal import EdgeRow
from hayase.task.epoch_record import EpochRecord

_LOG = logging.getLogger("hayase.runtime")

ROWS_BYTES_MAX = 16 << 20
"""As much goes from a slot to the next level by way of the planner, all of it in memory. Spark's shuffle takes any size."""


def run_slot(options: Mapping[str, str], slot: int, record: bytes, span: str | None) -> Iterator[pa.RecordBatch]:
    """What a task of the source does: the epoch of its record, or a span that begins with it."""
    seat = Seat.take(span, slot, EpochRecord.from_bytes(record).epoch) if span is not None else None
    if seat is None:
        yield from run_source_slot(options, slot, record)
    else:
        yield from to_batches(seat.run(host_for(options)))


class Seat:
    """One attempt of a slot's task.

    If the planner is gone the task ends as if the span were over: what was done is in the checkpoint, Spark will ask
    the planner for more, and say what became of it.
    """

    def __init__(self, address: str, come: Come) -> None:
        self._address = address
        self._come = come
        self._connection: Connection | None = None
        self._answer = OVER
        self._record = b""
        self._epoch: EpochRecord | None = None

    @classmethod
    def take(cls, address: str, slot: int, first_epoch: int) -> Seat | None:
        """Say that the slot is here; `None` if there is no span (any more): then the task does what Spark asks it for."""
        seat = cls(address, Come(slot, first_epoch))
        return seat if seat._sit_down() else None

    def run(self, host: WorkerHost) -> Iterator[SparkRow]:
        """Do all steps; yields summaries that the planner could not be told."""
        try:
            while self._answer != OVER:
                done = self._do(host, msgspec.msgpack.decode(self._answer, type=Step))
                if not self._tell(done) and not self._sit_down():
                    yield from (SparkRow(0, SUMMARY, "", "", "", done.epoch, data) for data in done.summaries)
                    return
        finally:
            self._stand_up()

    def _sit_down(self) -> bool:
        try:
            self._connection = knock(self._address)
            self._connection.send_bytes(msgspec.msgpack.encode(self._come))
            self._answer = self._connection.recv_bytes()
        except (EOFError, OSError) as error:
            _LOG.debug("no span for slot %d: %s", self._come.slot, error)
            self._answer = ALONE
        if self._answer == ALONE:
            self._stand_up()
        return self._answer != ALONE

    def _tell(self, done: Through) -> bool:
        assert self._connection is not None
        try:
            self._connection.send_bytes(msgspec.msgpack.encode(done))
            self._answer = self._connection.recv_bytes()
        except (EOFError, OSError) as error:
            _LOG.debug("slot %d lost its seat in a span: %s", self._come.slot, error)
            self._stand_up()
            return False
        return True

    def _stand_up(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _do(self, host: WorkerHost, step: Step) -> Through:
        if self._epoch is None or step.record != self._record:
            self._record, self._epoch = step.record, EpochRecord.from_bytes(step.record)
        rows: list[EdgeRow] = []
        summaries: list[bytes] = []
        size = 0
        for row in host.run_level(step.level, self._come.slot, self._epoch, step.rows):
            if row.kind == ROW:
                size += len(row.payload)
                if size <= ROWS_BYTES_MAX:
                    rows.append(row.edge_row())
                else:
                    rows.clear()
            elif row.kind == SUMMARY:
                summaries.append(row.payload)
        reach("after_rows", epoch=self._epoch.epoch)
        return Through(self._epoch.epoch, step.level, rows, summaries, size > ROWS_BYTES_MAX)
