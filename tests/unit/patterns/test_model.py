"""Random commands, duplicates and conflicts, cut into epochs anywhere, equal a sequential model."""

from __future__ import annotations

import tempfile
from collections import defaultdict
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.budget import examples
from tests.unit.patterns.shop import DECIDER, Command, Expire, Order, Pay, Place, order_aggregate, topology_of
from tests.unit.query.local_app import EPOCH_MS, LocalApp

from hayase.core.records import TopicPartition
from hayase.log.protocol import OutputBatch
from hayase.patterns import AggregateState, Rejected
from hayase.patterns.command_reading import command_headers
from hayase.patterns.replies import decode_reply
from hayase.storage.lmdb_env import close_environment

pytestmark = pytest.mark.long

WINDOW_EPOCHS = 2
ORDER = order_aggregate(deduplication_window=timedelta(milliseconds=WINDOW_EPOCHS * EPOCH_MS))


class Sent(NamedTuple):
    aggregate_id: str
    command: Command
    command_id: str
    expected: int | None


commands = st.builds(
    Sent,
    st.sampled_from(["17", "18", "19"]),
    st.one_of(
        st.builds(Place, st.sampled_from(["book", "pen"])), st.builds(Pay, st.integers(1, 14)), st.just(Expire())
    ),
    st.sampled_from("abcdefgh"),
    st.none() | st.integers(0, 3),
)


class Model:
    """One aggregate after the other, by hand."""

    def __init__(self) -> None:
        self.states: dict[str, AggregateState[Order | None]] = {}
        self.replies: dict[tuple[str, str], tuple[int, tuple[str, int, int]]] = {}
        self.events: dict[str, list[Any]] = defaultdict(list)
        self.replied: dict[tuple[str, str], list[tuple[str, int, int]]] = defaultdict(list)

    def send(self, sent: Sent, epoch: int) -> None:
        key = sent.aggregate_id, sent.command_id
        made = self.replies.get(key)
        if made is None or epoch - made[0] >= WINDOW_EPOCHS:
            reply = self._decided(sent)
            if reply[0] != "failed":
                self.replies[key] = epoch, reply
        else:
            reply = made[1]
        self.replied[key].append(reply)

    def _decided(self, sent: Sent) -> tuple[str, int, int]:
        state = self.states.get(sent.aggregate_id, AggregateState(sent.aggregate_id, 0, None))
        if sent.expected not in (None, state.version):
            return "conflict", state.version, 0
        try:
            decided, after = DECIDER.run(sent.command, state.state)
        except RuntimeError:
            return "failed", state.version, 0
        if isinstance(decided, Rejected):
            return "rejected", state.version, 0
        if decided:
            state = AggregateState(state.id, state.version + len(decided), after)
            self.states[state.id] = state
            self.events[state.id] += decided
        return "accepted", state.version, len(decided)


@settings(max_examples=examples(25), deadline=None)
@given(epochs=st.lists(st.lists(commands, max_size=12), min_size=1, max_size=5), interrupted=st.sets(st.integers(0, 4)))
def test_whatever_is_sent_and_however_it_is_cut_the_outcome_is_that_of_the_model(
    epochs: list[list[Sent]], interrupted: set[int]
) -> None:
    model = Model()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        app = LocalApp(folder, topology_of(ORDER), partitions=2)
        try:
            for topic in sorted({*ORDER.topics} - {*app.counts}):
                app.log.create_topic(topic, 2)
            for number, sent in enumerate(epochs):
                for each in sent:
                    model.send(each, number)
                app.writer().append([_batch(sent)])
                record = app.plan_epoch()
                for _ in range(2 if number in interrupted else 1):  # a second attempt adopts what the first has made
                    for bundle in app.plan.bundles:
                        app.run_bundle(bundle.id, record, [])
                app.mark_done(record)
            states = {row.key: row.value for row in app.app.store("order-state").all()}
            assert states == model.states
            assert _events(app) == {key: events for key, events in model.events.items() if events}
            assert _replies(app) == model.replied  # those of one command, in order
        finally:
            app.close()
            for data in folder.rglob("data.mdb"):
                close_environment(data.parent)


def _batch(sent: list[Sent]) -> OutputBatch:
    made = [ORDER.command(each.aggregate_id, each.command) for each in sent]
    headers = [
        command_headers(command, each.command_id, "/tests", 0, {"expectedversion": each.expected})
        for command, each in zip(made, sent, strict=True)
    ]
    keys: list[bytes | None] = [each.aggregate_id.encode() for each in sent]
    values: list[bytes | None] = [command.data for command in made]
    return OutputBatch("order-commands", keys, values, [0] * len(sent), None, headers)


def _records(app: LocalApp, topic: str) -> list[Any]:
    found = []
    for number in range(2):
        place = TopicPartition(topic, number)
        end = app.log.end_offsets([place])[place]
        for batch in app.reader().fetch(place, 0, end) if end else ():
            found += [batch.record(row) for row in range(len(batch))]
    return found


def _events(app: LocalApp) -> dict[str, list[Any]]:
    by_aggregate: dict[str, list[Any]] = defaultdict(list)
    for record in _records(app, "order-events"):
        headers = dict(record.headers)
        aggregate_id = record.key.decode()
        by_aggregate[aggregate_id].append(ORDER.event_types.decode(headers["ce_type"].decode(), record.value))
        assert int(headers["ce_aggregateversion"]) == len(by_aggregate[aggregate_id])
    return by_aggregate


def _replies(app: LocalApp) -> dict[tuple[str, str], list[tuple[str, int, int]]]:
    by_command: dict[tuple[str, str], list[tuple[str, int, int]]] = defaultdict(list)
    replies = [decode_reply(record.value) for record in _records(app, "order-replies")]
    for reply in replies:
        by_command[reply.aggregate_id, reply.command_id].append((reply.status, reply.version, reply.events))
    return by_command
