"""Event times in a field of the value: numbers, texts and datetimes, the same in both forms."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hayase import Consumed, Produced, Serdes, StreamsBuilder, TimeWindows, count, field_timestamp, record_timestamp
from hayase.core.errors import SerializationError
from hayase.core.metrics import DROPPED_RECORDS, Metrics
from hayase.core.time import event_ms
from hayase.task.event_time import extract_times
from hayase.testing import TopologyTestDriver

AT = datetime(2026, 11, 23, 9, 30, 0, 123_456, tzinfo=UTC)
AT_MS = 1_795_426_200_123


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (5, 5),
        ("2026-11-23T09:30:00.123456Z", AT_MS),
        ("2026-11-23T10:30:00.123+01:00", AT_MS),
        ("2026-11-23T09:30:00.123", AT_MS),
        ("2026-11-23 09:30:00.123", AT_MS),
        ("20261123T093000.123Z", AT_MS),
        ("2026-11-23", AT_MS - 34_200_123),
        (AT, AT_MS),
        (AT.replace(tzinfo=None), AT_MS),
        (AT.astimezone(timezone(timedelta(hours=-5))), AT_MS),
        (date(2026, 11, 23), AT_MS - 34_200_123),
        ("1969-12-31T23:59:59.9999Z", -1),
        ("soon", "soon"),
        (None, None),
    ],
)
def test_a_time_is_milliseconds_since_1970_and_utc_unless_it_says_otherwise(given: Any, expected: Any) -> None:
    assert event_ms(given) == expected


class _Clocks:
    def get(self, name: str) -> int:
        return -1

    def set(self, name: str, time_ms: int) -> None:
        raise AssertionError("no clock is needed")


class _Raw:
    topic, partition = "in", 0

    def __init__(self, rows: int) -> None:
        self.offsets = np.arange(rows)


def extracted(values: list[Any], dtype: pl.DataType | None) -> tuple[list[int], list[bool]]:
    """Times and whether each is kept; in columns if there is a type."""
    content: Any = pl.DataFrame({"at": pl.Series(values, dtype=dtype)}) if dtype else ([], [{"at": v} for v in values])
    times, keep = extract_times(
        field_timestamp("at", "skip"), "n", _Raw(len(values)), np.arange(len(values)), content,  # type: ignore[arg-type]
        clocks=_Clocks(), metrics=Metrics(), wall_clock_ms=0,
    )  # fmt: skip
    kept = [True] * len(values) if keep is None else keep.tolist()
    return [time for time, good in zip(times.tolist(), kept, strict=True) if good], kept


DATES = st.datetimes(datetime(1960, 1, 1), datetime(2100, 1, 1))  # noqa: DTZ001
ZONES = st.sampled_from(["", "Z", "+00:00", "-05:30", "+14:00", "+15:00", "z", " ", "+0100"])
TEXTS = st.one_of(
    st.builds(
        lambda at, spec, separator, zone: at.isoformat(separator, spec) + zone,
        DATES,
        st.sampled_from(["auto", "seconds", "milliseconds", "minutes", "hours"]),
        st.sampled_from(["T", "T", "T", " "]),
        ZONES,
    ),
    st.sampled_from(["", "soon", "2026-02-30T00:00:00Z", "2026-01-01T25:00:00Z", "2026-01-01T00:00:60Z", "2026-W01-1"]),
)


@given(st.lists(st.one_of(TEXTS, st.none()), max_size=6))
def test_texts_are_read_alike_in_rows_and_columns(texts: list[str | None]) -> None:
    assert extracted(texts, pl.String()) == extracted(texts, None)


@given(st.lists(st.builds(lambda at: at.isoformat() + "Z", DATES.filter(lambda at: at.year >= 1970)), min_size=1))
def test_texts_of_the_common_kind_are_read_alike_in_rows_and_columns(texts: list[str]) -> None:
    assert extracted(texts, pl.String()) == extracted(texts, None)


@given(st.lists(DATES, max_size=5), st.sampled_from(["ms", "us"]))
def test_datetimes_are_read_alike_in_rows_and_columns(times: list[datetime], subtopology: Any) -> None:
    if subtopology == "ms":
        times = [time.replace(microsecond=time.microsecond // 1000 * 1000) for time in times]
    assert extracted(times, pl.Datetime(subtopology)) == extracted(times, None)
    days = [time.date() for time in times]
    assert extracted(days, pl.Date()) == extracted(days, None)


@pytest.mark.parametrize("form", ["rows", "columns"])
def test_a_stream_takes_its_times_from_texts_and_refuses_what_is_no_time(form: str) -> None:
    builder = StreamsBuilder()
    text, reading = Serdes.string(), Serdes.json(schema={"at": pl.String})
    consumed = Consumed.with_(text, reading).with_timestamp_extractor(field_timestamp("at"))
    builder.stream("in", consumed).filter(pl.col("at").is_not_null()).to("out", Produced.with_(text, reading))
    with TopologyTestDriver(builder.build(), {"processing.form": form}) as driver:
        source = driver.create_input_topic("in", text, reading)
        source.pipe_input("a", {"at": "2026-11-23T10:30:00.123+01:00"})
        assert driver.create_output_topic("out", text, reading).read_record().timestamp_ms == AT_MS
        with pytest.raises(SerializationError, match="as a text: ISO 8601"):
            source.pipe_input("a", {"at": "soon"})


@pytest.mark.parametrize("form", ["rows", "auto"])
@pytest.mark.parametrize("far_ms", [2**62, 2**63 - 1])
def test_a_time_to_which_no_window_can_be_added_is_none(form: str, far_ms: int) -> None:
    builder = StreamsBuilder()
    read = Consumed.with_(Serdes.string(), Serdes.json(schema={"n": pl.Int64}), record_timestamp(on_invalid="skip"))
    counted = (
        builder.stream("in", read).group_by_key().windowed_by(TimeWindows.of_size_with_no_grace(timedelta(seconds=1)))
    )
    counted.agg(n=count()).to_stream().to("out")
    with TopologyTestDriver(builder.build(), {"processing.form": form}) as driver:
        driver.pipe("in", b"k", b'{"n":1}', far_ms, ())
        driver.pipe("in", b"k", b'{"n":1}', 5, ())
        assert [record.timestamp_ms for record in driver.output_queue("out")] == [5]
        assert driver.metrics.total(DROPPED_RECORDS) == 1
