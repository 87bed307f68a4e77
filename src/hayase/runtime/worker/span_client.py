"""Client of a span: a slot's task, which runs one LevelRequest of the epoch planner after the other."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path

import msgspec
import pyarrow as pa

from hayase.core.decoding import decode_msgpack
from hayase.core.failpoints import reach
from hayase.runtime.wire.row_files import read_rows, write_rows
from hayase.runtime.wire.shuffle_rows import ROW, SUMMARY, ShuffleRow, to_batches
from hayase.runtime.wire.span_protocol import NO_SPAN, SPAN_ENDED, JoinSpan, LevelRequest, LevelResult, connect
from hayase.runtime.worker.outgoing_rows import OutgoingRows
from hayase.runtime.worker.worker import WorkerProcess, run_source_slot, worker_process
from hayase.task.epoch_record import EpochRecord

_LOG = logging.getLogger("hayase.runtime")

SPAN_ROWS_BYTES_MAX = 16 << 20
"""Limit of the rows that a slot sends to the next level through the planner, all in memory, on a cluster.

Spark's shuffle has none.
"""


def run_slot(options: Mapping[str, str], slot: int, record: bytes, span: str | None) -> Iterator[pa.RecordBatch]:
    """Run a task of the source: the epoch of its record, or a span that begins with it."""
    client = SpanClient.join(span, slot, EpochRecord.from_bytes(record).epoch) if span is not None else None
    if client is None:
        yield from run_source_slot(options, slot, record)
    else:
        yield from to_batches(client.run(worker_process(options)))


class SpanClient:
    """One attempt of a slot's task.

    If the planner is gone, the task returns as if the span had ended: completed work is in the checkpoint, and Spark
    asks the planner for the next epoch, or reports that it has failed.
    """

    def __init__(self, address: str, join: JoinSpan) -> None:
        self._address = address
        self._join = join
        self._connection: Connection | None = None
        self._answer = SPAN_ENDED
        self._record = b""
        self._epoch: EpochRecord | None = None

    @classmethod
    def join(cls, address: str, slot: int, first_epoch: int) -> SpanClient | None:
        """Join the span; `None` if there is none any more: then the task runs only the epoch that Spark asked for."""
        client = cls(address, JoinSpan(slot, first_epoch))
        return client if client._connect() else None

    def run(self, worker: WorkerProcess) -> Iterator[ShuffleRow]:
        """Run all requests; yields summaries that did not reach the planner."""
        try:
            while self._answer != SPAN_ENDED:
                done = self._do(worker, decode_msgpack(self._answer, as_type=LevelRequest))
                if not self._report(done) and not self._connect():
                    yield from (ShuffleRow.summary(done.epoch, data) for data in done.summaries)
                    return
        finally:
            self._disconnect()

    def _connect(self) -> bool:
        try:
            self._connection = connect(self._address)
            self._connection.send_bytes(msgspec.msgpack.encode(self._join))
            self._answer = self._connection.recv_bytes()
        except (EOFError, OSError) as error:
            _LOG.debug("no span for slot %d: %s", self._join.slot, error)
            self._answer = NO_SPAN
        if self._answer == NO_SPAN:
            self._disconnect()
        return self._answer != NO_SPAN

    def _report(self, done: LevelResult) -> bool:
        assert self._connection is not None
        try:
            self._connection.send_bytes(msgspec.msgpack.encode(done))
            self._answer = self._connection.recv_bytes()
        except (EOFError, OSError) as error:
            _LOG.debug("slot %d lost its connection to the span: %s", self._join.slot, error)
            self._disconnect()
            return False
        return True

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _do(self, worker: WorkerProcess, request: LevelRequest) -> LevelResult:
        if self._epoch is None or request.record != self._record:
            self._record, self._epoch = request.record, EpochRecord.from_bytes(request.record)
        rows = OutgoingRows(
            worker.level_and_slot, partial(write_rows, worker.control_dir) if worker.can_share_files else None
        )
        summaries: list[bytes] = []
        too_large = False
        received = worker.received()
        try:
            for given in (request.rows, *(read_rows(Path(path)) for path in request.files)):
                for each in given:
                    received.add(each)
            for row in worker.run_level(request.level, self._join.slot, self._epoch, received):
                if row.kind == ROW:
                    rows.add(row.row)
                    too_large = not worker.can_share_files and rows.bytes > SPAN_ROWS_BYTES_MAX
                    if too_large:
                        rows.drop()
                elif row.kind == SUMMARY:
                    summaries.append(row.row.payload)
        finally:
            received.close()
        reach("after_rows", epoch=self._epoch.epoch)
        return LevelResult(self._epoch.epoch, request.level, rows.rows(), summaries, rows.files, too_large)
