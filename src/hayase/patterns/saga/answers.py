"""Answers to the commands of a saga: replies and events, sent to the partition of the saga.

An aggregate of the same topology sends them itself; those of other applications are read from their topics.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from hayase.core.records import Headers, Record
from hayase.patterns import cloud_events
from hayase.patterns.command_reading import Envelope
from hayase.patterns.reasons import shortened
from hayase.patterns.replies import Reply, decode_reply
from hayase.patterns.saga.rows import Answer, read_command_id
from hayase.processor.api import ContextualProcessor

ANSWER = "Answer"
"""Type of the records, among the commands of a saga, that carry answers."""


class AnsweredSaga(msgspec.Struct, frozen=True):
    """A saga that gets its answers from an aggregate without a detour through the aggregate's topics (`Answered`).

    Attributes:
        name: of the saga.
        commands_topic: where answers go.
        types: types of the events that count.
    """

    name: str
    commands_topic: str
    types: frozenset[str]

    def answers(
        self, command: Envelope, source: str, events: Sequence[tuple[str, str]], reply: bytes
    ) -> Iterator[tuple[bytes, bytes, Headers]]:
        """See `Answered.answers`."""
        command_id = command.command_id
        parts = read_command_id(self.name, command_id)
        if parts is None:
            return
        found = [(id_, Answer(command_id, "event", each)) for id_, each in events if each in self.types]
        for id_, answer in (*found, (command_id, _answer_of(command_id, decode_reply(reply)))):
            headers = _headers(answer, id_, source, command.correlation_id)
            yield parts.saga_id.encode(), msgspec.json.encode(answer), headers


class AnswerReader(ContextualProcessor[bytes, bytes, bytes, bytes]):
    """Forwards what answers a command of the saga, under the id of the saga.

    Args:
        saga: its name.
        types: types of the events that count; `None`: the topic has replies.
    """

    def __init__(self, saga: str, types: frozenset[str] | None) -> None:
        self._saga = saga
        self._types = types

    def process(self, record: Record[bytes, bytes]) -> None:
        """Forward one answer; what answers other senders is left out."""
        try:
            attributes = cloud_events.from_headers(record.headers)
        except UnicodeDecodeError:
            return
        command_id = attributes.get(cloud_events.CAUSATION, "")
        command = read_command_id(self._saga, command_id)
        if command is None:
            return
        answer = self._answer(command_id, attributes.get(cloud_events.TYPE, ""), record.value)
        if answer is None:
            return
        answered, source = attributes.get(cloud_events.ID, ""), attributes.get(cloud_events.SOURCE)
        headers = _headers(answer, answered, source, attributes.get(cloud_events.CORRELATION))
        self.context.forward(
            Record(command.saga_id.encode(), msgspec.json.encode(answer), record.timestamp_ms, headers)
        )

    def _answer(self, command_id: str, event_type: str, value: bytes | None) -> Answer | None:
        if self._types is not None:
            return Answer(command_id, "event", event_type) if event_type in self._types else None
        try:
            return _answer_of(command_id, decode_reply(value or b""))
        except msgspec.MsgspecError:
            return None


def _answer_of(command_id: str, reply: Reply) -> Answer:
    return Answer(command_id, "reply", reply.status, shortened(reply.reason), reply.events)


def _headers(answer: Answer, answered: str, source: str | None, correlation: str | None) -> Headers:
    """Headers of an answer; `answered`: the id of the reply or event that it is made of."""
    return cloud_events.to_headers({
        cloud_events.ID: f"{answer.command_id}/{answer.kind}/{answered}",
        cloud_events.TYPE: ANSWER,
        cloud_events.SOURCE: source,
        cloud_events.CAUSATION: answer.command_id,
        cloud_events.CORRELATION: correlation,
    })  # fmt: skip
