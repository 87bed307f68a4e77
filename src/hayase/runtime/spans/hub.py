"""The planner's end of spans: hands every slot its steps, and waits until all are through."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from multiprocessing.connection import Connection

import msgspec

from hayase.runtime.addresses import RunPlace
from hayase.runtime.spans.door import Door, hang_up
from hayase.runtime.spans.messages import ALONE, OVER, Come, Step, Through
from hayase.state.journal import EdgeRow
from hayase.task.epoch_record import EpochRecord
from hayase.task.plan import Plan

MEANWHILE_S = 0.5
RETURN_S = 10.0
"""How long a task that died may take to come again. Then there is no core for it: the others have to leave theirs."""


class LeftOpen(Enum):
    """Why a span left an epoch open."""

    ENDED = "the span was ended in the middle of it"
    TOO_LARGE = "there is too much to shuffle"
    DESERTED = "a task died and did not come again"


@dataclass(slots=True, eq=False)
class _OpenStep:
    """One level of the epoch that is run."""

    epoch: int
    level: int
    messages: Mapping[int, bytes]
    waiting: set[int]
    rows: list[EdgeRow] = field(default_factory=list)
    summaries: list[bytes] = field(default_factory=list)
    too_large: bool = False


@dataclass(slots=True, eq=False)
class _Span:
    first_epoch: int
    seats: dict[int, Connection] = field(default_factory=dict)
    step: _OpenStep | None = None
    missing_since: dict[int, float] = field(default_factory=dict)
    begun: bool = False
    disturbed: bool = False
    left_open: LeftOpen | None = None
    over: bool = False


class Hub:
    """Where the tasks of the slots come to; one span at a time. Thread-safe.

    Rows for bundles of higher levels go through here too: a span of several levels is for epochs of few records.

    Args:
        plan: of the application.
        slot_of: bundle → slot.
        place: of the run.
    """

    def __init__(self, plan: Plan, slot_of: Mapping[str, int], place: RunPlace) -> None:
        self._place_of_task = {
            task.id: (bundle.level, slot_of[bundle.id]) for bundle in plan.bundles for task in bundle.tasks
        }
        self._levels = [
            frozenset(slot_of[bundle.id] for bundle in plan.bundles if bundle.level == level)
            for level in range(plan.levels)
        ]
        self._slots = frozenset[int]().union(*self._levels)
        self._changed = threading.Condition()
        self._span: _Span | None = None
        self._error: BaseException | None = None
        self._door = Door(place, len(self._slots))
        self.address = self._door.address
        threading.Thread(target=self._listen, name="hayase-span-listen", daemon=True).start()

    def begin(self, first_epoch: int) -> None:
        """A new span: take the tasks that come for the job of that epoch."""
        with self._changed:
            self._span = _Span(first_epoch)

    def seated(self, timeout_s: float) -> bool:
        """Wait until the tasks of all slots are there; whether they are. Ended before, there is no span: each works alone."""
        with self._changed:
            span = self._span
            assert span is not None
            self._changed.wait_for(lambda: span.over or span.seats.keys() == self._slots, timeout_s)
            if not span.over and span.seats.keys() == self._slots:
                span.begun = True
                self._changed.notify_all()
            return span.begun

    def run(self, record: EpochRecord, meanwhile: Callable[[], None]) -> list[bytes]:
        """Have all slots run an epoch; the summaries of the bundles that are through, which are all unless it is `left_open`.

        Args:
            record: of the epoch.
            meanwhile: called once the slots have their work, and then again and again until they are through.
        """
        span = self._span
        assert span is not None
        data = record.to_bytes()
        rows: list[EdgeRow] = []
        summaries: list[bytes] = []
        for level, slots in enumerate(self._levels):
            mine: dict[int, list[EdgeRow]] = {slot: [] for slot in slots}
            for row in rows:
                at, slot = self._place_of_task[row.task]
                if at == level:
                    mine[slot].append(row)
            messages = {slot: msgspec.msgpack.encode(Step(data, level, mine[slot])) for slot in slots}
            step = _OpenStep(record.epoch, level, messages, set(slots))
            with self._changed:
                span.step = step
                self._changed.notify_all()
            self._wait(span, step, meanwhile)
            with self._changed:
                if self._error is not None:
                    raise self._error
                rows += step.rows
                summaries += step.summaries
                if step.waiting:
                    span.left_open = span.left_open or LeftOpen.ENDED
                    break
                span.step = None
            if step.too_large:
                span.left_open = LeftOpen.TOO_LARGE
                break
        return summaries

    def _wait(self, span: _Span, step: _OpenStep, meanwhile: Callable[[], None]) -> None:
        through = False
        while not through:
            meanwhile()
            with self._changed:
                through = self._changed.wait_for(lambda: span.over or not step.waiting, MEANWHILE_S)
                if not through and any(time.monotonic() - since > RETURN_S for since in span.missing_since.values()):
                    span.left_open, span.over = LeftOpen.DESERTED, True
                    self._changed.notify_all()

    @property
    def over(self) -> bool:
        """Whether the span was ended."""
        return self._span is None or self._span.over

    @property
    def disturbed(self) -> bool:
        """Whether a task has come again: it died, and Spark tries it only so often in one job."""
        return self._span is not None and self._span.disturbed

    @property
    def left_open(self) -> LeftOpen | None:
        """Why the last epoch has to be finished by another job, if it has."""
        return self._span.left_open if self._span is not None else None

    def end(self) -> None:
        """The span is over: tasks are told so when they have done their step. Without a span nothing happens."""
        with self._changed:
            if self._span is not None:
                self._span.over = True
            self._changed.notify_all()

    def close(self) -> None:
        """Let go of the tasks, whatever they do."""
        self.end()
        self._door.close()
        with self._changed:
            seats = list(self._span.seats.values()) if self._span is not None else []
        for connection in seats:
            with contextlib.suppress(OSError):
                hang_up(connection)

    def _listen(self) -> None:
        while True:
            try:
                connection = self._door.accept()
            except ConnectionError:  # whoever came has gone
                continue
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), name="hayase-span-slot", daemon=True).start()

    def _serve(self, connection: Connection) -> None:
        # A task that ended in the middle comes again when Spark tries it again.
        with contextlib.suppress(EOFError, OSError), connection, self._failing():
            if not self._door.admits(connection):
                return
            come = msgspec.msgpack.decode(connection.recv_bytes(), type=Come)
            span = self._take(come, connection)
            if span is None:
                connection.send_bytes(ALONE)
                return
            with self._missed(span, come.slot, connection):
                while (step := self._next(span, come.slot, connection)) is not None:
                    connection.send_bytes(step.messages[come.slot])
                    self._through(step, come.slot, msgspec.msgpack.decode(connection.recv_bytes(), type=Through))
                connection.send_bytes(OVER)

    @contextlib.contextmanager
    def _missed(self, span: _Span, slot: int, connection: Connection) -> Iterator[None]:
        """A task that has the seat and is heard no more is missed from then on."""
        try:
            yield
        except (EOFError, OSError):
            with self._changed:
                if span.seats.get(slot) is connection:
                    span.missing_since[slot] = time.monotonic()
            raise

    @contextlib.contextmanager
    def _failing(self) -> Iterator[None]:
        """What nobody expects ends the span; `run` raises it."""
        try:
            yield
        except (EOFError, OSError):
            raise
        except BaseException as error:
            with self._changed:
                self._error = error
            self.end()

    def _take(self, come: Come, connection: Connection) -> _Span | None:
        """Give a task its seat, and wait for the others; `None` if there is no span for it."""
        with self._changed:
            span = self._span
            if span is None or span.first_epoch != come.first_epoch or come.slot not in self._slots:
                return None
            span.disturbed |= come.slot in span.seats
            span.seats[come.slot] = connection
            span.missing_since.pop(come.slot, None)
            self._changed.notify_all()
            self._changed.wait_for(lambda: span.begun or span.over)
            return span if span.begun else None

    def _next(self, span: _Span, slot: int, connection: Connection) -> _OpenStep | None:
        """What the slot is to do; `None` if there is nothing more, or another attempt has its seat."""

        def wanted() -> bool:
            return span.step is not None and slot in span.step.waiting

        with self._changed:
            self._changed.wait_for(lambda: span.over or span.seats[slot] is not connection or wanted())
            return span.step if span.seats[slot] is connection and wanted() and not span.over else None

    def _through(self, step: _OpenStep, slot: int, through: Through) -> None:
        with self._changed:
            if slot in step.waiting and (through.epoch, through.level) == (step.epoch, step.level):
                step.waiting.discard(slot)
                step.rows += through.rows
                step.summaries += through.summaries
                step.too_large |= through.too_large
                self._changed.notify_all()
