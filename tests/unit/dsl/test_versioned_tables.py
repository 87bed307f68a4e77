from __future__ import annotations

from datetime import timedelta

import polars as pl
import pytest

from hayase import (
    BufferConfig,
    Consumed,
    Grouped,
    Joined,
    Materialized,
    Produced,
    Serdes,
    Stores,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    VersionedRecord,
    left,
    right,
    sum_,
)
from hayase.core.errors import TopologyError
from hayase.core.metrics import DROPPED_RECORDS
from hayase.testing import TopologyTestDriver

TEXT, LONG = Serdes.string(), Serdes.long()
READ = Consumed.with_(TEXT, TEXT)
WRITTEN = Produced.with_(TEXT, TEXT)


def ms(number):
    return timedelta(milliseconds=number)


def kept(name="v", history=100):
    return Materialized.as_(Stores.persistent_versioned_key_value_store(name, ms(history)))


@pytest.fixture
def builder():
    return StreamsBuilder()


@pytest.fixture
def table(builder):
    return builder.table("t", READ, kept())


def both(left_value, right_value):
    return f"{left_value}+{right_value}"


def condition_of(function):
    with pytest.raises(TopologyError) as caught:
        function()
    return caught.value.condition


def sent(driver, *given, topic="out"):
    """Key, value and time of what the given (topic, key, value, time) set off."""
    for source, key, value, time_ms in given:
        driver.pipe(source, key and key.encode(), value and value.encode(), time_ms, ())
    found = [
        (r.key and r.key.decode(), r.value and r.value.decode(), r.timestamp_ms) for r in driver.output_queue(topic)
    ]
    driver.output_queue(topic).clear()
    return found


OUT_OF_ORDER = [("t", "a", "new", 50), ("t", "a", "old", 20)]


def test_the_row_with_the_greatest_timestamp_is_the_latest_and_all_updates_are_sent(builder, table):
    table.to_stream().to("out", WRITTEN)
    with TopologyTestDriver(builder.build()) as driver:
        assert sent(driver, *OUT_OF_ORDER) == [("a", "new", 50), ("a", "old", 20)]
        store = driver.store("v")
        assert store.get("a") == VersionedRecord("new", 50)
        assert store.get("a", 49) == VersionedRecord("old", 20, 50)
        assert list(store.all()) == [("a", VersionedRecord("new", 50))]


def test_an_update_older_than_the_history_is_dropped_and_counted(builder, table):
    table.to_stream().to("out", WRITTEN)
    with TopologyTestDriver(builder.build()) as driver:
        assert sent(driver, ("t", "b", "x", 200), ("t", "a", "late", 99), ("t", "a", "kept", 100)) == [
            ("b", "x", 200), ("a", "kept", 100),
        ]  # fmt: skip
        assert driver.metrics.total(DROPPED_RECORDS) == 1


def test_aggregations_take_no_notice_of_what_comes_out_of_order(builder, table):
    groups = table.filter(lambda key, value: value != "none").map_values(str.upper)
    groups.group_by(lambda key, value: (value, 1), Grouped.with_(TEXT, LONG)).count(Materialized.as_("n"))
    with TopologyTestDriver(builder.build()) as driver:
        sent(driver, *OUT_OF_ORDER, ("t", "b", "old", 10), ("t", "b", None, 5))
        assert {key: row.value for key, row in driver.store("n").all()} == {"NEW": 1, "OLD": 1}


def test_joins_of_tables_drop_and_count_what_comes_out_of_order(builder, table):
    other = builder.table("u", READ, kept("w"))
    table.join(other, both).to_stream().to("out", WRITTEN)
    with TopologyTestDriver(builder.build()) as driver:
        assert sent(driver, *OUT_OF_ORDER, ("u", "a", "u", 30)) == [("a", "new+u", 50)]
        assert driver.metrics.total(DROPPED_RECORDS) == 1


@pytest.mark.parametrize("versioned_side", ["left", "right"])
def test_foreign_key_joins_drop_and_count_what_comes_out_of_order(builder, versioned_side):
    lefts = builder.table("l", READ, kept("lv") if versioned_side == "left" else Materialized.as_("lv"))
    rights = builder.table("r", READ, kept("rv") if versioned_side == "right" else Materialized.as_("rv"))
    lefts.join(rights, lambda value: value[0], both).to_stream().to("out", Produced.with_(TEXT, Serdes.json()))
    late = ("l", "k", "y-late", 10) if versioned_side == "left" else ("r", "x", "late", 5)
    with TopologyTestDriver(builder.build()) as driver:
        assert sent(driver, ("r", "x", "X", 10), ("r", "y", "Y", 10), ("l", "k", "x1", 20)) == [("k", '"x1+X"', 20)]
        assert sent(driver, late) == []
        assert driver.metrics.total(DROPPED_RECORDS) == 1


def test_a_filter_of_a_versioned_table_sends_deletes_of_any_time(builder, table):
    table.filter(lambda key, value: value > "m").to_stream().to("out", WRITTEN)
    table.group_by(lambda key, value: (value, value), Grouped.with_(TEXT, TEXT)).count()  # wants old values
    with TopologyTestDriver(builder.build()) as driver:
        assert sent(driver, ("t", "a", "b", 10), ("t", "a", "c", 5)) == [("a", None, 10), ("a", None, 5)]


def test_a_filter_or_mapper_keeps_versions_of_its_own_if_it_is_told_to(builder, table):
    table.map_values(str.upper, kept("w", 10)).to_stream().to("out", WRITTEN)
    with TopologyTestDriver(builder.build()) as driver:
        late = [("t", "a", "refused", 39), ("t", "a", "kept", 40)]
        assert sent(driver, ("t", "a", "new", 50), *late) == [("a", "NEW", 50), ("a", "KEPT", 40)]
        assert driver.store("w").get("a", 45).value == "KEPT"
        assert driver.metrics.total(DROPPED_RECORDS) == 1


def test_a_stream_is_joined_with_the_row_that_was_valid_at_the_records_timestamp(builder, table):
    shouted = table.filter(lambda key, value: value != "none").map_values(str.upper)
    builder.stream("s", READ).left_join(shouted, both, Joined.with_(TEXT, TEXT)).to("out", WRITTEN)
    with TopologyTestDriver(builder.build()) as driver:
        sent(driver, *OUT_OF_ORDER, ("t", "a", "none", 40), ("t", "a", None, 60))
        asked = [("s", "a", "s", time) for time in (19, 20, 39, 40, 50, 59, 60)]
        values = [value.removeprefix("s+") for _, value, _ in sent(driver, *asked)]
        assert values == ["None", "OLD", "OLD", "None", "NEW", "NEW", "None"]


VERSIONED_AGGREGATES = {
    "a grouped stream": lambda b, t: b.stream("s", READ).group_by_key().reduce(both, kept("w")),
    "a cogroup": lambda b, t: (
        b.stream("s", READ)
        .group_by_key()
        .cogroup(lambda key, value, so_far: f"{so_far}+{value}" if so_far else value)
        .aggregate(str, kept("w").with_key_serde(TEXT).with_value_serde(TEXT))
    ),
    "a grouped table": lambda b, t: (
        b.table("s", READ).group_by(lambda k, v: (k, v), Grouped.with_(TEXT, TEXT)).reduce(both, both, kept("w"))
    ),
    "a join": lambda b, t: b.table("s", READ).left_join(t, lambda mine, theirs: mine, kept("w")),
    "a foreign-key join": lambda b, t: b.table("s", READ).left_join(
        t, lambda value: value, lambda mine, theirs: mine, None, kept("w", 100)
    ),
}


@pytest.mark.parametrize("made", VERSIONED_AGGREGATES.values(), ids=VERSIONED_AGGREGATES)
def test_what_an_aggregation_or_a_join_makes_can_be_versioned(builder, table, made):
    versions = made(builder, table)
    versions.to_stream().to("out", WRITTEN)
    builder.stream("asks", READ).left_join(versions, both, Joined.with_(TEXT, TEXT)).to("answers", WRITTEN)
    with TopologyTestDriver(builder.build()) as driver:
        assert sent(driver, ("s", "a", "x", 10), ("s", "b", "y", 200)) == [("a", "x", 10), ("b", "y", 200)]
        assert driver.store("w").get("a") == VersionedRecord("x", 10)
        sent(driver, ("s", "a", "z", 210))
        asked = [("asks", "a", "?", time) for time in (150, 210)]
        assert [value for _, value, _ in sent(driver, *asked, topic="answers")] == [
            "?+x",
            f"?+{driver.store('w').get('a').value}",
        ]
        assert sent(driver, ("s", "c", "late", 50)) == [], "older than the history of the store"
        assert driver.metrics.total(DROPPED_RECORDS) == 1


def test_expressions_above_a_versioned_aggregate_know_its_fields(builder):
    fields = Consumed.with_(TEXT, Serdes.json(schema={"n": pl.Int64}))
    sums = builder.stream("s", fields).group_by_key().agg(total=sum_("n"), materialized=kept("w"))
    sums.filter(pl.col("total") > 3).to_stream().to("out", Produced.with_(TEXT, Serdes.json()))
    with TopologyTestDriver(builder.build()) as driver:
        assert sent(driver, ("s", "a", '{"n":2}', 10), ("s", "a", '{"n":2}', 5)) == [
            ("a", None, 10), ("a", '{"total":4}', 10),
        ]  # fmt: skip


def test_a_stream_is_made_a_versioned_table(builder):
    versions = builder.stream("t", READ).to_table(kept())
    builder.stream("s", READ).join(versions, both).to("out", WRITTEN)
    with TopologyTestDriver(builder.build()) as driver:
        assert sent(driver, *OUT_OF_ORDER, ("s", "a", "s", 30)) == [("a", "s+old", 30)]


def test_with_grace_a_record_waits_for_rows_that_come_late_and_keeps_its_headers(builder, table):
    joined = Joined.with_(TEXT, TEXT, name="j").with_grace_period(ms(10))
    builder.stream("s", READ).join(table, both, joined).to("out", WRITTEN)
    topology = builder.build()
    assert "Processor: j (stores: [v, j-Buffer])" in topology.describe()
    with TopologyTestDriver(topology) as driver:
        driver.pipe("s", b"a", b"s", 20, (("trace", b"1"),))
        assert sent(driver, *OUT_OF_ORDER, ("s", "b", "clock", 29)) == []
        driver.pipe("s", b"b", b"clock", 30, ())
        (found,) = driver.output_queue("out")
        assert (found.value, found.timestamp_ms, found.headers) == (b"s+old", 20, (("trace", b"1"),))


def test_what_is_late_by_more_than_the_grace_and_what_has_no_key_does_not_wait(builder, table):
    joined = Joined.with_(TEXT, TEXT).with_grace_period(ms(10))
    builder.stream("s", READ).left_join(table, both, joined).to("out", WRITTEN)
    with TopologyTestDriver(builder.build()) as driver:
        assert sent(driver, ("s", "a", "s", 50), ("s", None, "n", 50), ("s", "a", "late", 39)) == [
            (None, "n+None", 50), ("a", "late+None", 39),
        ]  # fmt: skip


def test_a_record_that_waits_and_on_which_the_joiner_fails_does_not_harm_the_one_that_set_it_off(builder, table):
    joined = Joined.with_(TEXT, TEXT).with_grace_period(ms(0))

    def picky(value, row):
        return 1 // 0 if value == "bad" else both(value, row)

    builder.stream("s", READ).left_join(table, picky, joined).to("out", WRITTEN)
    settings = {"processing.exception.handler": "log_and_continue"}
    with TopologyTestDriver(builder.build(), settings) as driver:
        assert sent(driver, ("s", "a", "bad", 10), ("s", "a", "good", 11)) == [("a", "good+None", 11)]


def test_a_joiner_of_expressions_sees_the_fields_of_the_version(builder):
    fields = Consumed.with_(TEXT, Serdes.json(schema={"n": pl.Int64}))
    versions = builder.table("t", fields, kept())
    joiner = {"l": left("n"), "r": right("n")}
    stream = builder.stream("s", fields).left_join(versions, joiner)
    stream.to("out", Produced.with_(TEXT, Serdes.json(sort_fields=True)))
    with TopologyTestDriver(builder.build()) as driver:
        given = [
            ("t", "a", '{"n":1}', 10),
            ("t", "a", '{"n":2}', 20),
            ("s", "a", '{"n":9}', 15),
            ("s", "b", '{"n":8}', 15),
        ]
        assert [value for _, value, _ in sent(driver, *given)] == ['{"l":9,"r":1}', '{"l":8,"r":null}']


@pytest.mark.parametrize(
    "use",
    [
        lambda b, t: t.suppress(Suppressed.until_time_limit(ms(5), BufferConfig.unbounded())),
        lambda b, t: t.filter(lambda k, v: True).suppress(Suppressed.until_time_limit(ms(5), BufferConfig.unbounded())),
    ],
)
def test_a_versioned_table_cannot_be_suppressed(builder, table, use):
    assert condition_of(lambda: use(builder, table)) == "VERSIONED_TABLE"


@pytest.mark.parametrize(
    "use",
    [
        lambda b, t: b.global_table("g", READ, kept("w")),
        lambda b, t: (
            b.stream("s", READ).group_by_key().windowed_by(TimeWindows.of_size_with_no_grace(ms(5))).count(kept("w"))
        ),
    ],
)
def test_global_tables_and_windowed_aggregates_have_no_versions(builder, table, use):
    assert condition_of(lambda: use(builder, table)) == "VERSIONED_STORE"


def test_grace_needs_a_versioned_table_with_a_history_as_long(builder, table):
    grace = Joined.with_(TEXT, TEXT, grace_period=ms(101))
    stream, plain = builder.stream("s", READ), builder.table("p", READ)
    assert condition_of(lambda: stream.join(plain, both, grace)) == "NOT_VERSIONED"
    assert condition_of(lambda: stream.join(table, both, grace)) == "HISTORY_TOO_SHORT"
    assert condition_of(lambda: Joined().with_grace_period(ms(-1))) == "INVALID_DURATION"


def test_stores_of_processors_can_be_versioned():
    spec = Stores.versioned_key_value_store("v", TEXT, TEXT, history_retention=ms(50), segment_interval=ms(5))
    assert (spec.kind, spec.retention_ms, spec.segment_interval_ms, spec.caching) == (
        "versioned_key_value",
        50,
        5,
        False,
    )
