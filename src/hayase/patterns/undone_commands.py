"""Commands that were taken back: an action that arrives after its undo is refused, and is undone once."""

from __future__ import annotations

import msgspec

from hayase.patterns.command_ids import CommandIds
from hayase.patterns.command_reading import Envelope
from hayase.patterns.replies import Reply, decode_reply, encode_reply

UNDONE = "UNDONE"
"""Code of the reply that an action gets after its undo."""


def refusal_of_undone(aggregate: str, undo: Envelope, version: int) -> Reply:
    """The reply to a command that an undo has taken back."""
    return Reply(
        status="rejected",
        aggregate=aggregate,
        aggregate_id=undo.aggregate_id,
        command_id=undo.undoes,
        version=version,
        reason=f"it was undone by {undo.command_id}",
        code=UNDONE,
    )


class UndoneCommands:
    """Reads and writes the stored replies of commands that undos (header `ce_undoes`) take back.

    Args:
        aggregate: name of the aggregate.
        ids: by which they are remembered.
    """

    def __init__(self, aggregate: str, ids: CommandIds) -> None:
        self._aggregate = aggregate
        self._ids = ids

    def was_accepted(self, undo: Envelope) -> bool:
        """Whether the command that is undone is known to have been accepted, and was not undone."""
        reply = self._reply(undo)
        return reply is not None and reply.accepted

    def was_undone(self, undo: Envelope) -> bool:
        """Whether another undo has taken the command back."""
        reply = self._reply(undo)
        return reply is not None and reply.code == UNDONE

    def refuse_from_now_on(self, undo: Envelope, version: int, now_ms: int) -> None:
        """The undone command gets a refusal, if it arrives from now on."""
        reply = encode_reply(refusal_of_undone(self._aggregate, undo, version))
        self._ids.remember(undo.aggregate_id, undo.undoes, reply, now_ms)

    def _reply(self, undo: Envelope) -> Reply | None:
        kept = self._ids.kept(undo.aggregate_id, undo.undoes)
        if kept is None:
            return None
        try:
            return decode_reply(kept[1])
        except msgspec.MsgspecError:
            return None
