"""Patterns of LIKE: `%` is any text, `_` any character, and an escape character takes their meaning away."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

import regex

from hayase.sql.errors import FunctionError
from hayase.sql.functions.work_limit import at_most

_DEFAULT_ESCAPE = "\\"
_MATCH_S = 5.0
"""How long a part of a pattern with `_` may be sought; one without is found in time that grows with the text alone."""


class LikePattern:
    """A pattern, for any number of texts.

    The parts between `%` are sought one behind the other, each at the first place where it is: where a text matches at
    all, it does so with these places. So no pattern takes longer than its length times that of the text.
    """

    def __init__(self, pattern: str, escape: str | None = None) -> None:
        parts = list(_parts(pattern, escape))
        self._first, *self._inner = map(_Part, parts)
        self._last = self._inner.pop() if self._inner else None

    def matches(self, text: str) -> bool:
        """Whether the whole text is like the pattern; raises FunctionError where that takes too long."""
        if self._last is None:
            return len(text) == self._first.length and self._first.is_at(text, 0)
        end = len(text) - self._last.length
        place = self._first.length
        if end < place or not self._first.is_at(text, 0) or not self._last.is_at(text, end):
            return False
        for part in self._inner:
            found = part.find(text, place, end)
            if found < 0:
                return False
            place = found + part.length
        return True


_ANY = None
"""`_` in a part."""
_Characters = list[str | None]


class _Part:
    """A pattern without `%`."""

    def __init__(self, characters: _Characters) -> None:
        self.length = len(characters)
        self._text: str | None = None
        self._pattern: regex.Pattern[str] | None = None
        if _ANY in characters:
            parts = ["." if each is _ANY else re.escape(each) for each in characters]
            self._pattern = regex.compile("".join(parts), regex.DOTALL)
        else:
            self._text = "".join(each for each in characters if each is not _ANY)

    def is_at(self, text: str, place: int) -> bool:
        """Whether it stands at a place of a text."""
        if self._pattern is None:
            return text.startswith(self._text or "", place)
        return self._pattern.match(text, place) is not None

    def find(self, text: str, begin: int, end: int) -> int:
        """The first place where it stands between two places of a text; -1: nowhere."""
        if self._pattern is None:
            return text.find(self._text or "", begin, end)
        try:
            found = self._pattern.search(text, begin, end, timeout=at_most(_MATCH_S))
        except TimeoutError:
            raise FunctionError("LIKE_TOO_SLOW", f"LIKE has sought for {_MATCH_S:g} s without a result") from None
        return -1 if found is None else found.start()


def _parts(pattern: str, escape: str | None) -> Iterator[_Characters]:
    """The parts between `%`: at least one."""
    part: _Characters = []
    for character, is_special in _characters(pattern, escape):
        if is_special and character == "%":
            yield part
            part = []
        else:
            part.append(_ANY if is_special else character)
    yield part


def _characters(pattern: str, escape: str | None) -> Iterator[tuple[str, bool]]:
    """The characters of a pattern, and whether one is `%` or `_` with its meaning."""
    escape = escape or _DEFAULT_ESCAPE
    escaped = False
    for character in pattern:
        if escaped:
            yield character, False
            escaped = False
        elif character == escape:
            escaped = True
        else:
            yield character, character in "%_"
    if escaped:
        yield escape, False


@lru_cache(maxsize=256)
def like_pattern(pattern: str, escape: str | None = None) -> LikePattern:
    """A pattern, compiled."""
    return LikePattern(pattern, escape)


def like_regex(pattern: str, escape: str | None = None) -> str:
    """A pattern as the text of a regular expression for Polars, whose time grows with the text alone."""
    special = {"%": ".*", "_": "."}
    return "".join(
        special[character] if is_special else re.escape(character)
        for character, is_special in _characters(pattern, escape)
    )


def like(text: str, pattern: str, escape: str | None) -> bool:
    """Whether a text is like a pattern that is known only now; raises FunctionError where that takes too long."""
    return like_pattern(pattern, escape).matches(text)
