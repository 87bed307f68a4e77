"""The proleptic calendar as whole numbers: days since 1970-01-01, of any year."""

from __future__ import annotations

MONTH_DAYS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_DAYS_OF_400_YEARS = 146_097
_DAYS_BEFORE_1970 = 719_468  # from the first of March of year 0


def is_leap(year: int) -> bool:
    """Whether a year has a 29th of February."""
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


def days_of_month(year: int, month: int) -> int:
    """How many days a month has."""
    return 29 if month == 2 and is_leap(year) else MONTH_DAYS[month - 1]


def to_days(year: int, month: int, day: int) -> int:
    """Days since 1970-01-01."""
    years = year - (month <= 2)
    era, year_of_era = divmod(years, 400)
    day_of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    day_of_era = year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + day_of_year
    return era * _DAYS_OF_400_YEARS + day_of_era - _DAYS_BEFORE_1970


def from_days(days: int) -> tuple[int, int, int]:
    """Year, month and day."""
    era, day_of_era = divmod(days + _DAYS_BEFORE_1970, _DAYS_OF_400_YEARS)
    year_of_era = (day_of_era - day_of_era // 1460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted_month = (5 * day_of_year + 2) // 153
    month = (shifted_month + 2) % 12 + 1
    return year_of_era + era * 400 + (month <= 2), month, day_of_year - (153 * shifted_month + 2) // 5 + 1


def day_of_week(days: int) -> int:
    """1 for Monday to 7 for Sunday."""
    return (days + 3) % 7 + 1


def us_day_of_week(days: int) -> int:
    """1 for Sunday to 7 for Saturday."""
    return (days + 4) % 7 + 1


def us_week(days: int) -> tuple[int, int]:
    """Year and number of the week, which starts on Sunday; the first one has the first of January."""
    year = from_days(days)[0]
    for candidate in (year + 1, year):
        first = week_start(to_days(candidate, 1, 1))
        if days >= first:
            return candidate, (days - first) // 7 + 1
    raise AssertionError("a day is in a week of its year or of the next")


def week_start(days: int) -> int:
    """The Sunday on or before a day."""
    return days - us_day_of_week(days) + 1
