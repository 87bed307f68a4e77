"""Commands that were taken back: an action that arrives after its undo is refused, and is undone once."""

from __future__ import annotations

from typing import Any

import msgspec

from hayase.patterns.command_reading import Envelope
from hayase.patterns.replies import Reply, decode_reply, encode_reply
from hayase.patterns.state_rows import stored_reply, time_and_reply, time_key

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
        ids: the store of ids with their replies.
        times: the store of their times.
    """

    def __init__(self, aggregate: str, ids: Any, times: Any) -> None:
        self._aggregate = aggregate
        self._ids = ids
        self._times = times

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
        reply = refusal_of_undone(self._aggregate, undo, version)
        key = _key(undo)
        self._ids.put(key, stored_reply(now_ms, encode_reply(reply)))
        self._times.put(time_key(now_ms, key), b"")

    def _reply(self, undo: Envelope) -> Reply | None:
        stored = self._ids.get(_key(undo))
        if stored is None:
            return None
        try:
            return decode_reply(time_and_reply(stored)[1])
        except msgspec.MsgspecError:
            return None


def _key(undo: Envelope) -> str:
    return f"{undo.aggregate_id}\0{undo.undoes}"
