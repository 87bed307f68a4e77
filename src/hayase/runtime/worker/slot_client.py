"""Client of the slot pool: a slot's task in a shared runtime, which works on one request after the other.

It gets them from the pool, or, in a round, with its work order.
"""

from __future__ import annotations

import atexit
import logging
import os
import time
import traceback
import uuid
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa
from pyspark import TaskContext

from hayase.core.decoding import decode_msgpack
from hayase.core.errors import LogError, ProcessingError
from hayase.core.failpoints import reach
from hayase.core.logs import log_context
from hayase.core.steps import asking, at_work
from hayase.log.assignments import LARGE_EPOCH_RECORDS
from hayase.log.protocol import StoredBatch
from hayase.runtime.wire.log_relay import log_to_driver
from hayase.runtime.wire.row_files import write_rows
from hayase.runtime.wire.shared_options import SharedOptions
from hayase.runtime.wire.slot_messages import (
    JOB_ENDED,
    Begun,
    Join,
    JoinPool,
    Order,
    PoolRequest,
    ReleaseTopology,
    Round,
    SlotHung,
    TopologyRequest,
    TopologyResult,
    Withdraw,
)
from hayase.runtime.wire.span_protocol import connect
from hayase.runtime.worker.memory_bound import MemoryBound, give_back, share_of_slot
from hayase.runtime.worker.outgoing_rows import OutgoingRows
from hayase.runtime.worker.slot_process import SlotProcess
from hayase.runtime.worker.slot_publisher import publish_together, slot_step
from hayase.runtime.worker.spare_source import machine_of, offer_spares
from hayase.runtime.worker.worker import WorkerProcess
from hayase.serde.faults import said
from hayase.state.delta.journal import EdgeRow
from hayase.task.bundle_result import PreparedEpoch
from hayase.task.epoch_record import EpochRecord
from hayase.task.publication import Publication

if TYPE_CHECKING:
    from hayase.log.kafka.slot_writer import SlotStep

_LOG = logging.getLogger("hayase.runtime")

TOPOLOGIES_MAX = 256
"""A process keeps programs and open states of so many topologies; what was not used for longest goes first."""
TOGETHER_MAX_S = 0.03
"""What is ready is published before another request is begun, if it is that old."""


@dataclass(slots=True)
class _Ready:
    """A request whose epochs are prepared, or which has failed.

    Attributes:
        index: of the request, among those that came with it.
        request: the request.
        host: of its topology.
        epochs: of its bundles; with each whether it was published, `None`: not yet.
        busy_s: how long it took.
        error: what it has failed with.
    """

    index: int
    request: TopologyRequest
    host: WorkerProcess | None = None
    record: EpochRecord | None = None
    epochs: list[tuple[PreparedEpoch, bool | None]] = field(default_factory=list)
    busy_s: float = 0.0
    error: Exception | None = None

    def steps(self) -> list[SlotStep]:
        """What the slot's producer is to write: the epochs of which it is not known yet whether they are written."""
        return [slot_step(epoch.publication, self.request.places) for epoch, written in self.epochs if written is None]

    def note_written(self, now: Sequence[bool]) -> None:
        """Note which of `steps` are written, in the same order."""
        for number, written in zip(self.unpublished(), now, strict=True):
            self.epochs[number] = self.epochs[number][0], written

    def unpublished(self) -> list[int]:
        """Indexes into `epochs` of those of `steps`."""
        return [number for number, (_, written) in enumerate(self.epochs) if written is None]


class SlotWorker:
    """What a worker process keeps from job to job: a host for each topology."""

    def __init__(self, options: SharedOptions) -> None:
        log_to_driver(options.log_address, options.log_level, {}, ())
        self.id = uuid.uuid4().hex
        self._process = SlotProcess(options)
        self._hosts: OrderedDict[str, tuple[str, WorkerProcess]] = OrderedDict()
        self._memory = MemoryBound(options.slot_memory_max_bytes or share_of_slot(options.slots))
        self._in_round = False
        self._preparing = ""

    @property
    def account(self) -> str:
        """The file that says where the process hung if it was ended by the timer of its watchdog; empty: there is none.

        The timer sends nothing, as the watchdog does.
        """
        return self._process.account

    def report_if_hung(self, report: Callable[[SlotHung], object]) -> None:
        """Have the watchdog say which topology the process was at when it ends the process."""
        self._process.watchdog.on_hung = lambda error: report(SlotHung(self._preparing, error))

    def run_round(self, slot: int, work: Round) -> None:
        """Run the requests of a round, and publish their results."""
        requests = [decode_msgpack(each, as_type=PoolRequest) for each in work.requests]
        self._process.round_results(work.run).publish(work.job, slot, list(self.run(requests, in_round=True)))

    def run(
        self,
        requests: Sequence[PoolRequest],
        begun: Callable[[int | None], object] = lambda _: None,
        kept: Callable[[], int | None] = lambda: None,
        *,
        in_round: bool = False,
    ) -> Iterator[TopologyResult]:
        """Run requests; yields their results in that order.

        What several topologies have ready is published together. An error of one of them is part of its result: it ends
        no task.

        Args:
            requests: the requests.
            begun: called with the index of a request that begins behind others; `None`: several are published.
            kept: gives the index of the only request that is still this process's, if others have been withdrawn.
            in_round: results go through the checkpoint, not through the pool.
        """
        self._in_round = in_round
        ready: list[_Ready] = []
        began = time.monotonic()
        for index, request in enumerate(requests):
            if isinstance(request, ReleaseTopology):
                yield from self._publish_and_complete(ready, begun)
                ready = []
                self.release(request.application_id)
                yield TopologyResult()
                continue
            if ready and time.monotonic() - began > TOGETHER_MAX_S:
                yield from self._publish_and_complete(ready, begun)
                ready = []
            if not ready:
                began = time.monotonic()
            if index:
                begun(index)
            ready.append(self._prepared(index, request))
            if (keep := kept()) is not None:
                yield from self._complete_only(keep, ready)
                yield from (TopologyResult() for _ in requests[index + 1 :])
                return
        yield from self._publish_and_complete(ready, begun)
        self._bound_memory()

    def release(self, application_id: str) -> None:
        """Close what is kept for a topology."""
        _, host = self._hosts.pop(application_id, ("", None))
        if host is not None:
            try:
                host.close()
            except KeyboardInterrupt:
                raise
            except BaseException:  # a processor may call sys.exit
                _LOG.warning("what was kept for %s could not be closed", application_id, exc_info=True)

    def close(self) -> None:
        """Let go of everything."""
        for application_id in list(self._hosts):
            self.release(application_id)
        self._process.close()

    def _bound_memory(self) -> None:
        """Close the half of the topologies that was used longest ago if the process holds too much memory."""
        if len(self._hosts) > 1 and self._memory.is_exceeded():
            unused = list(self._hosts)[: len(self._hosts) // 2]
            for application_id in unused:
                self.release(application_id)
            give_back()
            _LOG.info("more than %d bytes of memory were held: %d topologies are closed until they have input",
                      self._memory.max_bytes, len(unused))  # fmt: skip

    def _prepared(self, index: int, request: TopologyRequest) -> _Ready:
        ready = _Ready(index, request)
        began = time.monotonic()
        self._preparing = request.application_id
        with log_context(application_id=request.application_id):
            try:
                self._prepare(ready)
            except KeyboardInterrupt:
                raise
            except BaseException as error:  # of code, data, state or topics of this topology: others go on
                ready.error = error if isinstance(error, Exception) else _no_exception(error)
        self._preparing = ""
        ready.busy_s = time.monotonic() - began
        return ready

    def _prepare(self, ready: _Ready) -> None:
        request = ready.request
        host = ready.host = self._host(request)
        host.watch()
        record = ready.record = EpochRecord.from_bytes(request.record)
        received = host.received()
        try:
            for row in request.rows:
                received.add(row)
            for path in request.files:
                for row in self._process.row_files.read(path):
                    received.add(row)
            for epoch in host.prepare_level(request.level, request.slot, record, received):
                ready.epochs.append((epoch, _publish_now(host, request, epoch.publication)))
        finally:
            received.close()

    def _publish_and_complete(
        self, ready: Sequence[_Ready], begun: Callable[[int | None], object] = lambda _: None
    ) -> Iterator[TopologyResult]:
        """Publish what is ready, and complete it."""
        waiting = [each for each in ready if each.error is None and each.unpublished()]
        if len(waiting) > 1:
            begun(None)
        by_id: dict[str, list[_Ready]] = {}
        for each in waiting:
            by_id.setdefault(each.steps()[0].id, []).append(each)
        for together in by_id.values():
            began = time.monotonic()
            self._publish(together)
            for each in together:
                each.busy_s += (time.monotonic() - began) / len(together)
        for each in ready:
            with log_context(application_id=each.request.application_id):
                yield self._result(each)

    def _complete_only(self, keep: int, ready: Sequence[_Ready]) -> Iterator[TopologyResult]:
        """Complete one; another process does, or has done, what the others are about."""
        for each in ready:
            if each.index == keep:
                yield from self._publish_and_complete([each])
            else:
                self.release(each.request.application_id)
                yield TopologyResult()

    def _publish(self, waiting: Sequence[_Ready]) -> None:
        hosts = [each.host for each in waiting if each.host is not None]
        groups = [each.steps() for each in waiting]
        for each in waiting:
            for number in each.unpublished():
                each.epochs[number][0].publication.reach("before_publish")

        def together(steps: Sequence[SlotStep]) -> list[bool]:
            with at_work(steps[0].bundle, steps[0].marker.epoch), asking():
                return hosts[0].slot_writer().publish(steps)

        def alone(number: int) -> list[bool]:
            with log_context(application_id=waiting[number].request.application_id):
                hosts[number].watch()
                return hosts[number].publish_by_slot(groups[number])

        for each, outcome in zip(waiting, publish_together(groups, together, alone), strict=True):
            if isinstance(outcome, Exception):
                each.error = outcome
                continue
            for number in each.unpublished():
                each.epochs[number][0].publication.reach("after_publish")
            each.note_written(outcome)

    def _result(self, ready: _Ready) -> TopologyResult:
        if ready.error is None:
            try:
                result = self._completed(ready)
            except Exception as error:
                ready.error = error
        if ready.error is not None:
            self.release(ready.request.application_id)
            # The trace begins with the cause, if there is one; the error itself says where it happened.
            said = "".join(traceback.format_exception_only(ready.error))
            trace = "".join(traceback.format_exception(ready.error))
            lost = isinstance(ready.error, LogError) and ready.error.condition == "STATE_MOVED"
            return TopologyResult(error=f"{said}{trace}", busy_s=ready.busy_s, place_lost=lost)
        if ready.record is not None:
            reach("after_rows", epoch=ready.record.epoch)
        return result

    def _completed(self, ready: _Ready) -> TopologyResult:
        """Rows for higher levels, and summaries."""
        host = ready.host
        assert host is not None
        rows = OutgoingRows(host.level_and_slot, self._writes_rows(host))
        summaries = []
        for epoch, written in ready.epochs:
            completed = epoch.completed(published=bool(written))
            for row in completed.rows:
                rows.add(row)
            summaries.append(completed.summary.to_bytes())
        return TopologyResult(rows.rows(), rows.files, summaries, ready.busy_s)

    def _writes_rows(self, host: WorkerProcess) -> Callable[[list[EdgeRow]], str] | None:
        """Where rows go that are too many for a message: in a span between machines, by TCP all the same."""
        if host.can_share_files:
            return partial(write_rows, host.control_dir)
        return self._process.row_files.write_blob if self._in_round else None

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


def _no_exception(error: BaseException) -> ProcessingError:
    """The error of a topology whose code has raised what is to end a process, or a thread of it."""
    failed = ProcessingError(
        "PROCESSING_FAILED",
        f"the topology's code has raised what ends a process: {said(error)}; have it raise an Exception, which the "
        "exception handlers are asked about",
    )
    failed.__cause__ = error
    return failed


def _publish_now(host: WorkerProcess, request: TopologyRequest, publication: Publication) -> bool | None:
    """Publish what is not published together with others; `None`: it is.

    That is what other producers than the slot's write, and what is much, or was spilled: others would wait for it.
    """
    if publication.bundle not in request.places or not publication.batches:
        return host.publish(publication)
    spilled = any(isinstance(batch, StoredBatch) for batch in publication.batches)
    if publication.records < LARGE_EPOCH_RECORDS and not spilled:
        return None
    publication.reach("before_publish")
    (written,) = host.publish_by_slot([slot_step(publication, request.places)])
    publication.reach("after_publish")
    return written


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


def run_pool_slot(options: SharedOptions, task: int, job: int, address: str) -> Iterator[pa.RecordBatch]:
    """Run a task of a shared runtime's Spark job; yields nothing, since results go to the planner."""
    offer_spares(options, address)
    work_off(_worker(options), task, job, address)
    yield from ()


def run_round_slot(options: SharedOptions, slot: int, work: Round) -> Iterator[pa.RecordBatch]:
    """Run a task of a round; yields nothing, since results go through the checkpoint.

    Only the first attempt works: that it has published nothing tells the planner of its death.
    """
    context = TaskContext.get()
    if context is None or context.attemptNumber() == 0:
        _worker(options).run_round(slot, work)
    yield from ()


def work_off(worker: SlotWorker, task: int, job: int, address: str) -> None:
    """Answer what the pool asks of a task, whose slot it chooses, until the job has ended."""
    serve_pool(worker, JoinPool(task, job, worker.id, machine_of(os.getppid()), worker.account), address)


def serve_pool(worker: SlotWorker, join: Join, address: str) -> None:
    """Answer what the pool asks of a process that joins it until the pool sends it away."""
    try:
        with connect(address) as connection:
            connection.send_bytes(msgspec.msgpack.encode(join))
            worker.report_if_hung(lambda report: connection.send_bytes(msgspec.msgpack.encode(report)))

            def kept() -> int | None:
                if not connection.poll():
                    return None
                order = decode_msgpack(connection.recv_bytes(), as_type=Order)
                return order.keep if isinstance(order, Withdraw) else None

            def begun(index: int | None) -> None:
                connection.send_bytes(msgspec.msgpack.encode(Begun(index)))

            while (message := connection.recv_bytes()) != JOB_ENDED:
                order = decode_msgpack(message, as_type=Order)
                if isinstance(order, Withdraw):  # all was completed when it came
                    continue
                requests = [decode_msgpack(each, as_type=PoolRequest) for each in order]
                for result in worker.run(requests, begun, kept):
                    connection.send_bytes(msgspec.msgpack.encode(result))
    except (EOFError, OSError) as error:  # the planner is gone: completed work is in the checkpoints
        _LOG.debug("%s: the connection to the pool is lost: %s", join, error)
