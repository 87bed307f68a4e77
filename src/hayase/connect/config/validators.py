"""Validators of configuration values, under Kafka's names and with its texts."""

from __future__ import annotations

import re
from collections.abc import Callable

from hayase.connect.config.config_def import Validator
from hayase.connect.config.types import invalid


def at_least(minimum: float) -> Validator:
    """A number from `minimum` on."""

    def check(name: str, value: object) -> None:
        if not isinstance(value, (int, float)):
            raise invalid(name, None, "Value must be non-null")
        if value < minimum:
            raise invalid(name, value, f"Value must be at least {minimum}")

    return check


def between(minimum: float, maximum: float) -> Validator:
    """A number from `minimum` to `maximum`, both included."""

    def check(name: str, value: object) -> None:
        at_least(minimum)(name, value)
        assert isinstance(value, (int, float))
        if value > maximum:
            raise invalid(name, value, f"Value must be no more than {maximum}")

    return check


def one_of(*allowed: str, ignore_case: bool = False) -> Validator:
    """One of these texts."""
    known = {each.lower() for each in allowed} if ignore_case else set(allowed)

    def check(name: str, value: object) -> None:
        given = value.lower() if ignore_case and isinstance(value, str) else value
        if given not in known:
            how = " (case insensitive)" if ignore_case else ""
            shown = [each.upper() for each in allowed] if ignore_case else allowed
            raise invalid(name, value, f"String must be one of{how}: {', '.join(shown)}")

    return check


def list_of(*allowed: str) -> Validator:
    """A list of these texts only."""

    def check(name: str, value: object) -> None:
        for each in value if isinstance(value, list) else ():
            one_of(*allowed)(name, each)

    return check


def non_empty(name: str, value: object) -> None:
    """A text that is not empty; absent is fine."""
    if value == "":
        raise invalid(name, value, "String must be non-empty")


def non_null(name: str, value: object) -> None:
    """A value that is set."""
    if value is None:
        raise invalid(name, value, "entry must be non null")


def non_empty_without_control_characters(name: str, value: object) -> None:
    """A text that is not empty and has no control characters; absent is fine."""
    if value == "":
        raise invalid(name, value, "String may not be empty")
    found = [each for each in str(value or "") if ord(each) < 32 or 127 <= ord(each) < 160]
    if found:
        codes = ", ".join(str(ord(each)) for each in found)
        raise invalid(
            name, value, f"String may not contain control sequences but had the following ASCII chars: {codes}"
        )


def matching(pattern: str, what: str) -> Validator:
    """A text that the regular expression matches whole; `what` says so to people. Absent is fine."""
    compiled = re.compile(pattern)

    def check(name: str, value: object) -> None:
        if isinstance(value, str) and not compiled.fullmatch(value):
            raise invalid(name, value, what)

    return check


def regular_expression(name: str, value: object) -> None:
    """A text that is a regular expression; absent is fine."""
    try:
        re.compile(str(value or ""))
    except re.error as error:
        raise invalid(name, value, f"Invalid regular expression: {error}") from None


def all_of(*validators: Validator) -> Validator:
    """What all of these allow."""

    def check(name: str, value: object) -> None:
        for validator in validators:
            validator(name, value)

    return check


def parsed_by(parse: Callable[[str], object], what: str) -> Validator:
    """A text that a function takes without a `ValueError`; `what` says what is allowed. Absent is fine."""

    def check(name: str, value: object) -> None:
        if isinstance(value, str):
            try:
                parse(value)
            except ValueError:
                raise invalid(name, value, what) from None

    return check
