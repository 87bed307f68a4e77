"""Client of the slot pool: a slot's task in a shared runtime, which works on one request after the other."""

from __future__ import annotations

import atexit
import logging
import os
import traceback
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pyarrow as pa

from hayase.core.failpoints import reach
from hayase.core.logs import log_context
from hayase.runtime.wire.log_relay import log_to_driver
from hayase.runtime.wire.row_files import read_rows, write_rows
from hayase.runtime.wire.shared_options import SharedOptions
from hayase.runtime.wire.shuffle_rows import ROW, SUMMARY
from hayase.runtime.wire.slot_messages import (
    JOB_ENDED,
    JoinPool,
    PoolRequest,
    ReleaseTopology,
    RowFile,
    TopologyRequest,
    TopologyResult,
)
from hayase.runtime.wire.span_protocol import connect
from hayase.runtime.worker.slot_process import SlotProcess
from hayase.runtime.worker.worker import WorkerProcess
from hayase.state.delta.journal import EdgeRow
from hayase.task.edges import ReceivedRows
from hayase.task.epoch_record import EpochRecord

_LOG = logging.getLogger("hayase.runtime")

TOPOLOGIES_MAX = 256
"""A process keeps programs and open states of so many topologies; what was not used for longest goes first."""
ROWS_BYTES_MAX = 4 << 20
"""Rows for the next level that are more than this go through files, where there are files."""


class SlotWorker:
    """What a worker process keeps from job to job: a host for each topology."""

    def __init__(self, options: SharedOptions) -> None:
        log_to_driver(options.log_address, options.log_level, {}, ())
        self._process = SlotProcess()
        self._hosts: OrderedDict[str, tuple[str, WorkerProcess]] = OrderedDict()

    def run(self, slot: int, request: TopologyRequest) -> TopologyResult:
        """Run a request. An error of the topology is part of the result: it ends no task."""
        with log_context(application_id=request.application_id):
            try:
                return self._run(slot, request)
            except Exception as error:  # of code, data, state or topics of this topology: others go on
                self.release(request.application_id)
                # The trace begins with the cause, if there is one; the error itself says where it happened.
                said = "".join(traceback.format_exception_only(error))
                return TopologyResult(error=f"{said}{''.join(traceback.format_exception(error))}")

    def release(self, application_id: str) -> None:
        """Close what is kept for a topology."""
        _, host = self._hosts.pop(application_id, ("", None))
        if host is not None:
            try:
                host.close()
            except Exception:
                _LOG.warning("what was kept for %s could not be closed", application_id, exc_info=True)

    def close(self) -> None:
        """Let go of everything."""
        for application_id in list(self._hosts):
            self.release(application_id)
        self._process.close()

    def _run(self, slot: int, request: TopologyRequest) -> TopologyResult:
        host = self._host(request)
        host.watch()
        record = EpochRecord.from_bytes(request.record)
        received = host.received()
        try:
            for row in request.rows:
                received.add(row)
            for path in request.files:
                for row in read_rows(Path(path)):
                    received.add(row)
            result = self._run_level(host, slot, record, request.level, received)
        finally:
            received.close()
        reach("after_rows", epoch=record.epoch)
        return result

    def _run_level(
        self, host: WorkerProcess, slot: int, record: EpochRecord, level: int, received: ReceivedRows
    ) -> TopologyResult:
        result = TopologyResult(rows=[], files=[], summaries=[])
        held: dict[tuple[int, int], list[EdgeRow]] = {}
        size = 0
        for row in host.run_level(level, slot, record, received):
            if row.kind == SUMMARY:
                result.summaries.append(row.row.payload)
            elif row.kind == ROW:
                held.setdefault((host.level_of(row.row.task), row.slot), []).append(row.row)
                size += len(row.row.payload)
                if size > ROWS_BYTES_MAX and host.can_share_files:
                    _write(host, held, result.files)
                    size = 0
        for rows in held.values():
            result.rows.extend(rows)
        return result

    def _host(self, request: TopologyRequest) -> WorkerProcess:
        digest = request.options["digest"]
        known, host = self._hosts.get(request.application_id, ("", None))
        if host is None or known != digest:
            self.release(request.application_id)
            host = WorkerProcess(request.options, self._process)
            self._hosts[request.application_id] = digest, host
            while len(self._hosts) > TOPOLOGIES_MAX:
                self.release(next(iter(self._hosts)))
        self._hosts.move_to_end(request.application_id)
        return host


def _write(host: WorkerProcess, held: dict[tuple[int, int], list[EdgeRow]], files: list[RowFile]) -> None:
    for (level, slot), rows in held.items():
        files.append(RowFile(level, slot, str(write_rows(host.control_dir, rows))))
    held.clear()


_WORKERS: dict[tuple[int, SharedOptions], SlotWorker] = {}


def _worker(options: SharedOptions) -> SlotWorker:
    """The one of this process for a runtime; never used after a fork. That of an earlier runtime is closed."""
    key = (os.getpid(), options)
    worker = _WORKERS.get(key)
    if worker is None:
        for (pid, _), old in list(_WORKERS.items()):
            if pid == os.getpid():
                old.close()
        _WORKERS.clear()
        worker = _WORKERS[key] = SlotWorker(options)
        atexit.register(worker.close)
    return worker


def run_pool_slot(options: SharedOptions, slot: int, job: int, address: str) -> Iterator[pa.RecordBatch]:
    """Run a task of a shared runtime's Spark job; yields nothing, since results go to the planner."""
    worker = _worker(options)
    try:
        with connect(address) as connection:
            connection.send_bytes(msgspec.msgpack.encode(JoinPool(slot, job)))
            while (message := connection.recv_bytes()) != JOB_ENDED:
                request = msgspec.msgpack.decode(message, type=PoolRequest)
                if isinstance(request, ReleaseTopology):
                    worker.release(request.application_id)
                    result = TopologyResult()
                else:
                    result = worker.run(slot, request)
                connection.send_bytes(msgspec.msgpack.encode(result))
    except (EOFError, OSError) as error:  # the planner is gone: completed work is in the checkpoints
        _LOG.debug("slot %d lost its connection to the pool: %s", slot, error)
    yield from ()
