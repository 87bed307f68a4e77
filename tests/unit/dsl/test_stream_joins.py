from __future__ import annotations

from datetime import timedelta

import polars as pl
import pytest

from hayase import (
    Consumed,
    JoinWindows,
    Produced,
    Serdes,
    Stores,
    StreamJoined,
    StreamsBuilder,
    left,
    right,
    timestamp,
)
from hayase.compiler.partitions import partition_counts
from hayase.core.errors import TopologyError
from hayase.core.metrics import DROPPED_RECORDS
from hayase.testing import TopologyTestDriver
from hayase.topology.nodes import ProcessorNode
from hayase.topology.operators import StreamStreamJoin

TEXT = Serdes.string()
READ = Consumed.with_(TEXT, TEXT)


def ms(number):
    return timedelta(milliseconds=number)


WINDOWS = JoinWindows.of_time_difference_and_grace(ms(10), ms(5))


def both(left_value, right_value):
    return f"{left_value}+{right_value}"


def joined(kind, windows=WINDOWS, joiner=both, options=None, **settings):
    """A driver of a join of the topics `l` and `r`."""
    builder = StreamsBuilder()
    stream = getattr(builder.stream("l", READ), kind)(builder.stream("r", READ), joiner, windows, options)
    stream.to("out", Produced.with_(TEXT, TEXT))
    return TopologyTestDriver(builder.build(), settings)


def sent(driver, *given):
    """Key, value and time of what the given (topic, key, value, time) set off."""
    for topic, key, value, time_ms in given:
        driver.pipe(topic, key and key.encode(), value and value.encode(), time_ms, ())
    found = [(r.key and r.key.decode(), r.value.decode(), r.timestamp_ms) for r in driver.output_queue("out")]
    driver.output_queue("out").clear()
    return found


def condition_of(function):
    with pytest.raises(TopologyError) as caught:
        function()
    return caught.value.condition


def test_records_of_one_key_that_are_near_in_time_meet_once_per_pair_with_the_larger_time():
    with joined("join") as driver:
        assert sent(driver, ("l", "a", "l0", 10), ("r", "a", "r0", 20), ("r", "a", "r1", 21)) == [("a", "l0+r0", 20)]
        assert sent(driver, ("l", "a", "l1", 12), ("l", "b", "l2", 12)) == [("a", "l1+r0", 20), ("a", "l1+r1", 21)]


def test_a_window_can_lie_on_one_side_only():
    windows = JoinWindows.of_time_difference_with_no_grace(ms(15)).after(ms(-5))
    with joined("join", windows) as driver:
        rights = [("r", "a", f"r{time}", time) for time in (4, 5, 14)]
        assert sent(driver, *rights, ("l", "a", "l", 20)) == [("a", "l+r5", 20), ("a", "l+r14", 20)]
        assert sent(driver, ("r", "a", "r16", 16)) == []


def test_a_window_that_ends_before_it_starts_is_refused():
    windows = JoinWindows.of_time_difference_with_no_grace(ms(5))
    assert condition_of(lambda: windows.after(ms(-6))) == "INVALID_WINDOW"
    assert condition_of(lambda: windows.before(timedelta(microseconds=5))) == "INVALID_DURATION"


def test_a_left_record_that_meets_nobody_comes_out_when_stream_time_is_beyond_its_window_and_grace():
    with joined("left_join") as driver:
        assert sent(driver, ("l", "a", "l", 10), ("r", "b", "r", 25)) == []
        assert sent(driver, ("r", "b", "r", 26)) == [("a", "l+None", 10)]
        assert sent(driver, ("r", "b", "r", 500)) == []


def test_an_out_of_order_record_waits_for_the_grace_as_well_and_comes_out_once():
    with joined("left_join") as driver:
        assert sent(driver, ("l", "x", "l", 100), ("l", "a", "old", 86), ("r", "a", "r", 80)) == [("a", "old+r", 86)]
        assert sent(driver, ("r", "y", "r", 200)) == [("x", "l+None", 100)]


def test_a_record_whose_window_and_grace_are_over_when_it_comes_comes_out_at_once():
    with joined("outer_join") as driver:
        assert sent(driver, ("l", "x", "l", 100), ("r", "a", "old", 84)) == [("a", "None+old", 84)]


def test_records_that_met_nobody_come_by_time_then_right_before_left_then_key():
    with joined("outer_join") as driver:
        waiting = [("l", "b", "l", 5), ("l", "a", "l", 5), ("r", "z", "r", 5), ("r", "c", "r", 3), ("l", "a", "m", 5)]
        assert sent(driver, *waiting) == []
        assert sent(driver, ("l", "q", "q", 99)) == [
            ("c", "None+r", 3), ("z", "None+r", 5), ("a", "l+None", 5), ("a", "m+None", 5), ("b", "l+None", 5),
        ]  # fmt: skip


def test_in_an_asymmetric_window_each_side_waits_as_long_as_somebody_could_come():
    windows = JoinWindows(before_ms=3, after_ms=12, grace_ms=0)
    with joined("outer_join", windows) as driver:
        assert sent(driver, ("l", "a", "l", 10), ("r", "b", "r", 10)) == []
        assert sent(driver, ("l", "c", "l", 14)) == [("b", "None+r", 10)]
        assert sent(driver, ("r", "d", "r", 23)) == [("a", "l+None", 10)]


def test_null_keys_of_an_outer_side_come_out_at_once_and_all_other_nulls_are_dropped_and_counted():
    with joined("left_join") as driver:
        assert sent(driver, ("l", None, "l", 1), ("r", None, "r", 1), ("l", "a", None, 1)) == [(None, "l+None", 1)]
        assert driver.metrics.total(DROPPED_RECORDS) == 2


def test_the_store_of_those_that_wait_is_empty_when_all_have_met():
    with joined("outer_join") as driver:
        sent(driver, ("l", "a", "l", 1), ("l", "a", "m", 1), ("r", "a", "r", 2))
        assert list(driver.store("KSTREAM-OUTERSHARED-0000000004-store").all()) == []
        assert sent(driver, ("l", "z", "z", 999)) == []


def test_a_joiner_that_fails_on_a_record_that_waited_does_not_take_the_record_at_hand_with_it():
    def picky(left_value, right_value):
        return both(left_value, right_value) if right_value else 1 // 0

    settings = {"processing.exception.handler": "log_and_continue"}
    with joined("left_join", joiner=picky, **settings) as driver:
        assert sent(driver, ("r", "b", "r", 100), ("l", "a", "l", 80), ("l", "b", "l", 101)) == [("b", "l+r", 101)]


def test_a_joiner_of_expressions_sees_both_sides_and_the_time_of_the_result():
    builder = StreamsBuilder()
    read = Consumed.with_(TEXT, Serdes.json(schema={"n": pl.Int64}))
    fields = {"l": left("n"), "r": right("n"), "at": timestamp()}
    builder.stream("l", read).left_join(builder.stream("r", read), fields, WINDOWS).to(
        "out", Produced.with_(TEXT, Serdes.json(sort_fields=True))
    )
    with TopologyTestDriver(builder.build()) as driver:
        found = sent(driver, ("l", "a", '{"n":1}', 5), ("r", "a", '{"n":2}', 9), ("l", "b", '{"n":3}', 6))
        assert found == [("a", '{"at":9,"l":1,"r":2}', 9)]
        assert sent(driver, ("r", "z", '{"n":0}', 500)) == [("b", '{"at":6,"l":3,"r":null}', 6)]


def test_names_begin_nodes_repartitions_and_stores():
    builder = StreamsBuilder()
    one = builder.stream("l", READ).select_key(lambda key, value: value)
    two = builder.stream("r", READ).select_key(lambda key, value: value)
    one.outer_join(two, both, WINDOWS, StreamJoined.with_(TEXT, TEXT, TEXT, name="pairs", store_name="kept"))
    topology = builder.build()
    assert set(topology.repartitions) == {"pairs-left-repartition", "pairs-right-repartition"}
    assert set(topology.stores) == {
        "kept-outer-this-join-store", "kept-outer-other-join-store", "kept-outer-shared-join-store",
    }  # fmt: skip
    names = [node.name for node in topology.nodes if isinstance(node, ProcessorNode)]
    assert names[-5:] == [
        "pairs-this-windowed", "pairs-other-windowed", "pairs-outer-this-join", "pairs-outer-other-join", "pairs-merge",
    ]  # fmt: skip


def test_a_rekeyed_stream_that_meets_itself_is_repartitioned_once():
    builder = StreamsBuilder()
    stream = builder.stream("l", READ).select_key(lambda key, value: value)
    stream.join(stream, both, WINDOWS, StreamJoined.with_(TEXT)).to("out", Produced.with_(TEXT, TEXT))
    topology = builder.build()
    assert len(topology.repartitions) == 1
    with TopologyTestDriver(topology) as driver:
        assert sent(driver, ("l", "x", "v", 1), ("l", "y", "v", 2)) == [
            ("v", "v+v", 1), ("v", "v+v", 2), ("v", "v+v", 2), ("v", "v+v", 2),
        ]  # fmt: skip


def test_suppliers_give_the_stores_their_names():
    made = [Stores.persistent_window_store(name, ms(25), ms(20), retain_duplicates=True) for name in ("mine", "theirs")]
    options = StreamJoined().with_this_store_supplier(made[0]).with_other_store_supplier(made[1])
    with joined("join", options=options) as driver:
        sent(driver, ("l", "a", "l", 1), ("l", "a", "m", 1), ("r", "a", "r", 30))
        assert [value for _, value in driver.store("mine").fetch_all(0, 10)] == ["l", "m"]


def test_a_supplier_that_does_not_fit_the_window_is_refused():
    short = Stores.persistent_window_store("mine", ms(24), ms(20), retain_duplicates=True)
    options = StreamJoined().with_this_store_supplier(short)
    assert condition_of(lambda: joined("join", options=options)) == "INVALID_STORE"
    single = Stores.persistent_window_store("mine", ms(25), ms(20), retain_duplicates=False)
    assert condition_of(lambda: StreamJoined().with_other_store_supplier(single)) == "INVALID_STORE"


def test_both_sides_must_have_the_same_number_of_partitions():
    builder = StreamsBuilder()
    builder.stream("l", READ).join(builder.stream("r", READ), both, WINDOWS).to("out")
    topology = builder.build()
    assert condition_of(lambda: partition_counts(topology, {"l": 2, "r": 3})) == "PARTITIONS_DIFFER"


def test_keys_of_different_types_are_refused():
    builder = StreamsBuilder()
    numbers = builder.stream("r", Consumed.with_(Serdes.long(), TEXT))
    assert condition_of(lambda: builder.stream("l", READ).join(numbers, both, WINDOWS)) == "JOIN_KEY_MISMATCH"


def test_a_join_of_streams_needs_windows():
    builder = StreamsBuilder()
    one, two = builder.stream("l", READ), builder.stream("r", READ)
    assert condition_of(lambda: one.join(two, both)) == "INVALID_JOIN"
    assert condition_of(lambda: one.join(two, both, ms(5))) == "INVALID_OPTION"
    assert condition_of(lambda: one.outer_join(builder.table("t"), both, WINDOWS)) == "INVALID_ARGUMENT"


def test_a_left_join_alone_lets_only_left_records_wait():
    builder = StreamsBuilder()
    builder.stream("l", READ).left_join(builder.stream("r", READ), both, WINDOWS).to("out")
    operators = [node.operator for node in builder.build().nodes if isinstance(node, ProcessorNode)]
    assert [(op.side, op.outer) for op in operators if isinstance(op, StreamStreamJoin)] == [
        ("left", True), ("right", False),
    ]  # fmt: skip
