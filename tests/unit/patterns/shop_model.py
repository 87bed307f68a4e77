"""The shop one command after the other, by hand: what its topics have to hold, given the commands as they arrived."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from hayase.core.records import SourceRecord
from hayase.patterns import AggregateState, EventSourced, Rejected, Reply
from hayase.patterns.replies import decode_reply

CommandKey = tuple[str, str]
"""Aggregate id and command id."""


class Outcome(NamedTuple):
    """What a reply says."""

    status: str
    version: int
    events: int = 0
    undone: bool = False


@dataclass
class AggregateModel:
    """Aggregates of one kind: commands are decided in the order of their partition, and each id counts once."""

    aggregate: EventSourced[Any, Any, Any]
    states: dict[str, AggregateState[Any]] = field(default_factory=dict)
    events: defaultdict[str, list[Any]] = field(default_factory=lambda: defaultdict(list))
    _known: dict[CommandKey, Outcome] = field(default_factory=dict)

    def replied(self, commands: list[SourceRecord], replies: list[SourceRecord]) -> dict[CommandKey, list[Outcome]]:
        """What all commands have to be answered with, in the order of each; only which of them failed is taken over."""
        given = _by_command([decode_reply(record.value or b"") for record in replies])
        found: dict[CommandKey, list[Outcome]] = defaultdict(list)
        for record in commands:
            headers = {name: (value or b"").decode() for name, value in record.headers}
            key = (record.key or b"").decode(), headers["ce_id"]
            failed = bool(given[key]) and given[key].popleft().status == "failed"
            found[key].append(self._take(key, headers, record.value or b"", failed))
        return found

    def _take(self, key: CommandKey, headers: dict[str, str], value: bytes, failed: bool) -> Outcome:
        if key in self._known:
            return self._known[key]
        before = self.states.get(key[0]) or AggregateState(key[0], 0, self.aggregate.initial_state())
        if failed:
            return Outcome("failed", before.version)
        undone_id = headers.get("ce_undoes")
        undone = self._known.get((key[0], undone_id)) if undone_id else None
        decided: Any = []
        if not (undone and undone.undone):
            command = self.aggregate.command_types.decode(headers["ce_type"], value)
            decided = self.aggregate.decider.decide(command, before.state)
        if isinstance(decided, Rejected) and (not undone_id or (undone and undone.status == "accepted")):
            outcome = Outcome("rejected", before.version)
        else:
            events = [] if isinstance(decided, Rejected) else list(decided or ())
            outcome = Outcome("accepted", before.version + len(events), len(events))
            self._record(before, events)
            if undone_id:
                self._known[key[0], undone_id] = Outcome("rejected", outcome.version, undone=True)
        self._known[key] = outcome
        return outcome

    def _record(self, before: AggregateState[Any], events: list[Any]) -> None:
        if events:
            state = self.aggregate.decider.fold(events, before.state)
            self.states[before.id] = AggregateState(before.id, before.version + len(events), state)
            self.events[before.id] += events


def replied_in(replies: list[SourceRecord]) -> dict[CommandKey, list[Outcome]]:
    """What commands were answered with, in the order of each."""
    found: dict[CommandKey, list[Outcome]] = defaultdict(list)
    for record in replies:
        reply = decode_reply(record.value or b"")
        outcome = Outcome(reply.status, reply.version, reply.events, reply.code == "UNDONE")
        found[reply.aggregate_id, reply.command_id].append(outcome)
    return found


def events_in(aggregate: EventSourced[Any, Any, Any], records: list[SourceRecord]) -> dict[str, list[Any]]:
    """The events of each aggregate, whose versions count up from 1."""
    found: dict[str, list[Any]] = defaultdict(list)
    for record in records:
        headers = dict(record.headers)
        events = found[(record.key or b"").decode()]
        events.append(aggregate.event_types.decode((headers["ce_type"] or b"").decode(), record.value or b""))
        assert int(headers["ce_aggregateversion"] or b"") == len(events)
    return found


def reactions_in(commands: list[SourceRecord], senders: tuple[str, ...]) -> Counter[tuple[str, str, str]]:
    """Commands that reactions of these aggregates sent: topic, type and id."""
    found: Counter[tuple[str, str, str]] = Counter()
    for record in commands:
        headers = {name: (value or b"").decode() for name, value in record.headers}
        if headers["ce_id"].startswith(tuple(f"{sender}/" for sender in senders)):
            found[record.topic, headers["ce_type"], headers["ce_id"]] += 1
    return found


def _by_command(replies: list[Reply]) -> defaultdict[CommandKey, deque[Reply]]:
    found: defaultdict[CommandKey, deque[Reply]] = defaultdict(deque)
    for reply in replies:
        found[reply.aggregate_id, reply.command_id].append(reply)
    return found
