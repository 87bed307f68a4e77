"""The processor of an aggregate: takes commands, decides, and sends events, replies and the commands of reactions."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import msgspec

from hayase.core.decoding import decode_msgpack
from hayase.core.errors import LogError
from hayase.core.records import Headers, Record
from hayase.dsl.options.stores import Stores
from hayase.patterns import cloud_events
from hayase.patterns.command_ids import CommandIds
from hayase.patterns.command_reading import (
    Envelope,
    InvalidCommandError,
    UnreadableCommandError,
    command_headers,
    read_command,
    read_envelope,
    reply_headers,
)
from hayase.patterns.dead_letters import fitting
from hayase.patterns.decider import Rejected
from hayase.patterns.outgoing import Answered, Outgoing, check_size
from hayase.patterns.reactions import AggregateCommand, Deadline, Reaction
from hayase.patterns.reasons import reason_of, shortened
from hayase.patterns.recorded_events import event_headers
from hayase.patterns.replies import Reply, Status, encode_reply
from hayase.patterns.state_rows import AggregateState, time_key
from hayase.patterns.subject_keys import SubjectErasedError
from hayase.patterns.supplier import TopicCreatingSupplier
from hayase.patterns.undone_commands import UndoneCommands
from hayase.patterns.user_code import RAISED, failure_of
from hayase.processor.api import ContextualProcessor, ProcessorContext, PunctuationType
from hayase.processor.handlers import HandlerAnswer
from hayase.processor.metrics import Sensor
from hayase.serde import Serdes
from hayase.state.stores.spec import StoreSpec

if TYPE_CHECKING:
    from hayase.patterns.event_sourced import EventSourced

_LOG = logging.getLogger("hayase.patterns")

DEADLINE_INTERVAL = timedelta(milliseconds=500)
"""How often deadlines are looked at: a deadline is up to this late."""
_DUE_AT_ONCE = 10_000
_COUNTED = (
    "accepted", "rejected", "conflict", "failed", "invalid", "repeated", "dead-letter", "event", "deadline",
)  # fmt: skip
_META = "\0evolve"


@dataclass(frozen=True, slots=True)
class FailedCommand:
    """A command on which `decide`, `evolve` or a reaction raised, for the failure handler.

    Attributes:
        aggregate: the name of the aggregate.
        aggregate_id: which one.
        version: that it has.
        command_id: of the command.
        command: itself.
    """

    aggregate: str
    aggregate_id: str
    version: int
    command_id: str
    command: Any


FailureHandler = Callable[[FailedCommand, Exception], HandlerAnswer]
"""Decides what happens when the code of an aggregate raises."""


class _Outcome(msgspec.Struct):
    """All that a command does, made before any of it is written."""

    state: AggregateState[Any]
    events: list[Record[bytes, Outgoing]] = msgspec.field(default_factory=list)
    commands: list[Record[bytes, Outgoing]] = msgspec.field(default_factory=list)
    deadlines: list[tuple[int, str, Record[bytes, Outgoing]]] = msgspec.field(default_factory=list)
    rejected: str | None = None


class AggregateSupplier(TopicCreatingSupplier):
    """Makes the processors of an aggregate, and brings its stores."""

    answered: tuple[Answered, ...] = ()
    """Senders of commands in the same topology that get their answers at once."""

    def __init__(self, aggregate: EventSourced[Any, Any, Any]) -> None:
        self.aggregate = aggregate

    def __call__(self) -> AggregateProcessor:
        """A processor for one task."""
        return AggregateProcessor(self.aggregate, self.answered)

    def stores(self) -> list[StoreSpec]:
        """States, ids of commands with their replies, their times, and deadlines."""
        text, raw = Serdes.string(), Serdes.bytes()
        aggregate = self.aggregate
        return [
            Stores.key_value_store(aggregate.state_store, text, aggregate.state_serde()),
            Stores.key_value_store(f"{aggregate.name}-command-ids", text, raw),
            Stores.key_value_store(f"{aggregate.name}-command-times", raw, raw),
            Stores.key_value_store(f"{aggregate.name}-deadlines", raw, raw),
        ]


class AggregateProcessor(ContextualProcessor[bytes | None, bytes | None, bytes, Outgoing]):
    """Decides the commands of the aggregates of one partition, one after the other."""

    def __init__(self, aggregate: EventSourced[Any, Any, Any], answered: Sequence[Answered] = ()) -> None:
        self._aggregate = aggregate
        self._answered = answered
        self._source = f"/{aggregate.name}"
        self._source_header = cloud_events.header(cloud_events.SOURCE, self._source)
        self._events_sink = f"{aggregate.name}-events-sink"
        self._replies_sink = f"{aggregate.name}-replies-sink"
        self._commands_sink = f"{aggregate.name}-reactions-sink"
        self._compared = False

    def init(self, context: ProcessorContext[bytes, Outgoing]) -> None:
        """See `Processor.init`."""
        super().init(context)
        name = self._aggregate.name
        for keys in self._aggregate.keys_of_commands:
            keys.bind(context.app_configs())
        self._application_header = cloud_events.header(cloud_events.APPLICATION, context.application_id)
        self._states = context.get_state_store(self._aggregate.state_store)
        self._id_rows = context.get_state_store(f"{name}-command-ids")
        times = context.get_state_store(f"{name}-command-times")
        self._deadlines = context.get_state_store(f"{name}-deadlines")
        self._ids = CommandIds(self._aggregate.limits.deduplication_ms, self._id_rows, times)
        self._undone = UndoneCommands(name, self._ids)
        metrics = context.metrics()
        self._counted: dict[str, Sensor] = {
            what: metrics.add_rate_total_sensor("event-sourced", name, what) for what in _COUNTED
        }
        self._timer = context.schedule(DEADLINE_INTERVAL, PunctuationType.WALL_CLOCK_TIME, self._send_due)

    def process(self, record: Record[bytes | None, bytes | None]) -> None:
        """Handle one command."""
        keys = self._aggregate.keys
        if keys is None:
            self._process(record)
            return
        while True:
            with keys.reading(), contextlib.suppress(SubjectErasedError):  # nothing is written yet: read it as erased
                self._process(record)
                return

    def _process(self, record: Record[bytes | None, bytes | None]) -> None:
        now_ms = self.context.current_system_time_ms()
        self._compare_evolve()
        self._ids.forget_expired(now_ms)
        try:
            envelope = read_envelope(record)
        except UnreadableCommandError as error:
            self._dead_letter(record, error.code, error.reason)
            return
        stored = self._ids.reply(envelope, now_ms)
        if stored is not None:
            self._counted["repeated"].record()
            self._reply_with(envelope, stored, now_ms)
            return
        aggregate = self._aggregate
        row = self._states.get(envelope.aggregate_id)
        before = row or AggregateState(envelope.aggregate_id, 0, aggregate.initial_state())
        try:
            limit = aggregate.limits.max_bytes
            command = read_command(envelope, record.value, aggregate.command_types, aggregate.replies_topic, limit)
            expected = envelope.expected_version()
        except InvalidCommandError as error:
            self._reply(envelope, before.version, "invalid", now_ms, reason=error.reason, code=error.code)
            return
        if expected is not None and expected != before.version:
            reason = f"the aggregate has version {before.version}, expected was {expected}"
            conflict = self._reply(envelope, before.version, "conflict", now_ms, reason=reason)
            self._ids.remember(envelope.aggregate_id, envelope.command_id, conflict, now_ms)
            return
        try:
            undone_before = bool(envelope.undoes) and self._undone.was_undone(envelope)
            outcome = _Outcome(before) if undone_before else self._decide(envelope, command, before, now_ms)
        except (LogError, SubjectErasedError):  # the keys of personal fields cannot be read now: it is tried again
            raise
        except RAISED as error:  # decide, evolve and reactions are the user's
            self._failed(record, envelope, command, before, failure_of(error))
            return
        self._write(envelope, outcome, now_ms)

    def _decide(self, envelope: Envelope, command: Any, before: AggregateState[Any], now_ms: int) -> _Outcome:
        aggregate = self._aggregate
        decided = aggregate.decider.decide(command, before.state)
        if isinstance(decided, Rejected):
            undoes_nothing = bool(envelope.undoes) and not self._undone.was_accepted(envelope)
            return _Outcome(before, rejected=None if undoes_nothing else decided.reason)
        outcome, key = _Outcome(before), before.id.encode()
        event_types, max_bytes, cause = aggregate.event_types, aggregate.limits.max_bytes, self._cause(envelope)
        for event in decided or ():
            name = event_types.name_of(event)
            data = event_types.seal(name, event, before.id)
            check_size("event", name, data, max_bytes)
            state = outcome.state
            outcome.state = AggregateState(state.id, state.version + 1, aggregate.evolved(state.state, event))
            headers = event_headers(
                state.id, outcome.state.version, name, aggregate.data_versions.get(name, 1), now_ms, cause
            )
            outcome.events.append(Record(key, Outgoing(data), now_ms, headers))
            if aggregate.reactions:
                self._react(envelope, event, outcome, now_ms)
        if outcome.events:
            self._states.put(before.id, outcome.state)  # what cannot be kept fails here, before anything is sent
        return outcome

    def _cause(self, envelope: Envelope) -> Headers:
        """Headers of the events that a command makes: what caused them, and who decided."""
        sender = envelope.headers.get("ce_source")
        cause: Headers = (
            self._source_header,
            ("ce_causationid", envelope.command_id.encode()),
            ("ce_correlationid", envelope.correlation),
            self._application_header,
        )
        return cause if sender is None else (*cause, ("ce_commandsource", sender))

    def _react(self, envelope: Envelope, event: object, outcome: _Outcome, now_ms: int) -> None:
        number = 0
        for reacting in self._aggregate.reactions:
            if reacting.event is not type(event):
                continue
            for reaction in reacting.run(event, outcome.state):
                event_id = f"{outcome.state.id}/{outcome.state.version}"
                command_id = f"{self._aggregate.name}/{event_id}/{number}"
                number += 1
                command, due_ms = _due(reaction, now_ms)
                check_size("command", f"{command.type} of a reaction", command.data, self._aggregate.limits.max_bytes)
                headers = self._headers_of(command, command_id, event_id, envelope, due_ms)
                record = Record(
                    command.aggregate_id.encode(), Outgoing(command.data, topic=command.topic), due_ms, headers
                )
                if isinstance(reaction, Deadline):
                    outcome.deadlines.append((due_ms, command_id, record))
                else:
                    outcome.commands.append(record)

    def _headers_of(
        self, command: AggregateCommand, command_id: str, event_id: str, envelope: Envelope, due_ms: int
    ) -> Headers:
        more: dict[str, str | int | None] = {
            cloud_events.CAUSATION: event_id,
            cloud_events.CORRELATION: envelope.correlation_id,
        }
        return command_headers(command, command_id, self._source, due_ms, more)

    def _write(self, envelope: Envelope, outcome: _Outcome, now_ms: int) -> None:
        for event in outcome.events:
            self._counted["event"].record()
            self.context.forward(event, self._events_sink)
        for due_ms, command_id, record in outcome.deadlines:
            kept = (record.value.topic, record.key, record.headers, record.value.data)
            self._deadlines.put(time_key(due_ms, command_id), msgspec.msgpack.encode(kept))
        if outcome.rejected is None:
            reply = self._reply(envelope, outcome.state.version, "accepted", now_ms, events=outcome.events)
        else:
            reply = self._reply(envelope, outcome.state.version, "rejected", now_ms, reason=outcome.rejected)
        self._ids.remember(envelope.aggregate_id, envelope.command_id, reply, now_ms)
        if envelope.undoes and outcome.rejected is None:
            self._undone.refuse_from_now_on(envelope, outcome.state.version, now_ms)
        for command in outcome.commands:
            self.context.forward(command, self._commands_sink)

    def _failed(
        self,
        record: Record[bytes | None, bytes | None],
        envelope: Envelope,
        command: Any,
        before: AggregateState[Any],
        error: Exception,
    ) -> None:
        name = self._aggregate.name
        failed = FailedCommand(name, before.id, before.version, envelope.command_id, command)
        answer = self._aggregate.failure_handler(failed, error)
        if answer is HandlerAnswer.FAIL:
            raise error
        reason = reason_of(error)
        _LOG.warning(
            "command %s (%s) failed on %s %s at version %d: %s",
            envelope.command_id, envelope.type, name, before.id, before.version, reason, exc_info=error,
        )  # fmt: skip
        if answer is HandlerAnswer.DEAD_LETTER:
            self._dead_letter(record, "FAILED", reason)
        self._reply(envelope, before.version, "failed", self.context.current_system_time_ms(), reason=reason)

    def _reply(
        self,
        envelope: Envelope,
        version: int,
        status: Status,
        now_ms: int,
        *,
        events: Sequence[Record[bytes, Outgoing]] = (),
        reason: str = "",
        code: str = "",
    ) -> bytes:
        self._counted[status].record()
        data = encode_reply(
            Reply(
                status=status,
                aggregate=self._aggregate.name,
                aggregate_id=envelope.aggregate_id,
                command_id=envelope.command_id,
                command_type=envelope.type,
                version=version,
                events=len(events),
                reason=shortened(reason),
                code=code,
                request_digest=envelope.request_digest,
            )
        )
        self._reply_with(envelope, data, now_ms, events)
        return data

    def _reply_with(
        self, envelope: Envelope, data: bytes, now_ms: int, events: Sequence[Record[bytes, Outgoing]] = ()
    ) -> None:
        """Send a reply to the command's sender: to its topic, and, if it gets answers at once, to itself."""
        headers = reply_headers(envelope, self._source, now_ms)
        reply = Outgoing(data, envelope.reply_partition)
        self.context.forward(Record(envelope.command_id.encode(), reply, now_ms, headers), self._replies_sink)
        for sender in self._answered:
            caused = [cloud_events.id_and_type(event.headers) for event in events]
            for key, answer, answer_headers in sender.answers(envelope, self._source, caused, data):
                command = Record(key, Outgoing(answer, topic=sender.commands_topic), now_ms, answer_headers)
                self.context.forward(command, self._commands_sink)

    def _dead_letter(self, record: Record[bytes | None, bytes | None], code: str, reason: str) -> None:
        self._counted["dead-letter"].record()
        place = self.context.record_metadata()
        errors = {"exception": code, "message": reason}
        if place is not None:
            errors |= {"topic": place.topic, "partition": str(place.partition), "offset": str(place.offset)}
        key, value, headers = fitting(record)
        headers = (*headers, *((f"__streams.errors.{name}", text.encode()) for name, text in errors.items()))
        now_ms = self.context.current_system_time_ms()
        dead = Record(key, Outgoing(value), now_ms, headers)
        self.context.forward(dead, f"{self._aggregate.name}-dead-letters-sink")

    def _send_due(self, now_ms: int) -> None:
        due = []
        for key, kept in self._deadlines.range(None, time_key(now_ms + 1, "")):
            due.append((key, kept))
            if len(due) == _DUE_AT_ONCE:
                break
        for key, kept in due:
            self._deadlines.delete(key)
            self._counted["deadline"].record()
            topic, aggregate_id, headers, data = decode_msgpack(kept, as_type=tuple[str, bytes, Headers, bytes])
            record = Record(aggregate_id, Outgoing(data, topic=topic), now_ms, headers)
            self.context.forward(record, self._commands_sink)
        # A program without reactions sends the deadlines of the one before it; then it needs no epochs for them.
        if not self._aggregate.reactions and next(iter(self._deadlines.all()), None) is None:
            self._timer.cancel()

    def _compare_evolve(self) -> None:
        """Warn once if `evolve` is other code than that which made the states."""
        if self._compared:
            return
        self._compared = True
        digest, kept = self._aggregate.evolve_digest().encode(), self._id_rows.get(_META)
        if kept is not None and kept != digest:
            _LOG.warning(
                "evolve of %s has changed; states that are kept are those of the earlier one. If they do not count any "
                "more, raise state_version and run `hayase events rebuild`", self._aggregate.name,
            )  # fmt: skip
        if kept != digest:
            self._id_rows.put(_META, digest)


def _due(reaction: Reaction, now_ms: int) -> tuple[AggregateCommand, int]:
    if isinstance(reaction, Deadline):
        return reaction.command, now_ms + reaction.after // timedelta(milliseconds=1)
    return reaction, now_ms
