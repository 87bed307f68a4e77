"""Joins of two streams: against a model in plain lists, and cut into epochs anywhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.budget import examples
from tests.unit.task.harness import Chunking, Given, LocalRun, Result, merged, run, run_partitions

from hayase import Consumed, JoinWindows, Produced, Serdes, StreamJoined, StreamsBuilder, Topology, left, right
from hayase.core.metrics import DROPPED_RECORDS
from hayase.serde.murmur2 import partition_for_key
from hayase.state.stores.segmented import segment_interval_ms

TEXT = Serdes.string()
READ = Consumed.with_(TEXT, TEXT)
OFF = {"statestore_cache_max_bytes": 0}
KINDS = ["join", "left_join", "outer_join"]


SINGLE = {"topology.optimization": "single.store.self.join"}


def joined(kind: str, windows: JoinWindows, topics: str = "ab", settings: dict[str, str] | None = None) -> Topology:
    builder = StreamsBuilder()
    one, two = (builder.stream(topic, READ) for topic in topics)
    getattr(one, kind)(two, lambda left, right: f"{left}+{right}", windows).to("out", Produced.with_(TEXT, TEXT))
    return builder.build(settings)


def rekeyed(windows: JoinWindows) -> Topology:
    builder = StreamsBuilder()
    one, two = (builder.stream(topic, READ).select_key(lambda key, value: value[0]) for topic in "ab")
    options = StreamJoined.with_(TEXT)
    one.join(two, lambda left, right: f"{left}+{right}", windows, options).to("out", Produced.with_(TEXT, TEXT))
    return builder.build()


def model(kind: str, windows: JoinWindows, found: list[Given]) -> tuple[list[tuple[bytes | None, bytes, int]], int]:
    """What comes out, and how many records are dropped, those that are too old to be kept among them."""
    outer = {"join": "", "left_join": "a", "outer_join": "ab"}[kind]
    kept: dict[str, list[Given]] = {"a": [], "b": []}
    waiting: list[tuple[int, bool, bytes, int, Given]] = []
    sent: list[tuple[bytes | None, bytes, int]] = []
    now = dropped = 0

    def text(one: Given, other: Given | None) -> bytes:
        mine, theirs = one.value or b"", b"None" if other is None else other.value or b""
        return mine + b"+" + theirs if one.topic == "a" else theirs + b"+" + mine

    def alone(record: Given) -> None:
        sent.append((record.key, text(record, None), record.timestamp_ms))

    def closes(record: Given) -> int:
        reach = windows.after_ms if record.topic == "a" else windows.before_ms
        return record.timestamp_ms + reach + windows.grace_ms

    for number, record in enumerate(found):
        now = max(now, record.timestamp_ms)
        side, other = record.topic, "b" if record.topic == "a" else "a"
        if record.value is None or (record.key is None and side not in outer):
            dropped += 1
            continue
        if record.key is None:
            alone(record)
            continue
        for entry in sorted(entry for entry in waiting if closes(entry[4]) < now):
            alone(entry[4])
            waiting.remove(entry)
        newest = max((each.timestamp_ms for each in kept[other]), default=-1)
        matches = [
            each
            for each in kept[other]
            if each.key == record.key
            and each.timestamp_ms > newest - windows.retention_ms
            and -windows.before_ms
            <= (each.timestamp_ms - record.timestamp_ms) * (1 if side == "a" else -1)
            <= windows.after_ms
        ]
        for match in sorted(matches, key=lambda each: each.timestamp_ms):
            gone = match.timestamp_ms, other == "a", match.key
            waiting = [entry for entry in waiting if entry[:3] != gone]
            sent.append((record.key, text(record, match), max(record.timestamp_ms, match.timestamp_ms)))
        if not matches and side in outer:
            if closes(record) < now:
                alone(record)
            else:
                waiting.append((record.timestamp_ms, side == "a", record.key, number, record))
        newest = max([record.timestamp_ms, *(each.timestamp_ms for each in kept[side])])
        segment = segment_interval_ms(windows.retention_ms)
        dropped += record.timestamp_ms // segment < (newest - windows.retention_ms) // segment
        kept[side].append(record)
    return sent, dropped


keys = st.none() | st.sampled_from([b"k", b"l\x00", b"m"])
records = st.lists(
    st.builds(
        Given,
        st.sampled_from("ab"),
        st.just(0),
        keys,
        st.none() | st.sampled_from([b"x", b"y", b"z"]),
        st.integers(0, 60) | st.integers(0, 200_000),
    ),
    max_size=40,
)
cuts = st.lists(st.integers(0, 40), max_size=5)


@st.composite
def join_windows(draw: Callable[..., int]) -> JoinWindows:
    before = draw(st.integers(-5, 20))
    return JoinWindows(before, draw(st.integers(max(-before, -5), 20)), draw(st.integers(0, 15)))


def sent_of(result: Result) -> list[tuple[bytes | None, bytes | None, int]]:
    return [(record.key, record.value, record.timestamp_ms) for record in result.sent.get("out", [])]


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=examples(60), deadline=None, print_blob=True)
@given(found=records, windows=join_windows(), at=cuts)
def test_what_comes_out_is_what_the_model_says_wherever_the_input_is_cut(
    kind: str, found: list[Given], windows: JoinWindows, at: list[int]
) -> None:
    found = merged(found)
    expected, dropped = model(kind, windows, found)
    result = run(joined(kind, windows), found, at, **OFF)
    assert sent_of(result) == expected
    assert result.metrics.total(DROPPED_RECORDS) == dropped


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=examples(30), deadline=None, print_blob=True)
@given(found=records, windows=join_windows(), at=cuts)
def test_cuts_change_neither_what_is_sent_nor_what_is_kept(
    kind: str, found: list[Given], windows: JoinWindows, at: list[int]
) -> None:
    found = merged(found)
    whole = run(joined(kind, windows), found, **OFF)
    cut = run(joined(kind, windows), found, at, **OFF)
    assert cut.sent == whole.sent
    assert cut.stores == whole.stores
    assert cut.metrics.rows() == whole.metrics.rows()


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=examples(30), deadline=None, print_blob=True)
@given(found=records, windows=join_windows(), at=cuts)
def test_a_stream_joined_with_itself_is_left_side_first_then_right_side(
    kind: str, found: list[Given], windows: JoinWindows, at: list[int]
) -> None:
    found = merged([record._replace(topic="a") for record in found])
    expected, dropped = model(kind, windows, [record._replace(topic=side) for record in found for side in "ab"])
    result = run(joined(kind, windows, "aa"), found, at, **OFF)
    assert sent_of(result) == expected
    assert result.metrics.total(DROPPED_RECORDS) == dropped


@settings(max_examples=examples(60), deadline=None, print_blob=True)
@given(found=records, windows=join_windows(), at=cuts)
def test_a_self_join_with_one_store_sends_what_the_model_of_two_stores_says(
    found: list[Given], windows: JoinWindows, at: list[int]
) -> None:
    found = merged([record._replace(topic="a") for record in found])
    expected, _ = model("join", windows, [record._replace(topic=side) for record in found for side in "ab"])
    result = run(joined("join", windows, "aa", SINGLE), found, at, **OFF)
    assert sent_of(result) == expected


def words(key: str | None, one: dict[str, Any] | None, other: dict[str, Any] | None) -> str:
    if one == {"n": 2, "s": "y"}:
        raise ValueError("no word")
    return f"{key}: {one} {other}"


JOINERS: dict[str, Any] = {
    "fields": {"one": left("n"), "other": right("n"), "s": pl.concat_str(left("s"), right("s")), "at": pl.col("__ts")},
    "failing": {"one": left("s").cast(pl.Int64), "other": right("n")},
    "call": words,
}
FIELDS = Serdes.json(schema={"n": pl.Int64, "s": pl.String})
field_values = st.none() | st.builds(
    lambda n, s: FIELDS.to_bytes({"n": n, "s": s}), st.integers(0, 3), st.sampled_from(["1", "-2", "y", None])
)
field_records = st.lists(
    st.builds(
        Given,
        st.sampled_from("ab"),
        st.just(0),
        keys,
        field_values,
        st.integers(0, 60) | st.integers(0, 200_000),
        st.sampled_from([(), (), (("h", b"1"),)]),
    ),
    max_size=40,
)


def of_fields(
    kind: str, joiner: str, windows: JoinWindows, topics: str, settings: dict[str, str] | None = None
) -> Topology:
    """What is joined has been through other nodes, of which some send several records for one.

    With settings it is one stream.
    """
    builder = StreamsBuilder()
    read = Consumed.with_(TEXT, FIELDS)
    one, two = (builder.stream(topic, read) for topic in topics)
    two = two.filter(pl.col("n").is_null() | (pl.col("n") < 3))
    if settings is not None:
        one = two
    result = getattr(one, kind)(two, JOINERS[joiner], windows, StreamJoined.with_(TEXT, FIELDS, FIELDS))
    result.to("out", Produced.with_(TEXT, TEXT if joiner == "call" else Serdes.json()))
    if joiner == "fields":
        result.merge(one.map_values(JOINED)).to("both", Produced.with_(TEXT, Serdes.json()))
    return builder.build(settings)


JOINED = {"one": pl.col("n"), "other": pl.col("n"), "s": pl.col("s"), "at": pl.col("__ts")}


@pytest.mark.long
@pytest.mark.parametrize("topics", ["ab", "aa"])
@pytest.mark.parametrize("joiner", JOINERS)
@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=examples(40), deadline=None, print_blob=True)
@given(found=field_records, windows=join_windows(), at=cuts)
def test_rows_and_columns_agree(
    kind: str, joiner: str, topics: str, found: list[Given], windows: JoinWindows, at: list[int]
) -> None:
    found = merged(found if topics == "ab" else [each._replace(topic="a") for each in found])
    topology = of_fields(kind, joiner, windows, topics)
    lenient = {"processing_exception_handler": "log_and_continue", **OFF}
    in_rows = run(topology, found, at, processing_form="rows", **lenient)
    in_columns = run(topology, found, at, processing_form="columns", **lenient)
    by_turns = run(topology, found, at, by_turns=True, **lenient)
    for other in (in_columns, by_turns):
        assert other.sent == in_rows.sent
        assert other.stores == in_rows.stores
        assert other.metrics.rows() == in_rows.metrics.rows()


@pytest.mark.parametrize("joiner", JOINERS)
@settings(max_examples=examples(40), deadline=None, print_blob=True)
@given(found=field_records, windows=join_windows(), at=cuts)
def test_a_self_join_sends_the_same_with_one_store_as_with_two_in_both_forms(
    joiner: str, found: list[Given], windows: JoinWindows, at: list[int]
) -> None:
    found = merged([each._replace(topic="a") for each in found])
    lenient = {"processing_exception_handler": "log_and_continue", **OFF}
    one = of_fields("join", joiner, windows, "aa", SINGLE)
    two = of_fields("join", joiner, windows, "aa", {"topology.optimization": "none"})
    assert (len(one.stores), len(two.stores)) == (1, 2)
    expected = run(two, found, processing_form="rows", **lenient)
    in_rows = run(one, found, at, processing_form="rows", **lenient)
    in_columns = run(one, found, at, processing_form="columns", **lenient)
    assert in_rows.sent == expected.sent
    assert in_columns.sent == in_rows.sent
    assert in_columns.stores == in_rows.stores
    assert in_columns.metrics.rows() == in_rows.metrics.rows()
    kept = {place: rows for place, rows in expected.stores.items() if place[1] in one.stores}
    assert {place: rows for place, rows in in_rows.stores.items() if place[1] in one.stores} == kept


@settings(max_examples=examples(15), deadline=None, print_blob=True)
@given(found=records, windows=join_windows())
def test_an_epoch_in_chunks_that_are_spilled_sends_the_same(found: list[Given], windows: JoinWindows) -> None:
    found = merged(found)
    chunked = LocalRun(joined("outer_join", windows), {"a": 1, "b": 1}, chunk=Chunking(records=3), **OFF)
    chunked.run_epoch(found)
    assert sent_of(chunked.finish()) == sent_of(run(joined("outer_join", windows), found, **OFF))


@settings(max_examples=examples(15), deadline=None, print_blob=True)
@given(found=records, at=cuts, threads=st.integers(1, 3))
def test_rekeyed_sides_meet_in_any_number_of_slots_and_epochs(found: list[Given], at: list[int], threads: int) -> None:
    windows = JoinWindows(300_000, 300_000, 0)  # wide: the order in which partitions arrive must not matter
    usable = [record for record in found if record.value is not None]
    spread = merged([each._replace(partition=partition_for_key(each.key or b"", 3)) for each in usable])
    one = run_partitions(rekeyed(windows), {"a": 3, "b": 3}, spread, **OFF)
    other = run_partitions(rekeyed(windows), {"a": 3, "b": 3}, spread, at, threads=threads, **OFF)
    assert sorted(map(repr, sent_of(one))) == sorted(map(repr, sent_of(other)))
