"""Retention by time and by size."""

from __future__ import annotations

import pytest
from tests.unit.log.keeping import WHERE, bounds, kept_log, local_bytes, put, put_each, rows

from hayase.core.errors import SourceRangeLostError


def test_batches_whose_newest_record_is_too_old_are_removed_from_the_start() -> None:
    with kept_log({"retention.ms": "100"}) as log:
        put(log, (b"a", b"1", 0), (b"a", b"2", 50))
        put_each(log, (b"a", b"3", 200), (b"a", b"4", 10))
        log.clean(150)
        assert bounds(log) == (0, 4)
        assert log.clean(151).expired_records == 2
        assert bounds(log) == (2, 4)
        assert [row.value for row in rows(log)] == [b"3", b"4"]


def test_everything_may_go_and_offsets_go_on() -> None:
    with kept_log({"retention.ms": "100"}) as log:
        put_each(log, (b"a", b"1", 0), (b"a", b"2", 1))
        log.clean(1_000)
        assert bounds(log) == (2, 2)
        assert local_bytes(log) == 0
        put(log, (b"a", b"3", 1_000))
        assert [row.offset for row in rows(log)] == [2]


def test_by_size_so_much_goes_that_the_bound_is_still_there() -> None:
    with kept_log({}) as log:
        put_each(log, *[(b"a", b"v" * 100, 5) for _ in range(10)])
        one = local_bytes(log) // 10
        log.alter_topic_config("t", {"retention.bytes": str(3 * one + 1)})
        log.clean(0)
        assert bounds(log) == (6, 10)
        assert local_bytes(log) == 4 * one


def test_without_a_bound_nothing_is_removed() -> None:
    with kept_log({}) as log:
        put(log, (b"a", b"1", 0))
        assert not log.clean(2**50)
        assert bounds(log) == (0, 1)


def test_a_compacted_topic_has_no_retention() -> None:
    with kept_log({"cleanup.policy": "compact", "retention.ms": "1", "retention.bytes": "0"}) as log:
        put(log, (b"a", b"1", 0))
        log.clean(10_000)
        assert bounds(log) == (0, 1)


def test_a_range_that_was_removed_is_lost_for_its_reader() -> None:
    with kept_log({"retention.ms": "100"}) as log:
        put_each(log, (b"a", b"1", 0), (b"a", b"2", 10_000))
        log.clean(10_000)
        with pytest.raises(SourceRangeLostError) as error:
            list(log.reader().fetch(WHERE, 0, 2))
        assert error.value.condition == "SOURCE_RANGE_LOST"
        assert error.value.context["offset"] == 0


def test_a_reader_of_what_stays_is_not_disturbed() -> None:
    with kept_log({"retention.ms": "100"}) as log:
        put_each(log, (b"a", b"1", 0), (b"a", b"2", 10_000))
        batches = log.reader().fetch(WHERE, 1, 2)
        log.clean(10_000)
        assert [part.values for part in batches] == [[b"2"]]


def test_a_time_before_the_start_is_at_the_start() -> None:
    with kept_log({"retention.ms": "100"}) as log:
        put_each(log, (b"a", b"1", 900), (b"a", b"2", 100), (b"a", b"3", 950), (b"a", b"4", 10), (b"a", b"5", 990))
        log.clean(1_001)
        assert bounds(log) == (2, 5)
        found = {time: log.offsets_for_time({WHERE: time})[WHERE] for time in (0, 100, 901, 950, 951, 991)}
        assert found == {0: 2, 100: 2, 901: 2, 950: 2, 951: 4, 991: 5}


def test_many_batches_are_removed_in_steps() -> None:
    with kept_log({"retention.ms": "100"}) as log, pytest.MonkeyPatch.context() as patch:
        patch.setattr("hayase.log.embedded.retention._AT_A_TIME", 3)
        put_each(log, *[(b"a", b"v", 0) for _ in range(10)])
        assert log.clean(1_000).expired_records == 10
        assert bounds(log) == (10, 10)


def test_append_time_counts_where_the_topic_stamps_at_append() -> None:
    with kept_log({"message.timestamp.type": "LogAppendTime", "retention.ms": "100"}, now_ms=5_000) as log:
        put(log, (b"a", b"1", 7), (b"b", b"2", 9))
        assert [row.timestamp_ms for row in rows(log)] == [5_000, 5_000]
        assert log.offsets_for_time({WHERE: 5_000}) == {WHERE: 0}
        assert log.offsets_for_time({WHERE: 5_001}) == {WHERE: 2}
        assert not log.clean(5_100)
        assert log.clean(5_101).expired_records == 2
