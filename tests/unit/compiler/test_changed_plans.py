"""A program is compared with the plan that a checkpoint has: what goes on, what is refused, and what to do then."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import msgspec
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hayase import (
    Consumed,
    Grouped,
    JoinWindows,
    Materialized,
    Processor,
    Serdes,
    SessionWindows,
    SlidingWindows,
    StreamJoined,
    StreamsBuilder,
    TimeWindows,
    Topology,
    UnlimitedWindows,
    Window,
    Windows,
    count,
)
from hayase.compiler.plan_comparison import PlanDifference, compare
from hayase.compiler.plan_matching import Matching, following, match
from hayase.compiler.plan_shape import GLOBAL, NodeShape, PlanShape, SubtopologyShape, shape_of

READ = Consumed.with_(Serdes.string(), Serdes.json(schema={"id": pl.Int64, "to": pl.String}))
Build = Callable[[StreamsBuilder], Any]


def shape(*parts: Build, tasks: int = 2) -> PlanShape:
    builder = StreamsBuilder()
    for part in parts:
        part(builder)
    return shape_of_topology(builder.build(), tasks)


def shape_of_topology(topology: Topology, tasks: int = 2) -> PlanShape:
    return shape_of(topology, dict.fromkeys(shape_of(topology).subtopologies, tasks))


def changed(old: PlanShape, new: PlanShape, number: int = 1) -> tuple[Matching, PlanShape, PlanDifference]:
    """As `fit_plan` does it, on shapes alone."""
    matching = match(old, new)
    kept = msgspec.structs.replace(
        new, subtopologies={matching.ids[name]: part for name, part in new.subtopologies.items()}
    )
    after = following(old, kept, number)
    return matching, after, compare(old, after, matching.problems)


def counts(topic: str, store: str | None, *, filtered: bool = False) -> Build:
    def build(builder: StreamsBuilder) -> None:
        stream = builder.stream(topic, READ)
        if filtered:
            stream = stream.filter(pl.col("id") > 0)
        grouped = stream.group_by_key()
        table = grouped.agg(n=count()) if store is None else grouped.agg(Materialized.as_(store), n=count())
        table.to_stream().to(f"{topic}-out")

    return build


def copies(topic: str) -> Build:
    return lambda builder: builder.stream(topic, READ).to(f"{topic}-copy")


def test_the_same_program_has_the_same_ids_and_the_same_shape() -> None:
    old = shape(counts("a", None), copies("b"), counts("c", "c"))
    matching, after, difference = changed(old, old)
    assert matching.ids == {"0": "0", "1": "1", "2": "2"} and after == old
    assert difference == PlanDifference()


def test_a_shape_is_read_as_it_was_written() -> None:
    old = shape(counts("a", None), copies("b"), lambda b: b.global_table("g", READ))
    assert msgspec.json.decode(msgspec.json.encode(old), type=PlanShape) == old


def test_a_sub_topology_goes_on_where_its_stores_are_though_others_are_counted_before_it() -> None:
    old, new = shape(counts("a", "a")), shape(copies("b"), counts("c", "c"), counts("a", "a"))
    matching, _, difference = changed(old, new)
    assert matching.ids == {"0": "1", "1": "2", "2": "0"}
    assert not difference.refused and difference.new_stores == ("c",)


def test_a_sub_topology_without_stores_goes_on_where_its_topics_are_read() -> None:
    matching, _, _ = changed(shape(copies("a"), copies("b")), shape(copies("c"), copies("b"), copies("a")))
    assert matching.ids == {"0": "2", "1": "1", "2": "0"}


def test_one_without_stores_that_has_other_tasks_is_a_new_one() -> None:
    matching, _, difference = changed(shape(copies("a")), shape(copies("a"), tasks=3))
    assert matching.ids == {"0": "1"} and not difference.refused


def test_a_number_is_never_used_again() -> None:
    old = shape(counts("a", "a"), counts("b", "b"))
    _, without, _ = changed(old, shape(counts("a", "a")))
    matching, _, difference = changed(without, shape(counts("a", "a"), counts("b", "b")), 2)
    assert matching.ids == {"0": "0", "1": "2"}
    assert difference.new_stores == ("b",) and not difference.refused


def test_global_tables_have_numbers_of_their_own_that_are_not_used_again_either() -> None:
    def table(topic: str) -> Build:
        return lambda builder: builder.global_table(topic, READ, materialized=Materialized.as_(topic))

    old = shape(table("g"), table("h"))
    assert [*old.subtopologies] == ["global0", "global1"]
    _, without, difference = changed(old, shape(table("h"), copies("a")))
    assert difference.removed_stores == ("g",)
    matching, _, _ = changed(without, shape(table("i"), table("h"), copies("a")), 2)
    assert matching.ids == {"global0": "global2", "global1": "global1", "2": "0"}


def test_stores_that_are_joined_into_one_sub_topology_are_refused() -> None:
    def joined(builder: StreamsBuilder) -> None:
        left, right = (builder.table(topic, READ, Materialized.as_(topic)) for topic in "ab")
        left.join(right, lambda one, other: one).to_stream().to("out")

    def apart(builder: StreamsBuilder) -> None:
        for topic in "ab":
            builder.table(topic, READ, Materialized.as_(topic)).to_stream().to("out")

    refused = changed(shape(apart), shape(joined))[2].refused
    assert len(refused) == 1
    assert "the stores a (sub-topology 0) and b (sub-topology 1) would be in one sub-topology" in refused[0]
    refused = changed(shape(joined), shape(apart))[2].refused
    assert refused == ("the stores a, b would be in two sub-topologies",)


def test_a_table_that_becomes_a_global_table_is_refused() -> None:
    old = shape(lambda builder: builder.table("g", READ, Materialized.as_("g")))
    new = shape(lambda builder: builder.global_table("g", READ, materialized=Materialized.as_("g")))
    assert "would not be of a table or aggregation any more" in changed(old, new)[2].refused[0]
    assert "would not be of a global table any more" in changed(new, old)[2].refused[0]


def test_a_store_of_another_kind_is_refused() -> None:
    def windowed(builder: StreamsBuilder) -> None:
        windows = TimeWindows.of_size_with_no_grace(timedelta(seconds=1))
        builder.stream("a", READ).group_by_key().windowed_by(windows).agg(Materialized.as_("a"), n=count())

    refused = changed(shape(counts("a", "a")), shape(windowed))[2].refused
    assert refused == ("store a was timestamped_key_value, would be timestamped_window",)


def test_another_number_of_tasks_is_refused_where_there_are_stores() -> None:
    refused = changed(shape(counts("a", "a")), shape(counts("a", "a"), tasks=3))[2].refused
    assert refused == ("sub-topology 0, which has the stores a, had 2 tasks, would have 3: rows are divided by them",)


def test_a_store_that_was_removed_does_not_come_back_to_its_old_rows() -> None:
    def both(builder: StreamsBuilder) -> None:
        grouped = builder.stream("a", READ).group_by_key()
        grouped.agg(Materialized.as_("one"), n=count()), grouped.agg(Materialized.as_("two"), n=count())

    def first(builder: StreamsBuilder) -> None:
        builder.stream("a", READ).group_by_key().agg(Materialized.as_("one"), n=count())

    _, without, difference = changed(shape(both), shape(first))
    assert difference.removed_stores == ("two",) and not difference.refused
    refused = changed(without, shape(both), 2)[2].refused
    assert "store two was removed from sub-topology 0 before, and its old rows are still there" in refused[0]


def test_renumbered_stores_are_refused_with_the_names_to_give() -> None:
    old, new = shape(counts("a", None)), shape(counts("a", None, filtered=True))
    difference = changed(old, new)[2]
    assert "the builder has renumbered" in difference.refused[0]
    (name,) = difference.names
    assert name == (
        "'KSTREAM-AGGREGATE-STATE-STORE-0000000001' for the one that is KSTREAM-AGGREGATE-STATE-STORE-0000000002 now"
    )
    given_it = shape(counts("a", "KSTREAM-AGGREGATE-STATE-STORE-0000000001", filtered=True))
    difference = changed(old, given_it)[2]
    assert not difference.refused and not difference.removed_stores


def test_a_generated_name_that_another_aggregation_takes_is_refused() -> None:
    """The first of two was removed, and the second has its number now."""

    def two(builder: StreamsBuilder) -> None:
        counts("a", None)(builder), counts("b", None)(builder)

    difference = changed(shape(two), shape(counts("b", None)))[2]
    assert any("would be that of other nodes than before" in why for why in difference.refused)


def test_what_is_added_behind_generated_names_renumbers_nothing() -> None:
    old, new = shape(counts("a", None)), shape(counts("a", None), counts("b", None))
    difference = changed(old, new)[2]
    assert not difference.refused and difference.new_stores == ("KSTREAM-AGGREGATE-STATE-STORE-0000000006",)


def test_only_what_differs_is_shown_not_what_was_renumbered() -> None:
    new = shape(counts("a", "a", filtered=True))
    assert changed(shape(counts("a", "a")), new)[2].changes == ("sub-topology 0 has a new KSTREAM-FILTER-0000000001",)


def test_a_node_keeps_its_clock_whatever_its_name_is() -> None:
    _, after, _ = changed(shape(counts("a", "a")), shape(counts("a", "a", filtered=True)))
    assert after.subtopologies["0"].clocks == {"KSTREAM-AGGREGATE-0000000002": "KSTREAM-AGGREGATE-0000000001"}
    _, again, _ = changed(after, shape(counts("a", "a")), 2)
    assert "KSTREAM-AGGREGATE-0000000001" not in again.subtopologies["0"].clocks


def test_a_node_that_takes_the_name_of_another_has_a_clock_of_its_own() -> None:
    def aggregated(store: str) -> Build:
        def build(builder: StreamsBuilder) -> None:
            grouped = builder.stream("a", READ).group_by_key()
            grouped.agg(Materialized.as_(store), n=count(), name="counted")

        return build

    _, after, _ = changed(shape(aggregated("one")), shape(aggregated("two")), 7)
    assert after.subtopologies["0"].clocks == {"counted": "counted@7"}
    assert after.subtopologies["0"].spent == ("counted",)


def test_a_processor_without_stores_keeps_its_clocks_under_a_name_of_its_own() -> None:
    class Tick(Processor[Any, Any, Any, Any]):
        def process(self, record: Any) -> None:
            pass

    def ticking(*before: str) -> Topology:
        topology = Topology()
        topology.add_source("source", "in")
        for name in (*before, "tick"):
            topology.add_processor(name, Tick, "source")
        return topology

    _, after, _ = changed(shape_of_topology(ticking()), shape_of_topology(ticking("first")))
    assert after.subtopologies["0"].clocks == {}


def test_repartitions_inside_an_epoch_may_be_renamed() -> None:
    def grouped(name: str) -> Build:
        def build(builder: StreamsBuilder) -> None:
            by = Grouped.with_(Serdes.string(), Serdes.json(schema={"id": pl.Int64, "to": pl.String}), name=name)
            builder.stream("a", READ).group_by(pl.col("to"), by).agg(Materialized.as_("a"), n=count())

        return build

    matching, _, difference = changed(shape(grouped("one")), shape(grouped("two")))
    assert matching.ids == {"0": "0", "1": "1"} and not difference.refused


# properties

_STORES = st.lists(st.sampled_from("abcdefgh"), unique=True, max_size=6)


@st.composite
def shapes(draw: st.DrawFn) -> PlanShape:
    """Sub-topologies with some of eight stores and topics, each in one of them; one or two global tables."""
    stores, topics = draw(st.permutations("abcdefgh")), draw(st.permutations("tuvwxyz"))
    parts: dict[str, SubtopologyShape] = {}
    for number in range(draw(st.integers(0, 2))):
        parts[f"{GLOBAL}{number}"] = SubtopologyShape({f"g{number}": NodeShape("Table")}, {f"{GLOBAL}-{number}": "kv"})
    for number in range(draw(st.integers(1, 4))):
        own = [stores.pop() for _ in range(draw(st.integers(0, 2)))]
        read = (topics.pop(),)
        nodes = {f"s{number}": NodeShape("source", topics=read)}
        nodes |= {f"n-{name}": NodeShape("Aggregate", (f"s{number}",), (name,)) for name in own}
        parts[str(number)] = SubtopologyShape(
            nodes, dict.fromkeys(own, "kv"), topics=read, tasks=draw(st.integers(1, 2))
        )
    numbers = [int(name) for name in parts if not name.startswith(GLOBAL)]
    return PlanShape(parts, (), len(numbers), len(parts) - len(numbers))


@pytest.mark.long
@given(st.lists(shapes(), min_size=2, max_size=5))
@settings(max_examples=150, deadline=None)
def test_whatever_changes_no_store_meets_rows_of_another_and_no_number_is_used_twice(plans: list[PlanShape]) -> None:
    in_use = plans[0]
    rows: dict[tuple[str, str], int] = {}  # of a store in a sub-topology: the plan that began them
    ever = {*in_use.subtopologies}
    for name, part in in_use.subtopologies.items():
        rows |= {(name, store): 0 for store in part.stores}
    for number, new in enumerate(plans[1:], 1):
        matching, after, difference = changed(in_use, new, number)
        assert len({*matching.ids.values()}) == len(matching.ids) == len(new.subtopologies)
        if difference.refused:
            continue
        fresh = {*after.subtopologies} - {*in_use.subtopologies}
        assert not fresh & ever
        for name, part in after.subtopologies.items():
            for store in part.stores:
                if in_use.subtopology_of(store) is not None:
                    assert in_use.subtopology_of(store) == name, "a store stays where it is"
                    assert in_use.subtopologies[name].tasks == part.tasks
                else:
                    assert (name, store) not in rows, "a new store begins empty"
                    rows[name, store] = number
            clocks = [part.clock(node) for node in part.nodes]
            assert len({*clocks}) == len(clocks)
            if name in in_use.subtopologies:
                before = in_use.subtopologies[name]
                kept = {before.clock(node): before.nodes[node] for node in before.nodes}
                for node in part.nodes:
                    clock = part.clock(node)
                    assert clock not in before.spent
                    if clock in kept and part.nodes[node].stores:
                        assert kept[clock].stores == part.nodes[node].stores
        ever |= {*after.subtopologies}
        in_use = after


@given(shapes())
@settings(max_examples=50, deadline=None)
def test_a_plan_that_is_compared_with_itself_is_the_same(plan: PlanShape) -> None:
    matching, after, difference = changed(plan, plan)
    assert after == plan and difference == PlanDifference()
    assert all(natural == kept for natural, kept in matching.ids.items())


def test_a_shape_without_its_fields_of_later_releases_can_be_read() -> None:
    assert msgspec.json.decode(b'{"subtopologies":{"0":{"nodes":{}}}}', type=PlanShape).next_number == 0


@pytest.mark.parametrize("natural", ["0", "global0"])
def test_ids_of_parts_say_whether_they_are_global(natural: str) -> None:
    old = PlanShape({natural: SubtopologyShape({}, {"a": "kv"})}, (), 1, 1)
    assert match(old, old).ids == {natural: natural}


MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)


class Shifts(Windows):
    size_ms, grace_ms = 1_000, 0

    def windows_for(self, timestamp_ms: int) -> list[Window]:
        return [Window(timestamp_ms // 1_000 * 1_000, timestamp_ms // 1_000 * 1_000 + 1_000)]


class OtherShifts(Shifts):
    pass


def windowed(windows: Any) -> Build:
    def build(builder: StreamsBuilder) -> None:
        builder.stream("in", READ).group_by_key().windowed_by(windows).agg(Materialized.as_("counts"), n=count())

    return build


TUMBLING = TimeWindows.of_size_with_no_grace(MINUTE)
OTHER_WINDOWS = [
    (TUMBLING, TimeWindows.of_size_with_no_grace(2 * MINUTE), "tumbling windows of 60 s", "tumbling windows of 120 s"),
    (TUMBLING, TUMBLING.advance_by(MINUTE / 2), "tumbling windows of 60 s", "hopping windows of 60 s every 30 s"),
    (
        TUMBLING,
        SlidingWindows.of_time_difference_with_no_grace(MINUTE),
        "tumbling windows of 60 s",
        "sliding windows of 60 s",
    ),
    (
        SessionWindows.of_inactivity_gap_with_no_grace(MINUTE),
        SessionWindows.of_inactivity_gap_with_no_grace(timedelta(milliseconds=1)),
        "sessions with a gap of 60 s",
        "sessions with a gap of 1 ms",
    ),
    (TUMBLING, UnlimitedWindows.of(), "tumbling windows of 60 s", "one window from 0 s on"),
    (Shifts(), OtherShifts(), "Shifts of up to 1 s", "OtherShifts of up to 1 s"),
]


@pytest.mark.parametrize(("before", "after", "old_text", "new_text"), OTHER_WINDOWS)
def test_other_windows_of_an_aggregation_are_refused_with_both_and_with_what_to_do(
    before: Any, after: Any, old_text: str, new_text: str
) -> None:
    _, _, difference = changed(shape(windowed(before)), shape(windowed(after)))
    (refused,) = difference.refused
    assert refused.startswith(f"store counts has rows of {old_text}, and would get rows of {new_text} among them")
    assert "another name" in refused
    _, _, back = changed(shape(windowed(after)), shape(windowed(before)))
    assert back.refused


def test_another_grace_period_alone_is_allowed_and_reported() -> None:
    after = TimeWindows.of_size_and_grace(MINUTE, HOUR)
    _, _, difference = changed(shape(windowed(TUMBLING)), shape(windowed(after)))
    assert difference == PlanDifference(
        changes=("sub-topology 0 has another grace in store counts: grace 0 s -> 3600 s",)
    )


def test_windows_that_an_earlier_release_did_not_keep_are_not_compared() -> None:
    old = shape(windowed(TUMBLING))
    parts = {name: msgspec.structs.replace(part, windows={}, graces_ms={}) for name, part in old.subtopologies.items()}
    _, after, difference = changed(msgspec.structs.replace(old, subtopologies=parts), shape(windowed(Shifts())))
    assert difference == PlanDifference()
    assert after.subtopologies["0"].windows == {"counts": "Shifts of up to 1 s"}


def test_windows_of_a_cogroup_are_compared() -> None:
    def build(windows: Any) -> PlanShape:
        builder = StreamsBuilder()
        one = builder.stream("in", READ).group_by_key()
        cogrouped = one.cogroup(lambda key, value, total: total + 1)
        cogrouped.windowed_by(windows).aggregate(lambda: 0, Materialized.as_("counts").with_value_serde(Serdes.long()))
        return shape_of_topology(builder.build())

    _, _, difference = changed(build(TUMBLING), build(TimeWindows.of_size_with_no_grace(HOUR)))
    assert "rows of tumbling windows of 60 s" in difference.refused[0]


def joined(windows: JoinWindows) -> Build:
    def build(builder: StreamsBuilder) -> None:
        left, right = builder.stream("in", READ), builder.stream("others", READ)
        left.join(
            right,
            lambda one, two: one,
            windows,
            StreamJoined.with_(READ.key_serde, READ.value_serde, READ.value_serde).with_name("pairs"),
        )

    return build


def test_other_windows_of_a_join_of_two_streams_are_allowed_and_reported() -> None:
    before = JoinWindows.of_time_difference_with_no_grace(MINUTE)
    _, after, difference = changed(shape(joined(before)), shape(joined(before.after(HOUR))))
    (store,) = after.subtopologies["0"].joins
    assert difference == PlanDifference(
        changes=(
            (
                f"sub-topology 0 joins the records of store {store} from 60 s before to 3600 s after, grace 0 s "
                "(before: from 60 s before to 60 s after, grace 0 s)"
            ),
        )
    )


def test_windows_of_a_join_that_an_earlier_release_did_not_keep_are_not_compared() -> None:
    old = shape(joined(JoinWindows.of_time_difference_with_no_grace(MINUTE)))
    parts = {name: msgspec.structs.replace(part, joins={}) for name, part in old.subtopologies.items()}
    new = shape(joined(JoinWindows.of_time_difference_with_no_grace(HOUR)))
    assert changed(msgspec.structs.replace(old, subtopologies=parts), new)[2] == PlanDifference()
