"""Functions of regular expressions, which are Java's."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from hayase.sql.errors import FunctionError
from hayase.sql.functions.java.regex import Pattern, compiled, expanded
from hayase.sql.functions.registry import scalar
from hayase.sql.functions.work_limit import at_most

_MATCH_S = 5.0
"""How long one call may match: patterns of a few characters can take longer than the world lasts."""
_P = ParamSpec("_P")
_R = TypeVar("_R")


def _in_time(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Makes an expression that takes too long an error of the function."""

    @wraps(function)
    def bounded(*args: _P.args, **named: _P.kwargs) -> _R:
        try:
            return function(*args, **named)
        except TimeoutError:
            raise FunctionError(
                "REGULAR_EXPRESSION_TOO_SLOW",
                f"the regular expression has matched for {_MATCH_S:g} s without a result; make it simpler: repetitions "
                "inside of repetitions, as in (a+)+, take that long",
            ) from None

    return bounded


def _checked_group(pattern: Pattern, group: int) -> int:
    if not 0 <= group <= pattern.groups:
        raise FunctionError(
            "NO_SUCH_GROUP",
            f"group {group} of a regular expression that has {pattern.groups}; give 0 to {pattern.groups}",
        )
    return group


@scalar("regexp_extract", "(STRING, STRING) -> STRING", "The first part of a text that matches a pattern.")
def regexp_extract(pattern: str, text: str) -> str | None:
    """REGEXP_EXTRACT: null without match."""
    return regexp_extract_group(pattern, text, 0)


@scalar("regexp_extract", "(STRING, STRING, INT) -> STRING", "A group of the first match of a pattern in a text.")
@_in_time
def regexp_extract_group(pattern: str, text: str, group: int) -> str | None:
    """REGEXP_EXTRACT of a group."""
    expression = compiled(pattern)
    _checked_group(expression, group)
    found = expression.search(text, timeout=at_most(_MATCH_S))
    return None if found is None else found[group]


@scalar("regexp_extract_all", "(STRING, STRING) -> ARRAY<STRING>", "All parts of a text that match a pattern.")
def regexp_extract_all(pattern: str, text: str) -> list[str | None]:
    """REGEXP_EXTRACT_ALL."""
    return regexp_extract_all_group(pattern, text, 0)


@scalar(
    "regexp_extract_all", "(STRING, STRING, INT) -> ARRAY<STRING>", "A group of all matches of a pattern in a text."
)
@_in_time
def regexp_extract_all_group(pattern: str, text: str, group: int) -> list[str | None]:
    """REGEXP_EXTRACT_ALL of a group."""
    expression = compiled(pattern)
    _checked_group(expression, group)
    return [found[group] for found in expression.finditer(text, timeout=at_most(_MATCH_S))]


@scalar(
    "regexp_replace", "(STRING, STRING, STRING) -> STRING",
    "The text with all matches of a pattern replaced; $1 and ${name} in the replacement are groups.",
)  # fmt: skip
@_in_time
def regexp_replace(text: str, pattern: str, replacement: str) -> str:
    """REGEXP_REPLACE."""
    return str(compiled(pattern).sub(lambda found: expanded(found, replacement), text, timeout=at_most(_MATCH_S)))


@scalar(
    "regexp_split_to_array", "(STRING, STRING) -> ARRAY<STRING>", "The parts of a text between matches of a pattern."
)
@_in_time
def regexp_split_to_array(text: str, pattern: str) -> list[str]:
    """REGEXP_SPLIT_TO_ARRAY: a pattern that matches nothing splits all characters and drops empty parts at the end."""
    expression = compiled(pattern)
    parts: list[str] = []
    start = 0
    splits_empty = expression.fullmatch("", timeout=at_most(_MATCH_S)) is not None
    for found in expression.finditer(text, timeout=at_most(_MATCH_S)):
        if found.end() == (0 if splits_empty else start) and found.start() == found.end():
            continue  # nothing is split off at the start of a part
        parts.append(text[start : found.start()])
        start = found.end()
    parts.append(text[start:])
    while splits_empty and len(parts) > 1 and not parts[-1]:
        parts.pop()
    return parts
