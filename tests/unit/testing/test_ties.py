"""Which of several topics the test driver takes first."""

from __future__ import annotations

from hayase import Consumed, Grouped, Produced, Repartitioned, Serdes, StreamsBuilder
from hayase.testing import TopologyTestDriver
from hayase.testing.waiting import topics_as_sent

TEXT = Serdes.string()


def builder_of_three() -> StreamsBuilder:
    builder = StreamsBuilder()
    stream = builder.stream("in", Consumed.with_(TEXT, TEXT)).select_key(lambda key, value: value)
    stream.group_by_key(Grouped.with_(TEXT, TEXT, name="z")).count()
    stream.filter(lambda key, value: True).to("out", Produced.with_(TEXT, TEXT))
    stream.repartition(Repartitioned.with_(TEXT, TEXT, name="a")).to("behind", Produced.with_(TEXT, TEXT))
    return builder


def test_topics_are_sent_to_in_the_order_in_which_a_record_reaches_their_sinks() -> None:
    assert topics_as_sent(builder_of_three().build()) == ["z-repartition", "out", "a-repartition", "behind"]


def test_a_repartition_through_a_topic_waits_its_turn_behind_one_that_was_added_before() -> None:
    order: list[str] = []

    def note(name: str):  # type: ignore[no-untyped-def]
        return lambda key, value: order.append(f"{name} {key}")

    builder = StreamsBuilder()
    stream = builder.stream("in", Consumed.with_(TEXT, TEXT)).flat_map(lambda key, value: [("1", value), ("2", value)])
    first = stream.group_by_key(Grouped.with_(TEXT, TEXT, name="z")).reduce(lambda a, b: b)
    first.to_stream().foreach(note("reduced"))
    stream.repartition(Repartitioned.with_(TEXT, TEXT, name="a")).foreach(note("repartitioned"))
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe("in", b"k", b"v", 5, ())
    assert order == ["reduced 1", "repartitioned 1", "reduced 2", "repartitioned 2"]
