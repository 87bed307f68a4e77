"""Patterns of LIKE: `%` is any text, `_` any character, and an escape character takes their meaning away."""

from __future__ import annotations

import re
from functools import lru_cache

_DEFAULT_ESCAPE = "\\"


@lru_cache(maxsize=256)
def like_pattern(pattern: str, escape: str | None = None) -> re.Pattern[str]:
    """The regular expression of a pattern, for `fullmatch`."""
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
    return re.compile("".join(parts), re.DOTALL)


def like(text: str, pattern: str, escape: str | None) -> bool:
    """Whether a text is like a pattern that is known only now."""
    return like_pattern(pattern, escape).fullmatch(text) is not None
