"""Times of the test driver: milliseconds, or aware datetimes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from hayase import Consumed, Produced, Serdes, StreamsBuilder
from hayase.core.errors import StateError
from hayase.testing import TopologyTestDriver

TEXT = Serdes.string()


def test_the_times_of_records_and_of_a_topic_may_be_aware_datetimes() -> None:
    builder = StreamsBuilder()
    builder.stream("in", Consumed.with_(TEXT, TEXT)).to("out", Produced.with_(TEXT, TEXT))
    start = datetime(2026, 1, 2, tzinfo=UTC)
    with TopologyTestDriver(builder.build(), initial_wall_clock_ms=start) as driver:
        source = driver.create_input_topic("in", TEXT, TEXT, start, timedelta(seconds=1))
        source.pipe_value_list(["a", "b"])
        source.pipe_input("k", "c", start - timedelta(days=1))
        times = [record.timestamp_ms for record in driver.create_output_topic("out", TEXT, TEXT).read_records_to_list()]
        begin_ms = round(start.timestamp() * 1000)
        assert times == [begin_ms, begin_ms + 1_000, begin_ms - 86_400_000]
        with pytest.raises(StateError, match="has no time zone"):
            source.pipe_input("k", "d", datetime(2026, 1, 2))  # noqa: DTZ001 - that is what is wrong
