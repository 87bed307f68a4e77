"""Server of spans, in the epoch planner: sends every slot its LevelRequests and waits for the results."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from multiprocessing.connection import Connection
from pathlib import Path

import msgspec

from hayase.core.decoding import decode_msgpack
from hayase.runtime.epochs.slot_layout import SlotLayout
from hayase.runtime.wire.endpoints import RunEndpoints
from hayase.runtime.wire.span_protocol import (
    NO_SPAN,
    SPAN_ENDED,
    JoinSpan,
    LevelRequest,
    LevelResult,
    RowFile,
    SpanListener,
    disconnect,
)
from hayase.state.delta.journal import EdgeRow
from hayase.task.epoch_record import EpochRecord
from hayase.task.plan import Plan

WAIT_POLL_S = 0.5
REJOIN_TIMEOUT_S = 10.0
"""How long a task that died may take to join again.

After that there is no core for it, and the other tasks must free theirs.
"""


class IncompleteReason(Enum):
    """Why a span left an epoch incomplete."""

    ENDED = "the span was ended in the middle of it"
    TOO_LARGE = "there is too much to shuffle"
    TASK_LOST = "a task died and did not join again"


@dataclass(slots=True, eq=False)
class _LevelInProgress:
    """One level of the epoch that runs."""

    epoch: int
    level: int
    messages: Mapping[int, bytes]
    waiting: set[int]
    rows: list[EdgeRow] = field(default_factory=list)
    files: list[RowFile] = field(default_factory=list)
    summaries: list[bytes] = field(default_factory=list)
    too_large: bool = False


@dataclass(slots=True, eq=False)
class _Span:
    first_epoch: int
    connections: dict[int, Connection] = field(default_factory=dict)
    level_run: _LevelInProgress | None = None
    missing_since: dict[int, float] = field(default_factory=dict)
    begun: bool = False
    task_rejoined: bool = False
    incomplete: IncompleteReason | None = None
    over: bool = False


class SpanServer:
    """Server for the tasks of all slots; one span at a time. Thread-safe.

    It carries the rows for bundles of higher levels too, or the names of files with them. Between machines there are no
    files, so there spans of several levels are for epochs of few records.

    Args:
        plan: plan of the application.
        slot_of: bundle → slot.
        addresses of the run.
    """

    def __init__(self, plan: Plan, slot_of: Mapping[str, int], endpoints: RunEndpoints) -> None:
        self._layout = SlotLayout(plan, slot_of)
        self._slots = self._layout.slots
        self._changed = threading.Condition()
        self._span: _Span | None = None
        self._error: BaseException | None = None
        self._listener = SpanListener(endpoints, len(self._slots))
        self.address = self._listener.address
        self._listener.serve(self._serve, "hayase-span-slot")

    def begin(self, first_epoch: int) -> None:
        """Begin a span: admit the tasks of the Spark job that begins with that epoch."""
        with self._changed:
            self._span = _Span(first_epoch)

    def wait_for_tasks(self, timeout_s: float) -> bool:
        """Wait until the tasks of all slots have joined; whether they have.

        If the span ends before, each task runs its epoch alone.
        """
        with self._changed:
            span = self._span
            assert span is not None
            self._changed.wait_for(lambda: span.over or span.connections.keys() == self._slots, timeout_s)
            if not span.over and span.connections.keys() == self._slots:
                span.begun = True
                self._changed.notify_all()
            return span.begun

    def run(self, record: EpochRecord, while_waiting: Callable[[], None]) -> list[bytes]:
        """Run an epoch in all slots; the summaries of the bundles that have completed: all, unless it is `incomplete`.

        Args:
            record: of the epoch.
            while_waiting: called when the slots have their requests, and then repeatedly until they have completed.
        """
        span = self._span
        assert span is not None
        data = record.to_bytes()
        rows: list[EdgeRow] = []
        files: list[RowFile] = []
        summaries: list[bytes] = []
        try:
            for level in range(len(self._layout.levels)):
                level_run = self._begin_level(span, record.epoch, data, level, rows, files)
                self._wait(span, level_run, while_waiting)
                with self._changed:
                    files += level_run.files
                    if self._error is not None:
                        raise self._error
                    rows += level_run.rows
                    summaries += level_run.summaries
                    if level_run.waiting:
                        span.incomplete = span.incomplete or IncompleteReason.ENDED
                        break
                    span.level_run = None
                if level_run.too_large:
                    span.incomplete = IncompleteReason.TOO_LARGE
                    break
        finally:
            for file in files:
                Path(file.path).unlink(missing_ok=True)
        return summaries

    def _begin_level(
        self, span: _Span, epoch: int, record: bytes, level: int, rows: list[EdgeRow], files: list[RowFile]
    ) -> _LevelInProgress:
        rows_of, files_of = self._layout.rows_of(level, rows), self._layout.files_of(level, files)
        messages = {
            slot: msgspec.msgpack.encode(LevelRequest(record, level, rows_of[slot], files_of[slot])) for slot in rows_of
        }
        with self._changed:
            span.level_run = _LevelInProgress(epoch, level, messages, set(messages))
            self._changed.notify_all()
            return span.level_run

    def _wait(self, span: _Span, level_run: _LevelInProgress, while_waiting: Callable[[], None]) -> None:
        completed = False
        while not completed:
            while_waiting()
            with self._changed:
                completed = self._changed.wait_for(lambda: span.over or not level_run.waiting, WAIT_POLL_S)
                if not completed and any(
                    time.monotonic() - since > REJOIN_TIMEOUT_S for since in span.missing_since.values()
                ):
                    span.incomplete, span.over = IncompleteReason.TASK_LOST, True
                    self._changed.notify_all()

    @property
    def over(self) -> bool:
        """Whether the span was ended."""
        return self._span is None or self._span.over

    @property
    def task_rejoined(self) -> bool:
        """Whether a task has joined again: it died, and Spark retries a task only a few times in one job."""
        return self._span is not None and self._span.task_rejoined

    @property
    def incomplete(self) -> IncompleteReason | None:
        """Why another job must complete the last epoch; `None` if it is complete."""
        return self._span.incomplete if self._span is not None else None

    def end(self) -> None:
        """End the span: tasks return when they have completed their request. Without a span nothing happens."""
        with self._changed:
            if self._span is not None:
                self._span.over = True
            self._changed.notify_all()

    def close(self) -> None:
        """Disconnect all tasks, whatever they do."""
        self.end()
        self._listener.close()
        with self._changed:
            connections = list(self._span.connections.values()) if self._span is not None else []
        for connection in connections:
            with contextlib.suppress(OSError):
                disconnect(connection)

    def _serve(self, connection: Connection) -> None:
        # A task that died joins again when Spark retries it.
        with contextlib.suppress(EOFError, OSError), connection, self._failing():
            if not self._listener.authenticates(connection):
                return
            join = decode_msgpack(connection.recv_bytes(), as_type=JoinSpan)
            span = self._admit(join, connection)
            if span is None:
                connection.send_bytes(NO_SPAN)
                return
            with self._noticing_loss(span, join.slot, connection):
                while (level_run := self._next(span, join.slot, connection)) is not None:
                    connection.send_bytes(level_run.messages[join.slot])
                    self._complete(level_run, join.slot, decode_msgpack(connection.recv_bytes(), as_type=LevelResult))
                connection.send_bytes(SPAN_ENDED)

    @contextlib.contextmanager
    def _noticing_loss(self, span: _Span, slot: int, connection: Connection) -> Iterator[None]:
        """Remember since when the slot's current task is gone."""
        try:
            yield
        except (EOFError, OSError):
            with self._changed:
                if span.connections.get(slot) is connection:
                    span.missing_since[slot] = time.monotonic()
            raise

    @contextlib.contextmanager
    def _failing(self) -> Iterator[None]:
        """An unexpected error ends the span; `run` raises it."""
        try:
            yield
        except (EOFError, OSError):
            raise
        except BaseException as error:
            with self._changed:
                self._error = error
            self.end()

    def _admit(self, join: JoinSpan, connection: Connection) -> _Span | None:
        """Admit a task and wait for the others; `None` if there is no span for it."""
        with self._changed:
            span = self._span
            if span is None or span.first_epoch != join.first_epoch or join.slot not in self._slots:
                return None
            span.task_rejoined |= join.slot in span.connections
            span.connections[join.slot] = connection
            span.missing_since.pop(join.slot, None)
            self._changed.notify_all()
            self._changed.wait_for(lambda: span.begun or span.over)
            return span if span.begun else None

    def _next(self, span: _Span, slot: int, connection: Connection) -> _LevelInProgress | None:
        """The slot's next request; `None` if there is none any more, or another attempt has replaced the task."""

        def wanted() -> bool:
            return span.level_run is not None and slot in span.level_run.waiting

        with self._changed:
            self._changed.wait_for(lambda: span.over or span.connections[slot] is not connection or wanted())
            return span.level_run if span.connections[slot] is connection and wanted() and not span.over else None

    def _complete(self, level_run: _LevelInProgress, slot: int, result: LevelResult) -> None:
        with self._changed:
            if slot in level_run.waiting and (result.epoch, result.level) == (level_run.epoch, level_run.level):
                level_run.waiting.discard(slot)
                level_run.rows += result.rows
                level_run.files += result.files
                level_run.summaries += result.summaries
                level_run.too_large |= result.too_large
                self._changed.notify_all()
