"""Functions that choose topics and partitions: what they may give, and what happens otherwise."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import polars as pl
import pytest
from tests.unit.task.harness import Given, Result, run

from hayase import (
    Consumed,
    KStream,
    Produced,
    RecordContext,
    Serdes,
    SessionWindows,
    StreamsBuilder,
    TimeWindows,
    Topology,
    count,
)
from hayase.core.errors import ProcessingError, TopologyError
from hayase.core.metrics import DROPPED_RECORDS
from hayase.serde import TimeWindowedSerde
from hayase.serde.murmur2 import partition_for_key
from hayase.task.outputs import TopicOutput

TEXT = Serdes.string()
READ = Consumed.with_(TEXT, Serdes.json(schema={"n": pl.Int64, "s": pl.String}))
FORMS = pytest.mark.parametrize("form", ["rows", "columns"])


def sent(topic: Any, partitioner: Any = None, form: str = "rows", **settings: Any) -> Result:
    builder = StreamsBuilder()
    builder.stream("in", READ).to(topic, Produced.with_(TEXT, Serdes.json(), partitioner=partitioner))
    values = [b'{"n": 1, "s": "x"}', b'{"n": 2, "s": null}', b'{"n": 9, "s": "y"}']
    found = [Given("in", 0, b"k", value, time, (("h", b"1"),)) for time, value in enumerate(values)]
    return run(builder.build(), found, processing_form=form, sink_partitions=3, **settings)


def partitions(result: Result, topic: str = "out") -> list[int | None]:
    return [record.partition for record in result.sent.get(topic, [])]


@FORMS
def test_a_topic_extractor_sees_where_the_record_was_read(form: str) -> None:
    seen: list[RecordContext] = []

    def extractor(key: str, value: Any, context: RecordContext) -> str:
        seen.append(context)
        return "out"

    sent(extractor, form=form)
    assert seen == [RecordContext("in", 0, offset, offset, (("h", b"1"),)) for offset in range(3)]


@FORMS
def test_without_a_partitioner_a_chosen_topic_is_written_by_key(form: str) -> None:
    assert partitions(sent(lambda key, value, context: "out", form=form)) == [None, None, None]


@FORMS
@pytest.mark.parametrize("extractor", [pl.col("s"), lambda key, value, context: value["s"]])
def test_a_record_without_a_topic_goes_to_the_processing_handler(extractor: Any, form: str) -> None:
    with pytest.raises(ProcessingError, match="must be a name, not None"):
        sent(extractor, form=form)
    result = sent(extractor, form=form, processing_exception_handler="log_and_continue")
    assert sorted(result.sent) == ["x", "y"]
    assert result.metrics.total(DROPPED_RECORDS) == 1


@FORMS
@pytest.mark.parametrize(
    ("partitioner", "wanted"),
    [
        (pl.col("n") % 3, [1, 2, 0]),
        (pl.when(pl.col("n") < 9).then(pl.col("n")), [1, 2, partition_for_key(b"k", 3)]),
        (lambda topic, key, value, n: n - 1, [2, 2, 2]),
        (lambda topic, key, value, n: None if value["n"] < 9 else 0, [*[partition_for_key(b"k", 3)] * 2, 0]),
        (lambda topic, key, value, n: range(n) if value["n"] == 1 else (), [0, 1, 2]),
    ],
)
def test_a_partitioner_chooses_one_partition_several_none_or_leaves_it_to_the_key(
    partitioner: Any, wanted: list[int], form: str
) -> None:
    assert partitions(sent("out", partitioner, form)) == wanted


@FORMS
def test_records_that_a_partitioner_sends_nowhere_are_counted(form: str) -> None:
    result = sent("out", lambda topic, key, value, n: [], form)
    assert result.sent == {}
    assert result.metrics.total(DROPPED_RECORDS) == 3


@FORMS
@pytest.mark.parametrize(
    ("partitioner", "said"),
    [
        (pl.col("n"), "the partitioner gave 9; topic 'out' has the partitions 0 to 2"),
        (lambda topic, key, value, n: -1, "the partitioner gave -1"),
        (lambda topic, key, value, n: "one", "a number, several or None"),
        (lambda topic, key, value, n: True, "a number, several or None"),
    ],
)
def test_a_partition_that_is_not_there_is_a_processing_error(partitioner: Any, said: str, form: str) -> None:
    with pytest.raises(ProcessingError, match=said):
        sent("out", partitioner, form)


@pytest.mark.parametrize(
    "call",
    [
        lambda: sent(pl.col("n"), form="columns"),
        lambda: sent("out", pl.col("s"), form="columns"),
        lambda: sent(pl.col("nothing")),
        lambda: sent(""),
        lambda: sent(5),
        lambda: sent(lambda key, value: "out"),
        lambda: sent("out", lambda key, value: 0),
    ],
)
def test_what_can_be_no_topic_and_no_partition_is_refused_when_the_topology_is_made(call: Callable[[], Any]) -> None:
    with pytest.raises(TopologyError):
        call()


def test_records_of_sinks_with_and_without_a_partitioner_keep_their_order() -> None:
    output = TopicOutput("out")
    output.add(b"a", None, 0, ())
    output.add(b"b", None, 1, ())
    output.choose([2], 3)
    output.add(None, None, 2, ())
    output.add(None, None, 3, ())
    output.choose([-1, 1], 3)
    output.add(b"c", None, 4, ())
    chosen = output.batch().partitions
    assert chosen is not None
    assert chosen.tolist() == [partition_for_key(b"a", 3), 2, 2, 1, partition_for_key(b"c", 3)]


def windowed(form: str, to: Callable[[KStream[Any]], object], windows: Any) -> Result:
    """Counts of the keys a to e in two windows each."""
    builder = StreamsBuilder()
    counts = builder.stream("in", READ).group_by_key().windowed_by(windows).agg(n=count())
    to(counts.to_stream())
    found = [
        Given("in", 0, key, b'{"n": 1, "s": "x"}', time_ms, ())
        for time_ms in (0, 60_000)
        for key in (b"a", b"b", b"c", b"d", b"e")
    ]
    return run(builder.build(), found, processing_form=form, sink_partitions=7)


WINDOWS = pytest.mark.parametrize(
    ("windows", "size"),
    [
        (TimeWindows.of_size_with_no_grace(timedelta(seconds=10)), 8),
        (SessionWindows.of_inactivity_gap_with_no_grace(timedelta(seconds=10)), 16),
    ],
    ids=["time windows", "sessions"],
)


@FORMS
@WINDOWS
def test_all_windows_of_a_key_are_in_the_partition_of_the_key(form: str, windows: Any, size: int) -> None:
    result = windowed(form, lambda counts: counts.to("out"), windows)
    assert len(result.sent["out"]) == 10
    for record in result.sent["out"]:
        assert record.key is not None
        assert record.partition == partition_for_key(record.key[:-size], 7)


@FORMS
@WINDOWS
def test_windows_in_a_chosen_topic_are_in_the_partition_of_the_key_unless_a_partitioner_says_otherwise(
    form: str, windows: Any, size: int
) -> None:
    def partitioner(topic: str, key: Any, value: Any, partitions: int) -> int | None:
        return 5 if key.key == "a" else None

    result = windowed(
        form,
        lambda counts: counts.to(lambda key, value, context: "out", Produced.with_(partitioner=partitioner)),
        windows,
    )
    found = {record.key: record.partition for record in result.sent["out"]}
    assert found == {
        key: 5 if key.startswith(b"a") else partition_for_key(key[:-size], 7) for key in found if key is not None
    }


def test_a_sink_of_the_processor_api_takes_the_whole_windowed_key() -> None:
    key = TimeWindowedSerde(TEXT, 10_000)
    topology = Topology()
    topology.add_source("source", "in", key_serde=key, value_serde=TEXT)
    topology.add_sink("sink", "out", "source", key_serde=key, value_serde=TEXT)
    result = run(topology, [Given("in", 0, b"a" + bytes(8), b"x", 0, ())], sink_partitions=7)
    assert partitions(result) == [None]
