"""Patterns of LIKE: `%` is any text, `_` any character, and an escape character takes their meaning away."""

from __future__ import annotations

import re
from functools import lru_cache

_DEFAULT_ESCAPE = "\\"


@lru_cache(maxsize=256)
def like_pattern(pattern: str, escape: str | None = None) -> re.Pattern[str]:
    """The regular expression of a pattern, for `fullmatch`."""
    return re.compile(like_regex(pattern, escape), re.DOTALL)


def like_regex(pattern: str, escape: str | None = None) -> str:
    """The text of the regular expression of a pattern, in which a point is any character."""
    escape = escape or _DEFAULT_ESCAPE
    parts: list[str] = []
    escaped = False
    for character in pattern:
        if escaped:
            parts.append(re.escape(character))
            escaped = False
        elif character == escape:
            escaped = True
        else:
            parts.append({"%": ".*", "_": "."}.get(character) or re.escape(character))
    if escaped:
        parts.append(re.escape(escape))
    return "".join(parts)


def like(text: str, pattern: str, escape: str | None) -> bool:
    """Whether a text is like a pattern that is known only now."""
    return like_pattern(pattern, escape).fullmatch(text) is not None
