"""Checks of setting values: each says what is allowed, or nothing if the value is."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from hayase.core.errors import ConfigError

Check = Callable[[str], str | None]


def whole(smallest: int) -> Check:
    """A whole number, not smaller than that."""

    def check(value: str) -> str | None:
        try:
            return None if int(value) >= smallest else f"a whole number from {smallest}"
        except ValueError:
            return f"a whole number from {smallest}"

    return check


def one_of(*allowed: str) -> Check:
    """One of these words."""
    return lambda value: None if value in allowed else "one of " + ", ".join(allowed)


def check_setting(name: str, value: str, known: Mapping[str, Check], of: str) -> None:
    """Check that a setting is known and its value allowed.

    Raises:
        ConfigError: `UNKNOWN_SETTING`, with the known ones; `INVALID_SETTING`, with the values allowed.
    """
    if name not in known:
        raise ConfigError(
            "UNKNOWN_SETTING", f"{name!r} is no setting of {of}; it knows {', '.join(sorted(known))}", setting=name
        )
    allowed = known[name](value)
    if allowed is not None:
        raise ConfigError("INVALID_SETTING", f"{name} must be {allowed}, not {value!r}", setting=name)
