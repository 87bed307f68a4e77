"""Where an application begins to read a topic for which it has no position."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, Literal

from hayase.core.errors import TopologyError
from hayase.core.windows import to_ms

_BY_DURATION: Final = "by_duration"
_DURATION = re.compile(r"P(?=.)(?:(\d+)D)?(?:T(?=.)(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d{1,3})?)S)?)?")
_MS = (86_400_000, 3_600_000, 60_000, 1_000)


@dataclass(frozen=True, slots=True)
class AutoOffsetReset:
    """Where an application begins to read a topic for which it has no position (Kafka Streams' class, KIP-1106).

    Positions are in the application's checkpoint, so this matters when it first starts, when a pattern matches a
    further topic, and after `hayase app reset`. Never later: input that is gone before it was read is an error, not a
    jump.

    Attributes:
        kind: `earliest`, `latest`, `none` or `by_duration`.
        duration_ms: how far back, of `by_duration`.

    Example:
        >>> str(AutoOffsetReset.by_duration(timedelta(hours=1)))
        'by_duration:PT3600S'
        >>> AutoOffsetReset.of("by_duration:P1DT12H").duration_ms
        129600000
    """

    kind: Literal["earliest", "latest", "none", "by_duration"]
    duration_ms: int | None = None

    @classmethod
    def earliest(cls) -> AutoOffsetReset:
        """Begin at the first record that the topic holds."""
        return cls("earliest")

    @classmethod
    def latest(cls) -> AutoOffsetReset:
        """Begin at the end: read only records that come from then on."""
        return cls("latest")

    @classmethod
    def none(cls) -> AutoOffsetReset:
        """Do not begin: without a position the application does not start (`NO_POSITION`)."""
        return cls("none")

    @classmethod
    def by_duration(cls, duration: timedelta) -> AutoOffsetReset:
        """At the first record that is not older than that, by its timestamp; at the end if there is none.

        Args:
            duration: before the time of the first epoch; not negative.

        Raises:
            TopologyError: `INVALID_DURATION`.
        """
        return cls(_BY_DURATION, to_ms("duration", duration))

    @classmethod
    def of(cls, given: AutoOffsetReset | str) -> AutoOffsetReset:
        """The policy itself, or by its name: `earliest`, `latest`, `none`, `by_duration:<ISO-8601 duration>`.

        Raises:
            TopologyError: `INVALID_RESET`.
        """
        if isinstance(given, AutoOffsetReset):
            return given
        match given:
            case "earliest" | "latest" | "none":
                return cls(given)
        kind, _, text = given.partition(":") if isinstance(given, str) else ("", "", "")
        duration = _DURATION.fullmatch(text) if kind == _BY_DURATION else None
        if duration is None:
            raise TopologyError(
                "INVALID_RESET",
                f"reset is {given!r}; allowed are AutoOffsetReset.earliest(), latest(), none() and by_duration(…), or "
                "as text 'earliest', 'latest', 'none' and a duration such as 'by_duration:PT1H30M'",
            )
        return cls(_BY_DURATION, round(sum(float(n or 0) * ms for n, ms in zip(duration.groups(), _MS, strict=True))))

    def __str__(self) -> str:
        if self.duration_ms is None:
            return self.kind
        seconds, ms = divmod(self.duration_ms, 1_000)
        return f"{self.kind}:PT{seconds}{f'.{ms:03}' if ms else ''}S"
