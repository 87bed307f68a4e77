"""Log compaction: what stays, what goes, and when."""

from __future__ import annotations

import pytest
from tests.unit.log.keeping import WHERE, Row, bounds, kept_log, local_bytes, put, put_each, rows

from hayase.core.errors import ProductionError

COMPACT = {"cleanup.policy": "compact", "delete.retention.ms": "1000"}


def test_of_each_key_the_last_record_stays_with_its_offset_and_order() -> None:
    with kept_log(COMPACT) as log:
        put_each(log, (b"a", b"1", 10), (b"b", b"2", 20), (b"a", b"3", 30), (b"c", b"4", 40), (b"b", b"5", 50))
        log.clean(100)
        assert rows(log) == [Row(2, b"a", b"3", 30), Row(3, b"c", b"4", 40), Row(4, b"b", b"5", 50)]
        assert bounds(log) == (0, 5)


def test_headers_stay() -> None:
    with kept_log(COMPACT) as log:
        put(log, (b"a", b"1", 1), (b"a", b"2", 2), headers=[(), (("h", b"x"), ("n", None))])
        log.clean(100)
        assert rows(log) == [Row(1, b"a", b"2", 2, (("h", b"x"), ("n", None)))]


def test_a_range_may_begin_and_end_in_a_gap() -> None:
    with kept_log(COMPACT) as log:
        put_each(log, *[(b"a", b"%d" % number, number) for number in range(9)], (b"b", b"x", 9))
        log.clean(100)
        assert rows(log, 0, 8) == []
        assert rows(log, 3, 9) == [Row(8, b"a", b"8", 8)]
        assert rows(log, 9, 10) == [Row(9, b"b", b"x", 9)]


def test_a_tombstone_stays_until_delete_retention_ms_after_the_pass_that_met_it() -> None:
    with kept_log(COMPACT) as log:
        put_each(log, (b"a", b"1", 1), (b"a", None, 2))
        log.clean(5_000)
        assert rows(log) == [Row(1, b"a", None, 2)]
        assert not log.clean(5_999)
        assert rows(log) == [Row(1, b"a", None, 2)]
        assert log.clean(6_000).tombstones == 1
        assert rows(log) == []
        assert bounds(log) == (0, 2)


def test_new_records_do_not_put_off_the_end_of_a_tombstone() -> None:
    with kept_log({**COMPACT, "min.cleanable.dirty.ratio": "0"}) as log:
        put(log, (b"a", None, 1))
        for now in range(100, 1_100, 100):
            log.clean(now)
            put(log, (b"b", b"%d" % now, now), (b"t%d" % now, None, now))
        assert b"a" in {row.key for row in rows(log)}
        log.clean(1_100)
        assert b"a" not in {row.key for row in rows(log)}
        assert b"t200" in {row.key for row in rows(log)}


def test_a_key_that_was_deleted_and_comes_back_stays() -> None:
    with kept_log(COMPACT) as log:
        put_each(log, (b"a", b"1", 1), (b"a", None, 2), (b"a", b"3", 3))
        log.clean(10)
        log.clean(10_000)
        assert rows(log) == [Row(2, b"a", b"3", 3)]


def test_nothing_is_done_until_the_dirty_share_is_above_the_ratio() -> None:
    with kept_log({**COMPACT, "min.cleanable.dirty.ratio": "0.5"}) as log:
        put(log, *[(b"k%d" % number, b"v" * 50, 1) for number in range(100)])
        log.clean(10)
        put(log, *[(b"k%d" % number, b"w" * 50, 2) for number in range(10)])
        assert not log.clean(10)
        for round_ in range(9):
            put(log, *[(b"k%d" % number, b"%d" % round_ * 50, 3) for number in range(20)])
        assert log.clean(10).superseded_records > 0
        assert len(rows(log)) == 100


def test_records_younger_than_the_lag_and_all_behind_them_stay_as_they_are() -> None:
    with kept_log({**COMPACT, "min.compaction.lag.ms": "100"}) as log:
        put_each(log, (b"a", b"1", 0), (b"a", b"2", 10), (b"a", b"3", 500), (b"a", b"4", 20), (b"a", b"5", 510))
        log.clean(500)
        assert [row.offset for row in rows(log)] == [1, 2, 3, 4]
        log.clean(1_000)
        assert [row.offset for row in rows(log)] == [4]


def test_a_dirty_record_older_than_the_largest_lag_brings_a_pass_about() -> None:
    with kept_log({**COMPACT, "min.cleanable.dirty.ratio": "1", "max.compaction.lag.ms": "1000"}) as log:
        put_each(log, (b"a", b"1", 100), (b"a", b"2", 200))
        assert not log.clean(1_100)
        assert log.clean(1_101).superseded_records == 1


def test_small_batches_become_few_and_the_size_is_known() -> None:
    with kept_log(COMPACT) as log:
        put_each(log, *[(b"k%d" % (number % 7), b"v%d" % number, number) for number in range(60)])
        before = local_bytes(log)
        report = log.clean(1_000)
        assert report.superseded_records == 53
        assert local_bytes(log) == before - report.compacted_bytes
        assert len(list(log.reader().fetch(WHERE, 0, 60))) == 1


def test_a_reader_that_kept_a_batch_from_before_reads_on() -> None:
    with kept_log(COMPACT) as log:
        put(log, *[(b"k%d" % (number % 3), b"%d" % number, number) for number in range(10)])
        reader = log.reader()
        first = [value for part in reader.fetch(WHERE, 0, 5) for value in part.values]
        log.clean(1_000)
        second = [value for part in reader.fetch(WHERE, 5, 10) for value in part.values]
        assert (first, second) == ([b"0", b"1", b"2", b"3", b"4"], [b"7", b"8", b"9"])


def test_records_without_key_of_a_topic_that_becomes_compacted_are_removed_and_counted() -> None:
    with kept_log({}) as log:
        put_each(log, (None, b"1", 1), (b"a", b"2", 2))
        log.alter_topic_config("t", {"cleanup.policy": "compact"})
        assert log.clean(10).records_without_key == 1
        assert [row.offset for row in rows(log)] == [1]
        with pytest.raises(ProductionError):
            put(log, (None, b"3", 3))


def test_a_time_is_found_among_what_is_left() -> None:
    with kept_log(COMPACT) as log:
        put_each(log, (b"a", b"1", 50), (b"b", b"2", 20), (b"a", b"3", 30), (b"c", b"4", 70))
        log.clean(100)
        found = {time: log.offsets_for_time({WHERE: time})[WHERE] for time in (0, 20, 21, 31, 70, 71)}
        assert found == {0: 1, 20: 1, 21: 2, 31: 3, 70: 3, 71: 4}


def test_compact_and_delete_do_both() -> None:
    with kept_log({"cleanup.policy": "compact,delete", "retention.ms": "1000"}) as log:
        put_each(log, (b"old", b"1", 0), (b"a", b"2", 5_000), (b"a", b"3", 5_001))
        report = log.clean(5_500)
        assert (report.expired_records, report.superseded_records) == (1, 1)
        assert rows(log) == [Row(2, b"a", b"3", 5_001)]
        assert bounds(log) == (1, 3)
