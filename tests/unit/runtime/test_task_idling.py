"""`max.task.idle.ms`: inputs wait for one that has nothing, for a while."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hayase import Consumed, Grouped, Produced, Serdes, StreamsBuilder, Topology
from hayase.compiler.build import make_plan
from hayase.compiler.compile import compile_subtopologies
from hayase.compiler.options import compile_options
from hayase.core.config import StreamsConfig
from hayase.core.records import TopicPartition
from hayase.runtime.epochs.task_idling import TaskIdling, task_inputs

A, B, C = TopicPartition("a", 0), TopicPartition("b", 0), TopicPartition("c", 0)
TEXT = Serdes.string()


class Topics:
    """Partitions as lists of timestamps, read up to somewhere, and a clock."""

    def __init__(self, **times: list[int]) -> None:
        self.times = {TopicPartition(name, 0): found for name, found in times.items()}
        self.read = dict.fromkeys(self.times, 0)
        self.now = 0.0

    def hold(self, *tasks: tuple[TopicPartition, ...], max_idle_s: float = 10.0) -> TaskIdling:
        return TaskIdling([tuple(frozenset([p]) for p in task) for task in tasks], max_idle_s, lambda: self.now)

    def epoch(self, hold: TaskIdling) -> dict[TopicPartition, list[int]]:
        """What one epoch reads."""
        ends = {p: len(found) for p, found in self.times.items()}
        chosen = hold.ends(self.read, ends, lambda p: self.times[p][ends[p] - 1], self._for_time)
        taken = {p: self.times[p][self.read[p] : chosen[p]] for p in self.times}
        self.read = dict(chosen)
        return taken

    def _for_time(self, time_ms: int) -> dict[TopicPartition, int]:
        return {
            p: next((i for i, time in enumerate(found) if time >= time_ms), len(found))
            for p, found in self.times.items()
        }


def test_what_is_ahead_of_the_slowest_input_waits_for_it() -> None:
    topics = Topics(a=[1, 5, 9], b=[2, 4])
    hold = topics.hold((A, B))
    assert topics.epoch(hold) == {A: [1], B: [2, 4]}
    assert topics.epoch(hold) == {A: [], B: []}
    topics.times[B].append(7)
    assert topics.epoch(hold) == {A: [5], B: [7]}


def test_an_input_that_stays_empty_is_waited_for_only_so_long() -> None:
    topics = Topics(a=[1, 5], b=[])
    hold = topics.hold((A, B))
    assert topics.epoch(hold) == {A: [], B: []}
    topics.now = 9.9
    assert topics.epoch(hold) == {A: [], B: []}
    topics.now = 10.0
    assert topics.epoch(hold) == {A: [1, 5], B: []}
    topics.times[A].append(6)
    assert topics.epoch(hold) == {A: [6], B: []}


def test_after_new_records_the_waiting_begins_anew() -> None:
    topics = Topics(a=[1], b=[1])
    hold = topics.hold((A, B))
    assert topics.epoch(hold) == {A: [1], B: [1]}
    topics.now = 100.0
    topics.times[B].append(2)
    assert topics.epoch(hold) == {A: [], B: []}
    topics.now = 109.0
    assert topics.epoch(hold) == {A: [], B: []}
    topics.times[A].append(3)
    assert topics.epoch(hold) == {A: [], B: [2]}
    topics.now = 120.0
    assert topics.epoch(hold) == {A: [], B: []}
    topics.now = 130.0
    assert topics.epoch(hold) == {A: [3], B: []}


def test_by_default_nothing_waits() -> None:
    topics = Topics(a=[1, 5], b=[])
    assert topics.epoch(topics.hold((A, B), max_idle_s=0)) == {A: [1, 5], B: []}


def test_an_input_of_another_task_is_not_waited_for() -> None:
    topics = Topics(a=[1, 5], b=[1], c=[])
    assert topics.epoch(topics.hold((A, B))) == {A: [1], B: [1], C: []}


@given(st.lists(st.lists(st.integers(0, 20), max_size=6), min_size=3, max_size=3))
def test_in_the_end_everything_is_read_once_and_in_order(times: list[list[int]]) -> None:
    topics = Topics(a=times[0], b=times[1], c=times[2])
    hold = topics.hold((A, B), (B, C), (A, B, C))
    read: dict[TopicPartition, list[int]] = {A: [], B: [], C: []}
    for _ in range(40):
        for partition, found in topics.epoch(hold).items():
            read[partition] += found
        topics.now += 5
    assert list(read.values()) == times


@given(st.lists(st.integers(0, 20), max_size=8), st.lists(st.integers(0, 20), min_size=1, max_size=8))
def test_nothing_is_read_ahead_of_an_input_that_is_waited_for(a: list[int], b: list[int]) -> None:
    a, b = sorted(a), sorted(b)
    topics = Topics(a=a, b=b)
    taken = topics.epoch(topics.hold((A, B)))
    if a:
        slowest = min(a[-1], b[-1])
        assert taken == {A: [t for t in a if t <= slowest], B: [t for t in b if t <= slowest]}
    else:
        assert taken == {A: [], B: []}


def inputs_of(topology: Topology, topics: dict[str, int]) -> list[tuple[frozenset[TopicPartition], ...]]:
    options = compile_options(StreamsConfig({"application.id": "app"}))
    plan = make_plan(topology, topics, compile_subtopologies(topology, options), threads=1)
    return task_inputs(topology, plan)


def test_both_sides_of_a_join_are_inputs_and_a_repartition_stands_for_all_partitions_that_feed_it() -> None:
    builder = StreamsBuilder()
    table = builder.table("t", Consumed.with_(TEXT, TEXT))
    stream = builder.stream("s", Consumed.with_(TEXT, TEXT)).select_key(lambda key, value: value)
    stream.join(table, lambda value, row: value + row).to("out", Produced.with_(TEXT, TEXT))
    both = frozenset({TopicPartition("s", 0), TopicPartition("s", 1)})
    found = {frozenset(inputs) for inputs in inputs_of(builder.build(), {"s": 2, "t": 2})}
    assert found == {frozenset({both, frozenset({TopicPartition("t", number)})}) for number in (0, 1)}


def test_a_global_table_is_never_waited_for() -> None:
    builder = StreamsBuilder()
    table = builder.global_table("g", Consumed.with_(TEXT, TEXT))
    stream = builder.stream("s", Consumed.with_(TEXT, TEXT))
    stream.join(table, lambda key, value: value, lambda value, row: value + row).to("out", Produced.with_(TEXT, TEXT))
    stream.group_by_key(Grouped.with_(TEXT, TEXT)).count()
    assert inputs_of(builder.build(), {"s": 1, "g": 2}) == []
