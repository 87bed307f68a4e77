"""Times as texts by the patterns of Java's `SimpleDateFormat`, in UTC."""

from __future__ import annotations

from hayase.connect.exceptions import DataError
from hayase.core.errors import ConfigError, HayaseError
from hayase.sql.functions.java.simple_dates import parse_leniently, pattern_parts
from hayase.sql.functions.java.time_printing import print_timestamp
from hayase.sql.functions.java.zones import zone_of

_UTC = zone_of("UTC")
_DAY_MS = 86_400_000
_THURSDAY = 4  # 1970-01-01


class SimpleDateFormat:
    """A pattern, such as `yyyy-MM-dd'T'HH:mm:ss.SSSX`.

    Args:
        pattern: of Java's class of that name.

    Raises:
        ConfigError: `INVALID_SETTING`.

    Example:
        >>> SimpleDateFormat("yyyyMMdd").format(1_700_000_000_000)
        '20231114'
    """

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        try:
            self._parts = pattern_parts(pattern)
            self.format(0)
        except HayaseError as error:
            raise ConfigError(
                "INVALID_SETTING",
                "TimestampConverter requires a SimpleDateFormat-compatible pattern for string timestamps: "
                f"{pattern} ({error.message})",
                setting="format",
            ) from error

    def format(self, milliseconds: int) -> str:
        """A time in milliseconds since 1970 as text."""
        return "".join(literal or self._field(letter, count, milliseconds) for literal, letter, count in self._parts)

    def parse(self, text: str) -> int:
        """A text as milliseconds since 1970; what follows the last part of the pattern does not count.

        Raises:
            DataError: `INVALID_VALUE`.
        """
        try:
            return parse_leniently(text, self.pattern)
        except HayaseError as error:
            message = f"Could not parse timestamp: value ({text}) does not match pattern ({self.pattern})"
            raise DataError("INVALID_VALUE", message) from error

    @staticmethod
    def _field(letter: str, count: int, milliseconds: int) -> str:
        # What java.time, whose printer is used for the others, has under other letters.
        if letter == "S":
            return str(milliseconds % 1000).zfill(count)
        if letter == "u":
            return str((milliseconds // _DAY_MS + _THURSDAY - 1) % 7 + 1).zfill(count)
        return print_timestamp(milliseconds, letter * count, _UTC)
