"""The shop one command after the other, by hand: what its topics have to hold, given the commands as they arrived."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import msgspec
from tests.examples.shop_services import SERVICES

from hayase.core.records import SourceRecord
from hayase.patterns import AggregateState, EventSourced, Rejected, Reply
from hayase.patterns.replies import decode_reply

ORDER, CHECKOUT, STOCK = SERVICES["orders"].order, SERVICES["orders"].checkout, SERVICES["stock"].stock
PAYMENT, PARCEL = SERVICES["payments"].payment, SERVICES["shipping"].parcel
AGGREGATES: tuple[EventSourced[Any, Any, Any], ...] = (ORDER, STOCK, PAYMENT, PARCEL)
PARTS = (*AGGREGATES, CHECKOUT)
COPY = "x-copy"
"""Header of a record that is written a second time."""
_DEADLINE_MS = 30 * 60_000
_REACTIONS = {
    ("order", "Placed"): ("checkout-commands", "Place"),
    ("order", "CancelAsked"): ("checkout-commands", "CancelSaga"),
    ("parcel", "Dispatched"): ("stock-commands", "Take"),
}
_GIVEN_UP = {"StepTimedOut", "StepRefused"}
CommandKey = tuple[str, str]
"""Aggregate id and command id."""


class ShopRecords(Protocol):
    """A shop as its topics and stores have it.

    Attributes:
        now_ms: the wall clock of its last epoch.
    """

    now_ms: int

    def records(self, topic: str) -> list[SourceRecord]:
        """All records of a topic, partition by partition."""
        ...

    def rows(self, store: str) -> dict[str, Any]:
        """All rows of a store."""
        ...


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


def expect_model(shop: ShopRecords) -> None:
    """The topics and stores of a shop whose sagas have ended are what the model makes of the same commands."""
    _expect_decisions(shop)
    _expect_reactions(shop)
    _expect_outcomes(shop)


def _expect_decisions(shop: ShopRecords) -> None:
    """Replies, events and states are those of commands that are decided one after the other."""
    for aggregate in AGGREGATES:
        model = AggregateModel(aggregate)
        replies = _without_copies(shop.records(aggregate.replies_topic))
        expected = model.replied(shop.records(aggregate.commands_topic), replies)
        assert _replied_in(replies) == expected, aggregate.name
        assert _events_in(aggregate, shop.records(aggregate.events_topic)) == model.events, aggregate.name
        states = shop.rows(aggregate.state_store)
        keys = states.keys() | model.states.keys()
        differing = {key: (states.get(key), model.states.get(key)) for key in keys}
        differing = {key: pair for key, pair in differing.items() if pair[0] != pair[1]}
        assert differing == {}, f"{aggregate.name}: the store, and the model: {differing}"
        assert shop.records(aggregate.dead_letters_topic) == []


def _expect_reactions(shop: ShopRecords) -> None:
    """Each event has its reactions once, each deadline that has passed was sent once, and there is nothing else."""
    expected: Counter[tuple[str, str, str]] = Counter()
    for aggregate in AGGREGATES:
        for record in shop.records(aggregate.events_topic):
            kind, version = _header(record, "ce_type"), _header(record, "ce_aggregateversion")
            reaction = _REACTIONS.get((aggregate.name, kind))
            command_id = f"{aggregate.name}/{(record.key or b'').decode()}/{version}"
            if reaction is not None:
                expected[(*reaction, f"{command_id}/0")] += 1
            if kind == "Placed" and record.timestamp_ms + _DEADLINE_MS <= shop.now_ms:
                expected["order-commands", "Cancel", f"{command_id}/1"] += 1
    commands = [each for part in (*AGGREGATES, CHECKOUT) for each in shop.records(part.commands_topic)]
    assert _reactions_in(_without_copies(commands), ("order", "parcel", "stock", "payment")) == expected


def _expect_outcomes(shop: ShopRecords) -> None:
    """An order is cancelled if it is refused, and else only where it was asked for or a step was given up."""
    refused, may_fail = set(), set()
    for record in shop.records("order-events"):
        if _header(record, "ce_type") == "CancelAsked":
            may_fail.add((record.key or b"").decode())
        elif _header(record, "ce_type") == "Placed":
            wish = msgspec.json.decode(record.value or b"")["wish"]
            if wish["card"] != "good" or not wish["address"]:
                refused.add((record.key or b"").decode())
    for record in shop.records("checkout-events"):
        if _header(record, "ce_type") in _GIVEN_UP:
            may_fail.add((record.key or b"").decode())
    for part in AGGREGATES:
        for record in shop.records(part.replies_topic):
            reply = msgspec.json.decode(record.value or b"")
            if reply["status"] == "failed" and reply["command_id"].startswith("checkout:"):
                may_fail.add(reply["command_id"].split(":")[1])
    statuses = {key: row.status for key, row in shop.rows(CHECKOUT.state_store).items()}
    for key, status in statuses.items():
        if key in refused:
            assert status == "cancelled", key
        elif key not in may_fail:
            assert status == "completed", key


def _without_copies(records: list[SourceRecord]) -> list[SourceRecord]:
    return [record for record in records if all(name != COPY for name, _ in record.headers)]


def _header(record: SourceRecord, name: str) -> str:
    return (dict(record.headers)[name] or b"").decode()


def _replied_in(replies: list[SourceRecord]) -> dict[CommandKey, list[Outcome]]:
    """What commands were answered with, in the order of each."""
    found: dict[CommandKey, list[Outcome]] = defaultdict(list)
    for record in replies:
        reply = decode_reply(record.value or b"")
        outcome = Outcome(reply.status, reply.version, reply.events, reply.code == "UNDONE")
        found[reply.aggregate_id, reply.command_id].append(outcome)
    return found


def _events_in(aggregate: EventSourced[Any, Any, Any], records: list[SourceRecord]) -> dict[str, list[Any]]:
    """The events of each aggregate, whose versions count up from 1."""
    found: dict[str, list[Any]] = defaultdict(list)
    for record in records:
        headers = dict(record.headers)
        events = found[(record.key or b"").decode()]
        events.append(aggregate.event_types.decode((headers["ce_type"] or b"").decode(), record.value or b""))
        assert int(headers["ce_aggregateversion"] or b"") == len(events)
    return found


def _reactions_in(commands: list[SourceRecord], senders: tuple[str, ...]) -> Counter[tuple[str, str, str]]:
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
