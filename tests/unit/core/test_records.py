from __future__ import annotations

import pickle

import pytest

from hayase.core.errors import SourceRangeLostError, UnknownStoreError
from hayase.core.records import Record, TaskId, TopicPartition, Window, Windowed


def test_a_record_with_another_part_keeps_the_rest():
    record = Record("k", 1, 5, (("h", b"x"),))
    assert record.with_key("j") == Record("j", 1, 5, (("h", b"x"),))
    assert record.with_value(2) == Record("k", 2, 5, (("h", b"x"),))
    assert record.with_timestamp(6) == Record("k", 1, 6, (("h", b"x"),))
    assert record.with_headers(()) == Record("k", 1, 5)


def test_a_record_cannot_be_changed():
    with pytest.raises(AttributeError):
        Record("k", 1, 5).value = 2


def test_ids_are_written_as_kafka_streams_writes_them():
    assert str(TaskId(1, 12)) == "1_12"
    assert TaskId.parse("1_12") == TaskId(1, 12)
    assert str(TopicPartition("a-b", 3)) == "a-b-3"


def test_windowed_keys_are_ordered_by_key_and_start():
    keys = [Windowed("b", Window(0, 5)), Windowed("a", Window(5, 10)), Windowed("a", Window(0, 5))]
    assert sorted(keys) == [keys[2], keys[1], keys[0]]


def test_an_error_says_where_it_happened_and_survives_pickling():
    error = SourceRangeLostError("SOURCE_RANGE_LOST", "offset 5 is gone", topic="t", partition=0, offset=None)
    assert str(error) == "[SOURCE_RANGE_LOST] offset 5 is gone (topic t, partition 0)"
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), str(copy), copy.context) == (SourceRangeLostError, str(error), error.context)


def test_an_unknown_store_is_a_key_error_with_a_readable_text():
    assert str(UnknownStoreError("UNKNOWN_STORE", "there is no store x")) == "[UNKNOWN_STORE] there is no store x"
