"""Streams joined with versioned tables: against a model in plain lists, and cut into epochs anywhere."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.budget import examples
from tests.unit.task.harness import Chunking, Given, LocalRun, Result, merged, run

from hayase import Consumed, Joined, Materialized, Produced, Serdes, Stores, StreamsBuilder, Topology
from hayase.core.metrics import DROPPED_RECORDS

TEXT = Serdes.string()
READ = Consumed.with_(TEXT, TEXT)
HISTORY_MS = 40
KINDS = ["join", "left_join"]

Sent = list[tuple[bytes | None, bytes | None, int]]


def joined(kind: str, grace_ms: int | None) -> Topology:
    builder = StreamsBuilder()
    stream = builder.stream("s", READ)
    supplier = Stores.persistent_versioned_key_value_store("v", timedelta(milliseconds=HISTORY_MS))
    table = builder.table("t", READ, Materialized.as_(supplier))
    options = Joined.with_(TEXT, TEXT)
    if grace_ms is not None:
        options = options.with_grace_period(timedelta(milliseconds=grace_ms))
    getattr(stream, kind)(table, lambda left, right: f"{left}+{right}", options).to("out", Produced.with_(TEXT, TEXT))
    return builder.build()


class Model:
    """What comes out, and how many records are dropped."""

    def __init__(self, kind: str, grace_ms: int | None) -> None:
        self.left, self.grace_ms = kind == "left_join", grace_ms
        self.versions: dict[bytes, dict[int, bytes | None]] = {}
        self.table_ms = self.stream_ms = -1
        self.waiting: list[tuple[int, bytes, int, bytes]] = []
        self.sent: Sent = []
        self.dropped = 0

    def take(self, number: int, record: Given) -> None:
        key, value, time = record.key, record.value, record.timestamp_ms
        if record.topic == "t":
            if key is None or time < self.table_ms - HISTORY_MS:
                self.dropped += 1
                return
            self.table_ms = max(self.table_ms, time)
            self.versions.setdefault(key, {})[time] = value
        elif value is None or (key is None and not self.left):
            self.dropped += 1
        elif key is None:
            self.sent.append((None, value + b"+None", time))
        elif self.grace_ms is None or time < self.stream_ms - self.grace_ms:
            self.join(key, value, time)
        else:
            self.waiting.append((time, key, number, value))
            self.stream_ms = max(self.stream_ms, time)
            for entry in sorted(each for each in self.waiting if each[0] <= self.stream_ms - self.grace_ms):
                self.waiting.remove(entry)
                self.join(entry[1], entry[3], entry[0])

    def join(self, key: bytes, value: bytes, time: int) -> None:
        times = self.versions.get(key, {})
        found = None
        if times and (max(times) <= time or time >= self.table_ms - HISTORY_MS):
            found = times.get(max((each for each in times if each <= time), default=-1))
        if found is not None or self.left:
            self.sent.append((key, value + b"+" + (found or b"None"), time))


records = st.lists(
    st.builds(
        Given,
        st.sampled_from("st"),
        st.just(0),
        st.none() | st.sampled_from([b"k", b"l", b"m"]),
        st.none() | st.sampled_from([b"x", b"y", b"z"]),
        st.integers(0, 100),
    ),
    max_size=40,
)
cuts = st.lists(st.integers(0, 40), max_size=5)
graces = st.sampled_from([None, 0, 5, HISTORY_MS])


def sent_of(result: Result) -> Sent:
    return [(record.key, record.value, record.timestamp_ms) for record in result.sent.get("out", [])]


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=examples(80), deadline=None, print_blob=True)
@given(found=records, grace_ms=graces, at=cuts)
def test_what_comes_out_is_what_the_model_says_wherever_the_input_is_cut(
    kind: str, found: list[Given], grace_ms: int | None, at: list[int]
) -> None:
    found = merged(found)
    model = Model(kind, grace_ms)
    for number, record in enumerate(found):
        model.take(number, record)
    result = run(joined(kind, grace_ms), found, at)
    assert sent_of(result) == model.sent
    assert result.metrics.total(DROPPED_RECORDS) == model.dropped


@settings(max_examples=examples(40), deadline=None, print_blob=True)
@given(found=records, grace_ms=graces, at=cuts)
def test_cuts_change_neither_what_is_sent_nor_what_is_kept(
    found: list[Given], grace_ms: int | None, at: list[int]
) -> None:
    found = merged(found)
    whole, cut = run(joined("left_join", grace_ms), found), run(joined("left_join", grace_ms), found, at)
    assert cut.sent == whole.sent
    assert cut.stores == whole.stores
    assert cut.metrics.rows() == whole.metrics.rows()


@settings(max_examples=examples(15), deadline=None, print_blob=True)
@given(found=records)
def test_an_epoch_in_chunks_that_are_spilled_sends_the_same(found: list[Given]) -> None:
    found = merged(found)
    chunked = LocalRun(joined("left_join", 5), {"s": 1, "t": 1}, chunk=Chunking(records=3))
    chunked.run_epoch(found)
    assert sent_of(chunked.finish()) == sent_of(run(joined("left_join", 5), found))
