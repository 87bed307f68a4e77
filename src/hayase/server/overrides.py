"""Settings that a request brings along: which names it may set."""

from __future__ import annotations

from collections.abc import Mapping

from hayase.server.errors import BAD_REQUEST, RequestError
from hayase.server.settings import ServerSettings
from hayase.sql.errors import StatementError
from hayase.sql.settings import check_setting, plain_setting_name

_IGNORED = "request."


def checked_overrides(given: Mapping[str, object], settings: ServerSettings) -> dict[str, object]:
    """Settings of a request, by the names that count.

    Raises:
        RequestError: one is unknown, its value is not allowed, or the server does not let requests set it.
    """
    for name, value in given.items():
        check_override(name, settings, value)
    return {plain_setting_name(name): value for name, value in given.items() if value is not None}


def check_override(name: str, settings: ServerSettings, value: object = None) -> None:
    """Whether requests may set a setting, and to a value if there is one; raises RequestError."""
    if name.startswith(_IGNORED):
        return
    try:
        check_setting(name, value)
    except StatementError as error:
        raise RequestError(BAD_REQUEST, error.condition, error.message) from error
    plain = plain_setting_name(name)
    denied = {plain_setting_name(each) for each in settings.denied_overrides}
    allowed = {plain_setting_name(each) for each in settings.allowed_overrides}
    if plain in denied or (allowed and plain not in allowed):
        raise RequestError(
            BAD_REQUEST,
            "OVERRIDE_NOT_ALLOWED",
            f"One or more properties overrides set locally are prohibited by the KSQL server: [{name}]. Set it for the "
            "server, or have it taken from ksql.properties.overrides.denylist",
        )
