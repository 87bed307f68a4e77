"""Time zones as java.time.ZoneId names them: offsets, and regions of the tz database."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache, lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from hayase.sql.errors import FunctionError

MAX_OFFSET_S = 18 * 3600
_OFFSET = re.compile(r"([+-])(\d\d?)(?::?([0-5]\d)(?::?([0-5]\d))?)?")
_PREFIXED = re.compile(r"(UTC|GMT|UT)([+-].*)?")
_REGION = re.compile(r"[A-Za-z][A-Za-z0-9~/._+-]+")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MIN_S = -62_135_510_400  # a day after the first that datetime knows, and one before its last
_MAX_S = 253_402_214_400
_LONG_NAMES = {
    "UTC": "Coordinated Universal Time", "GMT": "Greenwich Mean Time", "BST": "British Summer Time",
    "WET": "Western European Standard Time", "WEST": "Western European Summer Time",
    "CET": "Central European Standard Time", "CEST": "Central European Summer Time",
    "EET": "Eastern European Standard Time", "EEST": "Eastern European Summer Time",
    "MSK": "Moscow Standard Time", "IST": "India Standard Time", "JST": "Japan Standard Time",
    "KST": "Korean Standard Time", "HKT": "Hong Kong Standard Time", "PKT": "Pakistan Standard Time",
    "WIB": "Western Indonesia Time", "SAST": "South Africa Standard Time", "EAT": "East Africa Time",
    "WAT": "West Africa Standard Time", "CAT": "Central Africa Time", "AEST": "Australian Eastern Standard Time",
    "AEDT": "Australian Eastern Daylight Time", "ACST": "Australian Central Standard Time",
    "ACDT": "Australian Central Daylight Time", "AWST": "Australian Western Standard Time",
    "NZST": "New Zealand Standard Time", "NZDT": "New Zealand Daylight Time",
    "PST": "Pacific Standard Time", "PDT": "Pacific Daylight Time", "MST": "Mountain Standard Time",
    "MDT": "Mountain Daylight Time", "CST": "Central Standard Time", "CDT": "Central Daylight Time",
    "EST": "Eastern Standard Time", "EDT": "Eastern Daylight Time", "AST": "Atlantic Standard Time",
    "ADT": "Atlantic Daylight Time", "NST": "Newfoundland Standard Time", "NDT": "Newfoundland Daylight Time",
    "AKST": "Alaska Standard Time", "AKDT": "Alaska Daylight Time", "HST": "Hawaii-Aleutian Standard Time",
}  # fmt: skip
_LOCAL_LONG_NAMES = {
    ("Asia/Shanghai", "CST"): "China Standard Time", ("Asia/Taipei", "CST"): "Taipei Standard Time",
    ("Asia/Jerusalem", "IST"): "Israel Standard Time", ("Europe/Dublin", "IST"): "Irish Standard Time",
}  # fmt: skip
_NEGATIVE_SAVING = {"Europe/Dublin"}  # the tz database calls its winter time the exception
_UNNAMED = {
    "Asia/Singapore": ("SGT", "Singapore Standard Time"), "Asia/Dubai": ("GST", "Gulf Standard Time"),
    "Asia/Kathmandu": ("NPT", "Nepal Time"), "Asia/Bangkok": ("ICT", "Indochina Time"),
    "Europe/Istanbul": ("TRT", "Turkey Time"), "America/Sao_Paulo": ("BRT", "Brasilia Standard Time"),
    "America/Bogota": ("COT", "Colombia Standard Time"), "America/Lima": ("PET", "Peru Standard Time"),
    "America/Argentina/Buenos_Aires": ("ART", "Argentina Standard Time"),
}  # fmt: skip
ABBREVIATIONS = {
    "PST": "America/Los_Angeles", "PDT": "America/Los_Angeles", "MST": "America/Denver", "MDT": "America/Denver",
    "CST": "America/Chicago", "CDT": "America/Chicago", "EST": "America/New_York", "EDT": "America/New_York",
    "AKST": "America/Anchorage", "AKDT": "America/Anchorage", "HST": "Pacific/Honolulu", "BST": "Europe/London",
    "WET": "Europe/Lisbon", "WEST": "Europe/Lisbon", "CET": "Europe/Paris", "CEST": "Europe/Paris",
    "EET": "Europe/Bucharest", "EEST": "Europe/Bucharest", "MSK": "Europe/Moscow", "IST": "Asia/Kolkata",
    "JST": "Asia/Tokyo", "KST": "Asia/Seoul", "AEST": "Australia/Sydney", "AEDT": "Australia/Sydney",
    "NZST": "Pacific/Auckland", "NZDT": "Pacific/Auckland", "UTC": "UTC", "GMT": "GMT", "UT": "UTC", "Z": "Z",
}  # fmt: skip
"""The zones that names in texts mean."""


@dataclass(frozen=True, slots=True)
class Zone:
    """A zone: a fixed offset, or a region."""

    id: str
    offset_s: int = 0
    region: ZoneInfo | None = None

    def offset_at(self, epoch_s: int) -> int:
        """The offset in seconds at an instant."""
        return self.offset_s if self.region is None else _seconds(_at(epoch_s).astimezone(self.region))

    def offset_of_local(self, local_s: int) -> int:
        """The offset in seconds at a local time: in a gap and in an overlap that before the change."""
        if self.region is None:
            return self.offset_s
        return _seconds(_at(local_s).replace(tzinfo=self.region))

    def name(self, epoch_s: int, long: bool) -> str:
        """The name at an instant, such as PDT or Pacific Daylight Time: as it is called today."""
        if self.region is None:
            return _LONG_NAMES.get(self.id, self.id) if long else self.id
        if self.id in _UNNAMED:
            return _UNNAMED[self.id][long]
        standard, daylight = _names_today(self.region)
        saving = _at(epoch_s).astimezone(self.region).dst()
        short = daylight if bool(saving) != (self.id in _NEGATIVE_SAVING) else standard
        if not short[:1].isalpha():
            return localized_offset(self.offset_at(epoch_s), full=True)
        if not long:
            return short
        return _LOCAL_LONG_NAMES.get((self.id, short)) or _LONG_NAMES.get(short, self.id)


@cache
def _names_today(region: ZoneInfo) -> tuple[str, str]:
    """The abbreviations in winter and in summer."""
    moments = [datetime(2024, month, 15, tzinfo=UTC).astimezone(region) for month in (1, 7)]
    moments.sort(key=_seconds)
    return moments[0].tzname() or "", moments[1].tzname() or ""


def _at(epoch_s: int) -> datetime:
    return _EPOCH + timedelta(seconds=max(_MIN_S, min(epoch_s, _MAX_S)))


def _seconds(moment: datetime) -> int:
    offset = moment.utcoffset()
    assert offset is not None
    return int(offset.total_seconds())


def offset_text(offset_s: int) -> str:
    """The ID of an offset: Z, +02:00, -00:01:30."""
    if offset_s == 0:
        return "Z"
    hours, rest = divmod(abs(offset_s), 3600)
    minutes, seconds = divmod(rest, 60)
    text = f"{'-' if offset_s < 0 else '+'}{hours:02d}:{minutes:02d}"
    return f"{text}:{seconds:02d}" if seconds else text


def localized_offset(offset_s: int, full: bool) -> str:
    """GMT, GMT+8, GMT+08:00."""
    if offset_s == 0:
        return "GMT"
    hours, rest = divmod(abs(offset_s), 3600)
    minutes, seconds = divmod(rest, 60)
    text = f"GMT{'-' if offset_s < 0 else '+'}{f'{hours:02d}:{minutes:02d}' if full else hours}"
    if not full and (minutes or seconds):
        text += f":{minutes:02d}"
    return f"{text}:{seconds:02d}" if seconds else text


UTC_ZONE = Zone("UTC")


@lru_cache(maxsize=1024)
def zone_of(text: str) -> Zone:
    """The zone of an ID: Z, +02:00, UTC+2, Europe/Paris; a `FunctionError` if it is none."""
    if text == "Z":
        return Zone("Z")
    if text[:1] in ("+", "-"):
        offset = _offset(text)
        return Zone(offset_text(offset), offset)
    prefixed = _PREFIXED.fullmatch(text)
    if prefixed is not None:
        if prefixed[2] is None:
            return Zone(text)
        offset = _offset(prefixed[2])
        return Zone(prefixed[1] + (offset_text(offset) if offset else ""), offset)
    if _REGION.fullmatch(text):
        try:
            return Zone(text, region=ZoneInfo(text))
        except (ZoneInfoNotFoundError, ValueError, OSError):
            pass
    raise _unknown(text)


def _offset(text: str) -> int:
    found = _OFFSET.fullmatch(text)
    if found is None or (len(found[2]) == 1 and found[3] is not None):
        raise _unknown(text)
    seconds = int(found[2]) * 3600 + int(found[3] or 0) * 60 + int(found[4] or 0)
    if seconds > MAX_OFFSET_S:
        raise _unknown(text)
    return -seconds if found[1] == "-" else seconds


def _unknown(text: str) -> FunctionError:
    return FunctionError(
        "UNKNOWN_TIME_ZONE",
        f"Invalid time zone {text!r:.80}; give an offset such as +02:00, or a region such as Europe/Paris",
    )
