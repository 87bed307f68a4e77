"""Limits of aggregates by settings: `ksql.functions.<name>.limit`."""

from __future__ import annotations

from collections.abc import Mapping

UNLIMITED = (1 << 31) - 1


def limit_of(function: str, settings: Mapping[str, object], default: int = UNLIMITED) -> int:
    """How many entries a function may hold; a negative limit means none."""
    value = settings.get(f"ksql.functions.{function}.limit")
    if value is None:
        return default
    try:
        limit = int(str(value))
    except ValueError:
        raise ValueError(f"ksql.functions.{function}.limit is {value!r}; give a whole number") from None
    return limit if limit >= 0 else UNLIMITED
