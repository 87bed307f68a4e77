"""Answers to the commands of a saga: found in replies and events, and sent to the partition of the saga."""

from __future__ import annotations

import msgspec

from hayase.core.records import Record
from hayase.patterns import cloud_events
from hayase.patterns.replies import decode_reply
from hayase.patterns.saga.rows import Answer, read_command_id
from hayase.processor.api import ContextualProcessor

ANSWER = "Answer"
"""Type of the records, among the commands of a saga, that carry answers."""


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
        headers = cloud_events.to_headers({
            cloud_events.ID: f"{command_id}/{answer.kind}/{attributes.get(cloud_events.ID, '')}",
            cloud_events.TYPE: ANSWER,
            cloud_events.SOURCE: attributes.get(cloud_events.SOURCE),
            cloud_events.CAUSATION: command_id,
            cloud_events.CORRELATION: attributes.get(cloud_events.CORRELATION),
        })  # fmt: skip
        key = command.saga_id.encode()
        self.context.forward(Record(key, msgspec.json.encode(answer), record.timestamp_ms, headers))

    def _answer(self, command_id: str, event_type: str, value: bytes | None) -> Answer | None:
        if self._types is not None:
            return Answer(command_id, "event", event_type) if event_type in self._types else None
        try:
            reply = decode_reply(value or b"")
        except msgspec.MsgspecError:
            return None
        return Answer(command_id, "reply", reply.status, reply.reason, reply.events)
