"""The state of a saga as its store keeps it, and its answers."""

from __future__ import annotations

import re
from typing import Any, Literal

import msgspec

from hayase.core.decoding import decode_json
from hayase.core.errors import SerializationError
from hayase.serde import Serde

SagaStatus = Literal["running", "undoing", "completed", "cancelled"]
StepStatus = Literal["waiting", "acting", "done", "refused", "given-up", "undoing", "undone"]
Outcome = Literal["success", "refusal", "unknown"]
OPEN: frozenset[SagaStatus] = frozenset({"running", "undoing"})
_NUMBER = re.compile("[0-9]{1,18}")


class StepRow(msgspec.Struct):
    """A step of one saga.

    Attributes:
        status: `given-up`: its outcome is unknown, and it is to be undone.
        attempt: number in the id of its action; a refusal makes the next one.
        undo_attempt: number in the id of its undo.
        tries: how often the command that is under way was sent, or would have been.
        sent: whether the action of this attempt was ever sent.
        sends_at: the timer sends the command; otherwise it means that no answer came in time.
        due_ms: when its timer fires; 0: it has none.
        reason: why it was refused or tried again, last.
        accepted: the action of this attempt was accepted, with events, and none that the step waits for has come.
    """

    status: StepStatus = "waiting"
    attempt: int = 1
    undo_attempt: int = 0
    tries: int = 0
    sent: bool = False
    sends_at: bool = False
    due_ms: int = 0
    reason: str = ""
    accepted: bool = False


class SagaRow(msgspec.Struct):
    """One saga.

    Attributes:
        id: of the saga.
        version: of its definition.
        status: `undoing`: it takes back what was done; `cancelled`: that is done.
        data: that it was started with, as JSON.
        correlation_id: of what it belongs to.
        start_id: of the command that started it.
        started_ms: when, by the wall clock of the epochs.
        changed_ms: when it last changed.
        steps: by name.
        reason: why it is undone.
        start_digest: see `Reply.request_digest`; of the command that started it.
    """

    id: str
    version: int
    status: SagaStatus
    data: msgspec.Raw
    correlation_id: str
    start_id: str
    started_ms: int
    changed_ms: int
    steps: dict[str, StepRow]
    reason: str = ""
    start_digest: str = ""

    @property
    def tries(self) -> int:
        """How often the command that is under way longest was sent: many mean that the saga is stuck."""
        return max((step.tries for step in self.steps.values() if step.status in ("acting", "undoing")), default=0)

    @property
    def stuck(self) -> bool:
        """Whether an action was sent again, and was accepted with other events than its step waits for."""
        return any(step.status == "acting" and step.accepted and step.tries > 1 for step in self.steps.values())


class SagaRowSerde(Serde[SagaRow]):
    """Rows of the store of a saga: JSON."""

    def to_bytes(self, value: SagaRow) -> bytes:
        """See Serde."""
        return msgspec.json.encode(value)

    def from_bytes(self, data: bytes) -> SagaRow:
        """See Serde."""
        try:
            row = decode_json(data, as_type=SagaRow)
        except msgspec.MsgspecError as error:
            raise SerializationError("MALFORMED_VALUE", f"{data[:200]!r} is no state of a saga: {error}") from error
        row.data = msgspec.Raw(bytes(row.data))
        return row

    def description(self) -> dict[str, Any]:
        """What is compared when a program starts."""
        return {"serde": "JsonSerde", "schema": {"type": "object", "properties": {"id": {"type": "string"}}}}


class Answer(msgspec.Struct, frozen=True, omit_defaults=True):
    """An answer to a command of a saga, as it travels to the partition of the saga.

    Attributes:
        command_id: that it answers.
        kind: a reply, or an event.
        what: the status of the reply, or the type of the event.
        reason: of the reply.
        events: how many the reply says were recorded.
    """

    command_id: str
    kind: Literal["reply", "event"]
    what: str
    reason: str = ""
    events: int = 0


class CommandId(msgspec.Struct, frozen=True):
    """The parts of the id of a command of a saga: `<saga>:<id>:<step>:<action|undo>:<number>`."""

    saga: str
    saga_id: str
    step: str
    undo: bool
    number: int

    def text(self) -> str:
        """The id."""
        return f"{self.saga}:{self.saga_id}:{self.step}:{'undo' if self.undo else 'action'}:{self.number}"


def read_command_id(saga: str, text: str) -> CommandId | None:
    """The parts of an id; `None` if it is none of this saga.

    Example:
        >>> read_command_id("checkout", "checkout:17:pay:undo:2")
        CommandId(saga='checkout', saga_id='17', step='pay', undo=True, number=2)
        >>> read_command_id("checkout", "order/17/1/0") is None
        True
    """
    if not text.startswith(f"{saga}:"):
        return None
    parts = text[len(saga) + 1 :].rsplit(":", 3)
    if len(parts) < 4 or parts[2] not in ("action", "undo") or not _NUMBER.fullmatch(parts[3]):
        return None
    return CommandId(saga, parts[0], parts[1], parts[2] == "undo", int(parts[3]))
