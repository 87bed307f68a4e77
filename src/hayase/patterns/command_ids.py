"""Ids of the commands that an aggregate has answered, each with its reply, for as long as ids count once."""

from __future__ import annotations

from typing import Any

from hayase.patterns.command_reading import Envelope
from hayase.patterns.state_rows import stored_reply, time_and_reply, time_and_rest, time_key

_EXPIRED_PER_COMMAND = 2
"""More than come in with a command, so the ids that are kept do not grow."""


class CommandIds:
    """Remembers the replies to the commands of one partition.

    Args:
        window_ms: how long; 0: nothing is remembered.
        ids: the store of ids with their replies.
        times: the store of their times.
    """

    def __init__(self, window_ms: int, ids: Any, times: Any) -> None:
        self._window_ms = window_ms
        self._ids = ids
        self._times = times
        self._expired_before_ms = -1
        """Ids that are older than this have been removed in this process."""

    def reply(self, command: Envelope, now_ms: int) -> bytes | None:
        """The reply to an earlier command of that id; `None`: there was none in the window."""
        stored = self._ids.get(_id_key(command.aggregate_id, command.command_id))
        if stored is None:
            return None
        time_ms, reply = time_and_reply(stored)
        return reply if now_ms - time_ms < self._window_ms else None

    def kept(self, aggregate_id: str, command_id: str) -> tuple[int, bytes] | None:
        """Time and reply of a command, as long as they are kept, which may be longer than the window."""
        stored = self._ids.get(_id_key(aggregate_id, command_id))
        return None if stored is None else time_and_reply(stored)

    def remember(self, aggregate_id: str, command_id: str, reply: bytes, now_ms: int) -> None:
        """Give the reply to every repeat of the command from now on."""
        if not self._window_ms:
            return
        key = _id_key(aggregate_id, command_id)
        self._ids.put(key, stored_reply(now_ms, reply))
        self._times.put(time_key(now_ms, key), b"")

    def forget_expired(self, now_ms: int) -> None:
        """Remove a few ids that are too old, if there may be any."""
        before_ms = now_ms - self._window_ms
        if before_ms <= self._expired_before_ms:
            return
        expired = []
        for key, _ in self._times.range(None, time_key(before_ms + 1, "")):
            expired.append(key)
            if len(expired) == _EXPIRED_PER_COMMAND:
                break
        else:
            self._expired_before_ms = before_ms
        for key in expired:
            time_ms, of_id = time_and_rest(key)
            self._times.delete(key)
            stored = self._ids.get(of_id)
            if stored is not None and time_and_reply(stored)[0] == time_ms:  # else the id was used again
                self._ids.delete(of_id)


def _id_key(aggregate_id: str, command_id: str) -> str:
    return f"{aggregate_id}\0{command_id}"
