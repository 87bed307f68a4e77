"""Stores with a time to live.

Rows are there until stream time has passed them by it, however the input is cut into epochs.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.budget import examples
from tests.unit.task.harness import Chunking, Given, LocalRun, Result, merged, run

from hayase import (
    Consumed,
    FixedKeyProcessor,
    FixedKeyProcessorContext,
    FixedKeyRecord,
    Grouped,
    JsonSerde,
    Materialized,
    Produced,
    Serdes,
    Stores,
    StreamsBuilder,
    Topology,
    ValueAndTimestamp,
    count,
    sum_,
)
from hayase.core.errors import TopologyError
from hayase.state.stores.ttl_store import TtlStore

TTL_MS = 10
TTL = timedelta(milliseconds=TTL_MS)
TEXT, LONG, JSON = Serdes.string(), Serdes.long(), Serdes.json(sort_fields=True)
READ = Consumed.with_(TEXT, JSON)
WRITE = Produced.with_(TEXT, JSON)


class Seen(FixedKeyProcessor[str, Any, Any]):
    """Passes on what it has not seen for a while."""

    def init(self, context: FixedKeyProcessorContext[str, Any]) -> None:
        self.context, self.store = context, context.get_state_store("seen")

    def process(self, record: FixedKeyRecord[str, Any]) -> None:
        if self.store.get(record.key) is None:
            self.store.put(record.key, ValueAndTimestamp(1, record.timestamp_ms))
            everything = sorted(key for key, _ in self.store.all())
            self.context.forward(record.with_value({"first": record.timestamp_ms, "keys": everything}))


def counted() -> Topology:
    """Built-in aggregates, a count, and a table of them."""
    builder = StreamsBuilder()
    grouped = builder.stream("a", READ).group_by_key()
    table = grouped.agg(Materialized.as_("t").with_ttl(TTL).with_value_serde(JSON), n=count(), total=sum_("n"))
    table.to_stream().to("out", WRITE)
    table.filter(pl.col("total") > 3).to_stream().to("large", WRITE)
    grouped.count(Materialized.as_("c").with_ttl(TTL)).to_stream().to("counts", Produced.with_(TEXT, LONG))
    return builder.build()


def looked_up() -> Topology:
    """A stream and a table joined with a table that forgets, and one that forgets what comes of it."""
    builder = StreamsBuilder()
    stream = builder.stream("a", READ)  # first: `merged` breaks ties by topic, tasks by the order of their sources
    table = builder.table("b", READ, Materialized.as_("t").with_ttl(TTL))
    stream.left_join(table, both).to("joined", WRITE)
    other = builder.stream("c", READ).to_table(Materialized.as_("o"))
    kept = Materialized.as_("k").with_ttl(2 * TTL).with_value_serde(JSON)
    table.outer_join(other, both, kept).to_stream().to("tables", WRITE)
    table.map_values(lambda row: row["n"]).to_stream().to("mapped", WRITE)
    return builder.build()


def rekeyed() -> Topology:
    """A level further up."""
    builder = StreamsBuilder()
    stream = builder.stream("a", READ).filter(pl.col("n") > 0)
    table = stream.group_by(lambda _, row: str(row["n"] % 2), Grouped.with_(TEXT, JSON)).count(
        Materialized.as_("t").with_ttl(TTL)
    )
    table.to_stream().to("out", Produced.with_(TEXT, LONG))
    return builder.build()


def processed() -> Topology:
    builder = StreamsBuilder()
    builder.add_state_store(Stores.timestamped_key_value_store("seen", TEXT, LONG, ttl=TTL))
    builder.stream("a", READ).process_values(Seen, "seen").to("out", WRITE)
    return builder.build()


TOPOLOGIES = [counted, looked_up, rekeyed, processed]


def both(one: Any, other: Any) -> dict[str, Any]:
    return {"l": one and one["n"], "r": other and other["n"]}


@st.composite
def inputs(draw: st.DrawFn) -> list[Given]:
    """Records of three topics, not quite in order of time, deletes among them."""
    found, time_ms = [], 0
    for _ in range(draw(st.integers(0, 30))):
        time_ms = max(0, time_ms + draw(st.integers(-6, 9)))
        value = draw(st.one_of(st.none(), st.integers(-2, 5)))
        topic = draw(st.sampled_from("abc"))
        data = None if value is None and topic != "a" else json.dumps({"n": value or 0}).encode()
        found.append(Given(topic, 0, draw(st.sampled_from([b"x", b"y", b"z"])), data, time_ms))
    return merged(found)


def seen_of(result: Result) -> dict[tuple[str, str], dict[bytes, bytes]]:
    """The rows that have not expired, of stores with a time to live; all rows of others; and the stream times."""
    found = {}
    for (task, store), rows in result.stores.items():
        clock = result.stores[(task, "__clocks")].get(b"task/stream-time")
        ttl_ms = {"o": None, "k": 2 * TTL_MS, "__clocks": None}.get(store, TTL_MS)
        if store == "__clocks":
            rows = {name: time for name, time in rows.items() if not name.startswith(b"time-to-live/")}
        elif ttl_ms is not None and clock is not None:
            until = int.from_bytes(clock, "big") - ttl_ms
            rows = {key: row for key, row in rows.items() if int.from_bytes(row[:8], "big", signed=True) > until}
        found[(task, store)] = rows
    return found


@pytest.mark.long
@pytest.mark.parametrize("build", TOPOLOGIES)
@settings(max_examples=examples(40), deadline=None)
@given(records=inputs(), cuts=st.lists(st.integers(0, 30), max_size=8), data=st.data())
def test_what_is_sent_and_seen_does_not_depend_on_where_the_input_is_cut(
    build: Any, records: list[Given], cuts: list[int], data: st.DataObject
) -> None:
    topology = build()
    topics = {name for node in topology.nodes for name in getattr(node, "topics", ())}
    records = [record for record in records if record.topic in topics]
    whole = run(topology, records, processing_form="rows")
    chunk = data.draw(st.one_of(st.none(), st.builds(Chunking, st.integers(1, 5), st.integers(1, 500), st.booleans())))
    cut = run(topology, records, cuts, chunk=chunk, prefix=data.draw(st.booleans()))
    one_by_one = run(topology, records, range(len(records)))
    assert whole.sent == cut.sent == one_by_one.sent
    assert seen_of(whole) == seen_of(cut) == seen_of(one_by_one)


@settings(max_examples=examples(40), deadline=None)
@given(records=inputs())
def test_an_aggregate_begins_anew_once_stream_time_has_passed_its_row_by_the_time_to_live(records: list[Given]) -> None:
    records = [record for record in records if record.topic == "a"]
    rows: dict[bytes | None, tuple[int, int]] = {}
    stream_time_ms, expected = -1, []
    for record in records:
        stream_time_ms = max(stream_time_ms, record.timestamp_ms)
        n, time_ms = rows.get(record.key, (0, -1))
        if time_ms <= stream_time_ms - TTL_MS:
            n, time_ms = 0, -1
        rows[record.key] = n + 1, max(time_ms, record.timestamp_ms)
        expected.append((record.key, LONG.serialize(n + 1)))
    sent = run(counted(), records).sent.get("counts", [])
    assert [(record.key, record.value) for record in sent] == expected


def given_at(time_ms: int, key: str = "x", topic: str = "a", n: int = 1) -> Given:
    return Given(topic, 0, key.encode(), b'{"n":%d}' % n, time_ms)


def counts(records: list[Given], cuts: list[int] | None = None) -> list[int]:
    sent = run(counted(), records, cuts or []).sent["counts"]
    return [LONG.from_bytes(record.value) for record in sent if record.key == b"x" and record.value is not None]


def test_a_row_is_there_until_just_before_its_time_plus_the_time_to_live() -> None:
    assert counts([given_at(0), given_at(9)]) == [1, 2]
    assert counts([given_at(0), given_at(10)]) == [1, 1]
    assert counts([given_at(0), given_at(9), given_at(18)]) == [1, 2, 3]


def test_records_of_other_keys_move_the_time_as_well() -> None:
    assert counts([given_at(0), given_at(10, "y"), given_at(9)]) == [1, 1]


def test_a_record_that_is_too_old_when_it_comes_leaves_no_row_to_be_seen() -> None:
    records = [given_at(100, "y"), given_at(90), given_at(90)]
    assert counts(records, [1, 2]) == counts(records) == [1, 1]


def test_a_row_that_has_expired_sends_nothing_and_has_no_old_value() -> None:
    records = [given_at(0, n=5), given_at(50, "y"), given_at(50, n=1)]
    sent = run(counted(), records).sent
    assert [record.key for record in sent["out"]] == [b"x", b"y", b"x"]
    assert [(record.key, record.value) for record in sent["large"]] == [(b"x", b'{"n":1,"total":5}')]


def test_a_subtopology_with_a_time_to_live_runs_in_rows_and_says_why() -> None:
    def topology(options: Materialized[Any, Any]) -> Topology:
        builder = StreamsBuilder()
        read = Consumed.with_(TEXT, JsonSerde(schema={"n": pl.Int64}))
        builder.stream("a", read).group_by_key().agg(options, n=count())
        return builder.build()

    (program,) = LocalRun(topology(Materialized.as_("t")), {"a": 1}).programs.values()
    assert program.columns is not None
    (program,) = LocalRun(topology(Materialized.as_("t").with_ttl(TTL)), {"a": 1}).programs.values()
    assert program.columns is None
    assert "store t has a time to live" in program.reason
    with pytest.raises(TopologyError, match="store t has a time to live"):
        LocalRun(topology(Materialized.as_("t").with_ttl(TTL)), {"a": 1}, processing_form="columns")


def many(first: int, number: int, time_ms: int) -> Iterator[Given]:
    return (given_at(time_ms, f"k{each:05}") for each in range(first, first + number))


def rows_left(local: LocalRun) -> int:
    state = next(iter(local._states.values()))
    return sum(1 for _ in state.begin().task("0_0").store("c").range())


@pytest.mark.long
def test_expired_rows_are_removed_by_work_that_is_bounded_per_epoch() -> None:
    local = LocalRun(counted(), {"a": 1})
    local.run_epoch(list(many(0, 3_000, 0)))
    left = []
    for turn in range(1, 6):
        local.run_epoch([given_at(100 + turn)])
        left.append(rows_left(local))
    assert left == [2_001, 1_001, 1, 1, 1]


@pytest.mark.long
def test_however_long_it_runs_a_store_holds_about_as_many_rows_again_as_are_alive() -> None:
    local = LocalRun(counted(), {"a": 1})
    most = 0
    for epoch in range(15):
        local.run_epoch(list(many(600 * epoch, 600, 5 * epoch)))  # 2 epochs are alive
        most = max(most, rows_left(local))
    assert most <= 2 * 1_200 + 600


def test_ranges_show_what_is_alive_in_both_directions() -> None:
    class Data(dict[bytes, bytes]):
        def range(self, start: Any = None, end: Any = None, *, reverse: bool = False) -> Any:
            return iter(sorted(self.items(), reverse=reverse))

        def ranges(self, bounds: Any) -> Any:
            return [sorted(self.items()) for _ in bounds]

        def get_many(self, keys: Any) -> Any:
            return [self.get(key) for key in keys]

    data = Data({name: time_ms.to_bytes(8, "big") for name, time_ms in ((b"a", 5), (b"b", 15), (b"c", 4), (b"d", 16))})
    live: Any = TtlStore(data, 10, lambda: 15)  # type: ignore[arg-type]
    assert [key for key, _ in live.range()] == [b"b", b"d"]
    assert [key for key, _ in live.range(reverse=True)] == [b"d", b"b"]
    assert [[key for key, _ in found] for found in live.ranges([(b"", b"z")])] == [[b"b", b"d"]]
    assert live.get_many([b"a", b"b", b"x"]) == [None, data[b"b"], None]
