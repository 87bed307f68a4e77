"""Topologies of one shared runtime beside each other: serdes, guarantees, a change that is refused, many in a slot."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from tests.spark.place import Place, until
from tests.unit.app.query_in_process import QueryInProcess, embedded_place, runtime_in

from hayase import (
    Consumed,
    Grouped,
    Materialized,
    Produced,
    Repartitioned,
    Serdes,
    State,
    StreamsBuilder,
    Topology,
    count,
    sum_,
)
from hayase.core.errors import StreamsStoppedError
from hayase.core.records import TopicPartition
from hayase.runtime.driver import shared_query
from hayase.runtime.worker import memory_bound, slot_client
from hayase.runtime.worker.slot_client import SlotWorker

pytestmark = [pytest.mark.long, pytest.mark.timeout(120)]

TEXT, AMOUNTS = Serdes.string(), Serdes.json(schema={"amount": pl.Int64})
AT_ONCE: dict[str, object] = {"commit.interval.ms": 0}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    monkeypatch.setattr(shared_query, "SharedQuery", QueryInProcess)
    with embedded_place(tmp_path, "in") as made:
        yield made


def lengths(sink: str) -> Topology:
    """Values as text, and how long they are."""
    builder = StreamsBuilder()
    texts = builder.stream("in", Consumed.with_(TEXT, TEXT))
    texts.map_values(lambda text: f"{text} has {len(text)}").to(sink, Produced.with_(TEXT, TEXT))
    return builder.build()


def sums(sink: str, store: str = "sums") -> Topology:
    """Values as JSON with a number in it, counted and added up."""
    builder = StreamsBuilder()
    amounts = builder.stream("in", Consumed.with_(TEXT, AMOUNTS))
    table = amounts.group_by_key().agg(Materialized.as_(store), n=count(), total=sum_("amount"))
    table.to_stream().to(sink, Produced.with_(TEXT, Serdes.json()))
    return builder.build()


def put(place: Place, first: int, last: int) -> None:
    place.put("in", [("k", {"amount": number}, number) for number in range(first, last)])


def summed(last: int) -> dict[str, dict[str, int]]:
    return {"k": {"n": last, "total": sum(range(last))}}


def has_summed(place: Place, sinks: Collection[str], last: int) -> bool:
    """Whether all that was put up to that number is in each of these topics."""
    return all(place.last(sink) == summed(last) for sink in sinks)


def texts_in(place: Place, topic: str) -> list[str]:
    """The records of a topic as text."""
    partitions = [TopicPartition(topic, number) for number in range(len(place.partitions("in")))]
    ends, reader = place.log.end_offsets(partitions), place.log.reader()
    return [
        (value or b"").decode()
        for partition in partitions
        for batch in reader.fetch(partition, 0, ends[partition])
        for value in batch.values
    ]


def test_topologies_read_one_topic_each_with_serdes_of_its_own(place: Place) -> None:
    place.topic("lengths")
    place.topic("sums")
    with runtime_in(place) as runtime:
        runtime.add_topology("texts", lengths("lengths"), AT_ONCE)
        runtime.add_topology("numbers", sums("sums"), AT_ONCE)
        runtime.start()
        put(place, 0, 20)
        until(lambda: place.last("sums") == summed(20) and len(texts_in(place, "lengths")) == 20)
        assert sorted(texts_in(place, "lengths"))[0] == '{"amount": 0} has 13'
        until(lambda: {app.state for app in runtime.topologies.values()} == {State.RUNNING})


def test_a_topology_that_is_at_least_once_leaves_no_markers_beside_those_that_are_exactly_once(place: Place) -> None:
    place.topic("loose")
    place.topic("exact")
    with runtime_in(place) as runtime:
        runtime.add_topology("loose", sums("loose"), {**AT_ONCE, "processing.guarantee": "at_least_once"})
        runtime.add_topology("exact", sums("exact"), AT_ONCE)
        runtime.start()
        for first in range(0, 40, 10):
            put(place, first, first + 10)
            until(partial(has_summed, place, ("loose", "exact"), first + 10))
        of_bundles = {
            name: [each for each in place.log.markers(runtime.topology(name).config.application_id) if each[0] != "@"]
            for name in ("loose", "exact")
        }
        assert not of_bundles["loose"] and of_bundles["exact"]


def slow_through_a_topic(flag: Path) -> Topology:
    """Counts behind an internal topic, of which each record takes long as long as there is a file."""

    def slow(amount: dict[str, int]) -> dict[str, int]:
        if flag.exists():
            time.sleep(0.1)
        return amount

    builder = StreamsBuilder()
    again = Repartitioned.as_("again").with_key_serde(TEXT).with_value_serde(Serdes.json())
    stream = builder.stream("in", Consumed.with_(TEXT, AMOUNTS)).repartition(again).map_values(slow)
    table = stream.group_by_key(Grouped.with_(TEXT, Serdes.json())).agg(Materialized.as_("sums"), n=count())
    table.to_stream().to("out", Produced.with_(TEXT, Serdes.json()))
    return builder.build()


def without_a_topic() -> Topology:
    builder = StreamsBuilder()
    stream = builder.stream("in", Consumed.with_(TEXT, AMOUNTS))
    table = stream.group_by_key().agg(Materialized.as_("sums"), n=count())
    table.to_stream().to("out", Produced.with_(TEXT, Serdes.json()))
    return builder.build()


def test_a_change_for_which_an_internal_topic_is_not_emptied_in_time_is_refused_and_the_topology_goes_on(
    place: Place,
) -> None:
    flag = place.folder / "slow"
    flag.touch()
    place.topic("out")
    settings = {**AT_ONCE, "max.records.per.epoch": 1, "statestore.cache.max.bytes": 0}
    with runtime_in(place) as runtime:
        runtime.add_topology("around", slow_through_a_topic(flag), settings)
        runtime.start()
        put(place, 0, 40)
        until(lambda: len(place.rows("app-around-again-repartition")) >= 20)
        with pytest.raises(StreamsStoppedError, match=r"'around' .*internal topics, in 0:00:01; it goes on") as refused:
            runtime.replace_topology("around", without_a_topic(), timeout=timedelta(seconds=1))
        assert refused.value.condition == "TIMED_OUT"
        flag.unlink()
        until(lambda: place.last("out") == {"k": {"n": 40}})
        assert runtime.topology("around").state is State.RUNNING
        put(place, 40, 50)
        until(lambda: place.last("out") == {"k": {"n": 50}})
        runtime.replace_topology("around", without_a_topic())
        put(place, 50, 55)
        until(lambda: place.last("out") == {"k": {"n": 55}})
        counts = [row.value["n"] for row in place.rows("out")]
        assert sorted(counts) == list(range(1, 56)), "none is lost, none comes twice"


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many topologies a slot has open each time that it has closed one."""
    found: list[int] = []
    release = SlotWorker.release

    def releasing(worker: SlotWorker, application_id: str) -> None:
        was_open = application_id in worker._hosts
        release(worker, application_id)
        if was_open:
            found.append(len(worker._hosts))

    monkeypatch.setattr(SlotWorker, "release", releasing)
    return found


def expect_right_sums(place: Place, **more: Any) -> None:
    """Of five topologies that one slot runs."""
    names = [f"t{number}" for number in range(5)]
    with runtime_in(place, num_stream_threads=1, **more) as runtime:
        for name in names:
            place.topic(name)
            runtime.add_topology(name, sums(name), AT_ONCE)
        runtime.start()
        for first in range(0, 60, 20):
            put(place, first, first + 20)
            until(partial(has_summed, place, names, first + 20))
        assert [runtime.topology(name).errors for name in names] == [[]] * len(names)


def test_a_slot_that_keeps_fewer_topologies_than_it_runs_reads_the_state_of_each_again(
    place: Place, kept: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slot_client, "TOPOLOGIES_MAX", 2)
    expect_right_sums(place)
    assert len(kept) >= 10 and max(kept) == 2


def test_a_slot_whose_process_holds_more_memory_than_it_may_closes_topologies_and_opens_them_again(
    place: Place, kept: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory_bound, "_LOOK_S", 0.0)
    monkeypatch.setattr(memory_bound, "_PAUSE_S", 0.0)
    expect_right_sums(place, slot_memory_max_bytes=1 << 26)  # this process holds more than that
    assert len(kept) > 5, "more than are closed at the end"
