"""Functions of dates and times, with Java's patterns."""

from __future__ import annotations

import time

import pytest
from tests.unit.sql.functions.evaluation import evaluate

from hayase.sql.errors import FunctionError
from hayase.sql.types.sql_types import BIGINT, DATE, INTEGER, TIME, TIMESTAMP

COLUMNS = {"D": DATE, "T": TIME, "TS": TIMESTAMP, "N": INTEGER, "B": BIGINT}
ROW = {"D": 17662, "T": 46_805_007, "TS": 1_526_075_913_042, "N": 17662, "B": 1_526_075_913_042}


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("yyyy-MM-dd", "2018-05-11"),
        ("d.M.yy", "11.5.18"),
        ("EEEE, dd-MMM-yyyy 'o''clock'", "Friday, 11-May-2018 o'clock"),
        ("E MMMMM", "Fri M"),
        ("DDD QQQ QQQQ w W F e G", "131 Q2 2nd quarter 19 2 4 6 AD"),
        ("YYYY-'W'ww-e", "2018-W19-6"),
        ("uuuu[ HH:mm]", "2018"),
        ("ppppd", "  11"),
    ],
)
def test_dates_are_printed_by_pattern(pattern: str, text: str) -> None:
    assert evaluate(f"FORMAT_DATE(D, {quoted(pattern)})", ROW, COLUMNS) == text
    assert evaluate(f"DATETOSTRING(N, {quoted(pattern)})", ROW, COLUMNS) == text


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("HH:mm:ss.SSS", "13:00:05.007"),
        ("h:m:s a", "1:0:5 PM"),
        ("k K", "13 1"),
        ("A", "46805007"),
        ("n", "7000000"),
    ],
)
def test_times_are_printed_by_pattern(pattern: str, text: str) -> None:
    assert evaluate(f"FORMAT_TIME(T, {quoted(pattern)})", ROW, COLUMNS) == text


@pytest.mark.parametrize(
    ("pattern", "zone", "text"),
    [
        ("yyyy-MM-dd HH:mm:ss.SSS zzz", "America/Los_Angeles", "2018-05-11 14:58:33.042 PDT"),
        ("HH:mm zzzz", "Europe/Berlin", "23:58 Central European Summer Time"),
        ("HH:mm X XX XXX", "Asia/Kolkata", "03:28 +0530 +0530 +05:30"),
        ("HH:mm X x Z", "UTC", "21:58 Z +00 +0000"),
        ("HH:mm O OOOO VV", "-0230", "19:28 GMT-2:30 GMT-02:30 -02:30"),
        ("HH z", "+02:00", "23 +02:00"),
    ],
)
def test_timestamps_are_printed_in_a_zone(pattern: str, zone: str, text: str) -> None:
    assert evaluate(f"FORMAT_TIMESTAMP(TS, {quoted(pattern)}, '{zone}')", ROW, COLUMNS) == text
    assert evaluate(f"TIMESTAMPTOSTRING(B, {quoted(pattern)}, '{zone}')", ROW, COLUMNS) == text


def test_years_beyond_four_digits_and_before_christ_are_printed() -> None:
    columns = {"D": DATE}
    assert evaluate("FORMAT_DATE(D, 'yyyy-MM-dd')", {"D": 4_000_000}, columns) == "+12921-08-18"
    assert evaluate("FORMAT_DATE(D, 'yyyy G, uuuu')", {"D": -719_900}, columns) == "0003 BC, -0002"


@pytest.mark.parametrize(
    "text",
    [
        "FORMAT_DATE(D, 'HH')",
        "FORMAT_TIME(T, 'yyyy')",
        "FORMAT_TIME(T, 'HH z')",
        "FORMAT_DATE(D, 'yyyy-bb')",
        "FORMAT_DATE(D, 'ddd')",
        "FORMAT_DATE(D, '''open')",
        "FORMAT_DATE(D, 'yyyy]')",
        "FORMAT_TIMESTAMP(TS, 'yyyy', 'Mars/Olympus')",
        "FORMAT_TIMESTAMP(TS, 'yyyy', '+19:00')",
    ],
)
def test_a_pattern_must_fit_the_value(text: str) -> None:
    with pytest.raises(FunctionError):
        evaluate(text, ROW, COLUMNS)


@pytest.mark.parametrize(
    ("text", "pattern", "days"),
    [
        ("2018-05-11", "yyyy-MM-dd", 17662),
        ("11-MAY-2018", "dd-MMM-yyyy", 17662),
        ("20180511", "yyyyMMdd", 17662),
        ("May 2018", "MMM yyyy", 17652),
    ],
)
def test_dates_are_parsed_by_pattern(text: str, pattern: str, days: int) -> None:
    assert evaluate(f"PARSE_DATE({quoted(text)}, {quoted(pattern)})") == days
    assert evaluate(f"STRINGTODATE({quoted(text)}, {quoted(pattern)})") == days


def test_parse_date_is_lenient_and_stringtodate_is_not() -> None:
    for text in ("2018-05-11 rest", "2018-5-11", "2018-04-41", "2017-17-11"):
        assert evaluate(f"PARSE_DATE('{text}', 'yyyy-MM-dd')") == 17662
        with pytest.raises(FunctionError):
            evaluate(f"STRINGTODATE('{text}', 'yyyy-MM-dd')")
    assert evaluate("STRINGTODATE('2018-02-30', 'yyyy-MM-dd')") == evaluate("PARSE_DATE('2018-02-28', 'yyyy-MM-dd')")


def test_a_date_has_no_time_of_day() -> None:
    with pytest.raises(FunctionError, match="time of day"):
        evaluate("PARSE_DATE('2018-05-11 10', 'yyyy-MM-dd HH')")
    with pytest.raises(FunctionError, match="Unparseable"):
        evaluate("PARSE_DATE('11.5.', 'yyyy-MM-dd')")


@pytest.mark.parametrize(
    ("text", "pattern", "milliseconds"),
    [
        ("13:00:05", "HH:mm:ss", 46_805_000),
        ("01:00 Pm", "hh:mm a", 46_800_000),
        ("12 AM", "hh a", 0),
        ("13:00", "HH:mm[:ss]", 46_800_000),
        ("130005007", "HHmmssSSS", 46_805_007),
        ("24:00", "HH:mm", 0),
    ],
)
def test_times_are_parsed_by_pattern(text: str, pattern: str, milliseconds: int) -> None:
    assert evaluate(f"PARSE_TIME('{text}', '{pattern}')") == milliseconds


@pytest.mark.parametrize(
    ("text", "pattern"), [("25:00", "HH:mm"), ("05:00", "hh:mm"), ("x", "HH"), ("10:00 h", "HH:mm")]
)
def test_what_is_no_time_is_an_error(text: str, pattern: str) -> None:
    with pytest.raises(FunctionError):
        evaluate(f"PARSE_TIME('{text}', '{pattern}')")


@pytest.mark.parametrize(
    ("text", "pattern", "zone", "milliseconds"),
    [
        ("2018-05-11T21:58:33", "yyyy-MM-dd'T'HH:mm:ss", "UTC", 1_526_075_913_000),
        ("2018-05-11T21:58:33", "yyyy-MM-dd'T'HH:mm:ss", "Europe/Paris", 1_526_068_713_000),
        ("2018-05-11T21:58:33+02", "yyyy-MM-dd'T'HH:mm:ssX", "UTC", 1_526_068_713_000),
        ("2019-08-27T13:31:09.2+0000", "yyyy-MM-dd'T'HH:mm:ss.SX", "Asia/Tokyo", 1_566_912_669_200),
        ("2018-05-11 21:58 PDT", "yyyy-MM-dd HH:mm z", "UTC", 1_526_101_080_000),
        ("2018-05-11 21:58 Europe/Paris", "yyyy-MM-dd HH:mm VV", "UTC", 1_526_068_680_000),
        ("2018", "yyyy", "UTC", 1_514_764_800_000),
        ("10:30", "HH:mm", "UTC", 37_800_000),
        ("2019-03-31 02:30", "yyyy-MM-dd HH:mm", "Europe/Paris", 1_553_995_800_000),
    ],
)
def test_timestamps_are_parsed_in_their_own_zone_or_the_given_one(
    text: str, pattern: str, zone: str, milliseconds: int
) -> None:
    assert evaluate(f"PARSE_TIMESTAMP({quoted(text)}, {quoted(pattern)}, '{zone}')") == milliseconds
    assert evaluate(f"STRINGTOTIMESTAMP({quoted(text)}, {quoted(pattern)}, '{zone}')") == milliseconds


def test_a_day_of_the_week_must_be_that_of_the_date() -> None:
    assert evaluate("STRINGTODATE('Fri 2018-05-11', 'EEE yyyy-MM-dd')") == 17662
    with pytest.raises(FunctionError, match="day of week"):
        evaluate("STRINGTODATE('Mon 2018-05-11', 'EEE yyyy-MM-dd')")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("DATEADD(DAYS, 3, D)", 17665),
        ("DATEADD(HOURS, 47, D)", 17663),
        ("DATESUB(DAYS, -3, D)", 17665),
        ("DATEADD(HOURS, -1, FROM_DAYS(0))", 0),
        ("TIMEADD(HOURS, 12, T)", 3_605_007),
        ("TIMESUB(SECONDS, 46806, T)", 86_399_007),
        ("TIMESTAMPADD(MINUTES, 1, TS)", 1_526_075_973_042),
        ("TIMESTAMPSUB(MILLISECONDS, 42, TS)", 1_526_075_913_000),
        ("CONVERT_TZ(TS, '+0200', '+0500')", 1_526_086_713_042),
        ("CONVERT_TZ(TS, 'America/Los_Angeles', 'America/New_York')", 1_526_086_713_042),
        ("UNIX_DATE(D)", 17662),
        ("UNIX_TIMESTAMP(FROM_UNIXTIME(B))", 1_526_075_913_042),
        ("TO_JSON_STRING(FROM_DAYS(N))", '"2018-05-11"'),
    ],
)
def test_arithmetic_of_dates_and_times(text: str, value: object) -> None:
    assert evaluate(text, ROW, COLUMNS) == value


def test_now_is_now() -> None:
    assert abs(evaluate("UNIX_TIMESTAMP()") - time.time() * 1000) < 60_000
    assert abs(evaluate("UNIX_DATE()") - time.time() / 86_400) < 2


def test_a_moved_date_stays_in_range() -> None:
    with pytest.raises(FunctionError, match="no DATE"):
        evaluate("DATEADD(DAYS, 2147483647, D)", ROW, COLUMNS)
