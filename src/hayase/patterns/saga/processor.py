"""The processor of a saga: takes starts, answers and orders, and sends the commands of its steps."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import msgspec

from hayase.core.decoding import decode_json
from hayase.core.errors import LogError, TopologyError
from hayase.core.records import Record
from hayase.dsl.options.stores import Stores
from hayase.patterns import cloud_events
from hayase.patterns.command_reading import (
    Envelope,
    InvalidCommandError,
    UnreadableCommandError,
    command_headers,
    read_command,
    read_envelope,
    reply_headers,
)
from hayase.patterns.outgoing import MAX_BYTES, Outgoing, check_size
from hayase.patterns.reactions import AggregateCommand
from hayase.patterns.reasons import reason_of, shortened
from hayase.patterns.replies import Reply, Status, encode_reply
from hayase.patterns.saga.answers import ANSWER
from hayase.patterns.saga.definition import SagaState, Step, check_versions
from hayase.patterns.saga.machine import SagaMachine
from hayase.patterns.saga.rows import OPEN, Answer, CommandId, SagaRow, SagaRowSerde, StepRow, read_command_id
from hayase.patterns.state_rows import time_and_rest, time_key
from hayase.patterns.subject_keys import SubjectErasedError
from hayase.patterns.supplier import TopicCreatingSupplier
from hayase.patterns.user_code import RAISED, failure_of
from hayase.processor.api import ContextualProcessor, ProcessorContext, PunctuationType
from hayase.processor.metrics import Sensor
from hayase.serde import Serdes
from hayase.state.stores.spec import StoreSpec

if TYPE_CHECKING:
    from hayase.patterns.saga.saga import Saga

_LOG = logging.getLogger("hayase.patterns")

_TIMER_INTERVAL = timedelta(milliseconds=500)
_DUE_AT_ONCE = 10_000
_REPORTED = {"Started": "started", "Completed": "completed", "Cancelled": "cancelled", "Undoing": "undoing"}
_COUNTED = (
    *_REPORTED.values(),
    *("command", "timer", "timed-out", "stuck", "late-success", "unknown-answer", "invalid", "cannot-send"),
)
_COUNTED_STEPS = {"StepTimedOut": "timed-out", "StepStuck": "stuck", "StepSucceededLate": "late-success"}
Forwarded = Record[bytes, Outgoing]


class SagaSupplier(TopicCreatingSupplier):
    """Makes the processors of a saga, and brings its stores."""

    def __init__(self, saga: Saga[Any]) -> None:
        self.saga = saga

    def __call__(self) -> SagaProcessor:
        """A processor for one task."""
        return SagaProcessor(self.saga)

    def stores(self) -> list[StoreSpec]:
        """Sagas, timers by due time, and how many sagas are open by version."""
        raw, name = Serdes.bytes(), self.saga.name
        return [
            Stores.key_value_store(self.saga.state_store, Serdes.string(), SagaRowSerde()),
            Stores.key_value_store(f"{name}-timers", raw, raw),
            Stores.key_value_store(self.saga.open_store, Serdes.string(), Serdes.integer()),
        ]


class SagaProcessor(ContextualProcessor[bytes | None, bytes | None, bytes, Outgoing]):
    """Runs the sagas of one partition."""

    def __init__(self, saga: Saga[Any]) -> None:
        self._saga = saga
        self._checked = False

    def init(self, context: ProcessorContext[bytes, Outgoing]) -> None:
        """See `Processor.init`."""
        super().init(context)
        name = self._saga.name
        for keys in self._saga.keys_of_commands:
            keys.bind(context.app_configs())
        self._rows = context.get_state_store(self._saga.state_store)
        self._timers = context.get_state_store(f"{name}-timers")
        self._open = context.get_state_store(self._saga.open_store)
        metrics = context.metrics()
        self._counted: dict[str, Sensor] = {
            what: metrics.add_rate_total_sensor("saga", name, what) for what in _COUNTED
        }
        context.schedule(_TIMER_INTERVAL, PunctuationType.WALL_CLOCK_TIME, self._fire_due)

    def process(self, record: Record[bytes | None, bytes | None]) -> None:
        """Handle one answer or command."""
        self._check_versions()
        try:
            envelope = read_envelope(record)
        except UnreadableCommandError as error:
            self._counted["invalid"].record()
            _LOG.warning("a record in %s is left out: %s", self._saga.commands_topic, error.reason)
            return
        if envelope.type == ANSWER:
            self._answered(envelope, record.value or b"")
        else:
            self._ordered(envelope, record.value)

    def _answered(self, envelope: Envelope, value: bytes) -> None:
        try:
            answer = decode_json(value, as_type=Answer)
        except msgspec.MsgspecError:
            self._counted["invalid"].record()
            return
        command, row = read_command_id(self._saga.name, answer.command_id), self._rows.get(envelope.aggregate_id)
        if command is None or row is None:
            self._counted["unknown-answer"].record()
            return
        self._change(row, answer.command_id, lambda machine: machine.answer(command, answer))

    def _ordered(self, envelope: Envelope, value: bytes | None) -> None:
        saga, row = self._saga, self._rows.get(envelope.aggregate_id)
        try:
            command = read_command(envelope, value, saga.command_types, saga.replies_topic, MAX_BYTES)
        except InvalidCommandError as error:
            self._counted["invalid"].record()
            self._reply(envelope, "invalid", error.reason, error.code)
            return
        if envelope.type in saga.data.types:
            self._start(envelope, command, row)
            return
        if row is None:
            self._reply(envelope, "rejected", "there is no such saga")
            return
        refused: list[str | None] = []

        def ordered(machine: SagaMachine) -> None:
            if envelope.type == "CancelSaga":
                refused.append(machine.cancel(shortened(command.reason)))
            else:
                refused.append(None if machine.retry() else "it waits for nothing")

        self._change(row, envelope.command_id, ordered)
        reason = refused[0] if refused else "the saga has ended, and had other steps than the program has now"
        self._reply(envelope, "accepted" if reason is None else "rejected", reason or "")

    def _start(self, envelope: Envelope, data: Any, row: SagaRow | None) -> None:
        saga, now_ms = self._saga, self.context.current_system_time_ms()
        if row is not None:
            if row.start_id == envelope.command_id:
                self._reply(envelope, "accepted", digest=row.start_digest)
            else:
                self._reply(envelope, "rejected", "the saga is there already")
            return
        definition = saga.definitions[saga.version]
        json = msgspec.Raw(saga.data.seal(saga.data.name_of(data), data, envelope.aggregate_id))
        row = SagaRow(
            id=envelope.aggregate_id,
            version=saga.version,
            status="running",
            data=json,
            correlation_id=envelope.correlation_id,
            start_id=envelope.command_id,
            started_ms=now_ms,
            changed_ms=now_ms,
            steps={name: StepRow() for name in definition.steps},
            start_digest=envelope.request_digest,
        )
        self._count_open(row.version, 1)
        self._change(row, envelope.command_id, SagaMachine.start)
        self._reply(envelope, "accepted")

    def _change(self, row: SagaRow, cause: str, change: Callable[[SagaMachine], object]) -> None:
        """Apply something to a saga, send what comes of it, and keep row and timers."""
        now_ms = self.context.current_system_time_ms()
        if not self._has_steps_of(row):
            self._counted["unknown-answer"].record()
            return
        was_open, due = row.status in OPEN, {name: step.due_ms for name, step in row.steps.items()}
        machine = SagaMachine(self._saga.name, self._saga.definitions[row.version], row, now_ms)
        change(machine)
        while (command := machine.next_send()) is not None:
            self._send(row, machine, command, cause, now_ms)
        for what, step, reason in machine.reported:
            self._report(row, what, step, reason, cause, now_ms)
        row.changed_ms = now_ms
        self._rows.put(row.id, row)
        for name, step_row in row.steps.items():
            self._set_timer(row.id, name, due[name], step_row.due_ms)
        is_open = row.status in OPEN
        if was_open != is_open:
            self._count_open(row.version, 1 if is_open else -1)
        if not is_open:
            self._timers.put(time_key(now_ms + self._saga.kept_ms, f"{row.id}\0"), b"")

    def _has_steps_of(self, row: SagaRow) -> bool:
        """Whether the definition still has the steps with which a saga began.

        Raises:
            TopologyError: `SAGA_STEPS_CHANGED`: it has not, and the saga is open.
        """
        steps = self._saga.definitions[row.version].steps
        if row.steps.keys() == steps.keys():
            return True
        if row.status in OPEN:
            raise TopologyError(
                "SAGA_STEPS_CHANGED",
                f"{self._saga.name} {row.id!r} is open, and began with the steps {', '.join(row.steps)}; version "
                f"{row.version} of the program has {', '.join(steps)}. Raise `version`, and give the former steps as "
                f"earlier={{{row.version}: […]}}",
            )
        return False

    def _send(self, row: SagaRow, machine: SagaMachine, command: CommandId, cause: str, now_ms: int) -> None:
        step = self._saga.definitions[row.version].steps[command.step]
        try:
            made = self._made(row, step, undo=command.undo)
            check_size("command", made.type, made.data)
        except LogError:  # the keys of personal fields cannot be read now: the epoch is tried again
            raise
        except RAISED as error:  # actions and undos are the user's
            reason = reason_of(failure_of(error))
            _LOG.warning("saga %s %s: %s cannot be made: %s", self._saga.name, row.id, command.text(), reason)
            self._counted["cannot-send"].record()
            machine.could_not_send(command, reason)
            return
        machine.was_sent(command)
        undone = CommandId(command.saga, command.saga_id, command.step, False, row.steps[command.step].attempt)
        more: dict[str, str | int | None] = {
            cloud_events.CAUSATION: cause,
            cloud_events.CORRELATION: row.correlation_id,
            cloud_events.UNDOES: undone.text() if command.undo else None,
        }
        headers = command_headers(made, command.text(), f"/{self._saga.name}", now_ms, more)
        self._counted["command"].record()
        sent = Record(made.aggregate_id.encode(), Outgoing(made.data, topic=made.topic), now_ms, headers)
        self.context.forward(sent, f"{self._saga.name}-steps-sink")

    def _made(self, row: SagaRow, step: Step, *, undo: bool) -> AggregateCommand:
        """The command of an action, or of an undo, made of the data of the saga."""
        types, keys = self._saga.data, self._saga.keys
        name = next(iter(types.types))
        while True:
            with contextlib.nullcontext() if keys is None else keys.reading(), contextlib.suppress(SubjectErasedError):
                return step.command(SagaState(row.id, types.decode(name, bytes(row.data))), undo=undo)

    def _set_timer(self, saga_id: str, step: str, before_ms: int, after_ms: int) -> None:
        if before_ms == after_ms:
            return
        if before_ms:
            self._timers.delete(time_key(before_ms, f"{saga_id}\0{step}"))
        if after_ms:
            self._timers.put(time_key(after_ms, f"{saga_id}\0{step}"), b"")

    def _fire_due(self, now_ms: int) -> None:
        self._check_versions()
        due = []
        for key, _ in self._timers.range(None, time_key(now_ms + 1, "")):
            due.append(key)
            if len(due) == _DUE_AT_ONCE:
                break
        for key in due:
            due_ms, rest = time_and_rest(key)
            saga_id, _, step = rest.rpartition("\0")
            self._timers.delete(key)
            row = self._rows.get(saga_id)
            if row is None:
                continue
            if not step:
                self._forget(row, now_ms)
            elif step in row.steps and row.steps[step].due_ms == due_ms:
                self._counted["timer"].record()
                row.steps[step].due_ms = 0
                self._change(row, f"{self._saga.name}:{saga_id}:{step}:timer", _firing(step))

    def _forget(self, row: SagaRow, now_ms: int) -> None:
        if row.status not in OPEN and row.changed_ms + self._saga.kept_ms <= now_ms:
            self._rows.delete(row.id)

    def _report(self, row: SagaRow, what: str, step: str, reason: str, cause: str, now_ms: int) -> None:
        counted = _REPORTED.get(what) or _COUNTED_STEPS.get(what)
        if counted:
            self._counted[counted].record()
        data = {"step": step, "reason": reason, "status": row.status}
        headers = cloud_events.to_headers({
            cloud_events.ID: f"{row.id}/{now_ms}/{what}/{step}",
            cloud_events.TYPE: what,
            cloud_events.SOURCE: f"/{self._saga.name}",
            cloud_events.SUBJECT: row.id,
            cloud_events.TIME: cloud_events.time_text(now_ms),
            cloud_events.CAUSATION: cause,
            cloud_events.CORRELATION: row.correlation_id,
            cloud_events.APPLICATION: self.context.application_id,
        })  # fmt: skip
        reported: Forwarded = Record(row.id.encode(), Outgoing(msgspec.json.encode(data)), now_ms, headers)
        self.context.forward(reported, f"{self._saga.name}-events-sink")

    def _reply(
        self, envelope: Envelope, status: Status, reason: str = "", code: str = "", *, digest: str | None = None
    ) -> None:
        """Answer a command; `digest`: of the one that is repeated, if it is not this one."""
        now_ms, name = self.context.current_system_time_ms(), self._saga.name
        reply = Reply(
            status=status,
            aggregate=name,
            aggregate_id=envelope.aggregate_id,
            command_id=envelope.command_id,
            command_type=envelope.type,
            reason=reason,
            code=code,
            request_digest=envelope.request_digest if digest is None else digest,
        )
        headers = reply_headers(envelope, f"/{name}", now_ms)
        value = Outgoing(encode_reply(reply), envelope.reply_partition)
        self.context.forward(Record(envelope.command_id.encode(), value, now_ms, headers), f"{name}-replies-sink")

    def _count_open(self, version: int, change: int) -> None:
        self._open.put(str(version), (self._open.get(str(version)) or 0) + change)

    def _check_versions(self) -> None:
        """Refuse a program that does not have the definition of an open saga."""
        if self._checked:
            return
        check_versions(self._saga.name, self._saga.definitions, self._open.all())
        self._checked = True


def _firing(step: str) -> Callable[[SagaMachine], None]:
    return lambda machine: machine.fire(step)
